# SPDX-License-Identifier: Apache-2.0
"""The operators, and the arguments of a call by the names that their schemas give them.

The C++ library registers the schemas; nothing here repeats a signature. A rule for ``vmap`` or
DTensor reads and replaces arguments by name, so it serves every operator that has those arguments.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload

_ops = torch.ops.fusednorm

# Each forward operator, and the one that normalises a single tensor the same way, returns the same
# statistics after the output and takes the output's dtype.
FORWARD: dict[OpOverload, OpOverload] = {
    _ops.layer_norm.default: _ops.layer_norm_forward.default,
    _ops.layer_norm_forward.default: _ops.layer_norm_forward.default,
    _ops.layer_norm_memory_efficient_forward.default: (
        _ops.layer_norm_memory_efficient_forward.default
    ),
    _ops.layer_norm_rounded.default: _ops.layer_norm_forward.default,
    _ops.layer_norm_rounded_forward.default: _ops.layer_norm_forward.default,
    _ops.rms_norm.default: _ops.rms_norm_forward.default,
    _ops.rms_norm_forward.default: _ops.rms_norm_forward.default,
    _ops.rms_norm_memory_efficient_forward.default: _ops.rms_norm_memory_efficient_forward.default,
    _ops.add_layer_norm.default: _ops.layer_norm_forward.default,
    _ops.add_layer_norm_forward.default: _ops.layer_norm_forward.default,
    _ops.add_rms_norm.default: _ops.rms_norm_forward.default,
    _ops.add_rms_norm_forward.default: _ops.rms_norm_forward.default,
}
IN_PLACE: tuple[OpOverload, ...] = (_ops.add_layer_norm_.default, _ops.add_rms_norm_.default)
BACKWARD: tuple[OpOverload, ...] = (
    _ops.layer_norm_backward.default,
    _ops.layer_norm_memory_efficient_backward.default,
    _ops.layer_norm_rounded_backward.default,
    _ops.rms_norm_backward.default,
    _ops.rms_norm_memory_efficient_backward.default,
    _ops.add_layer_norm_backward.default,
    _ops.add_rms_norm_backward.default,
)


def is_centred(operator: OpOverload) -> bool:
    """Whether the norm subtracts the mean.

    >>> is_centred(_ops.layer_norm.default), is_centred(_ops.add_rms_norm.default)
    (True, False)
    """
    return "rms_norm" not in operator._schema.name


def saved_name(arguments: dict[str, Any]) -> str:
    """Return which argument of a backward operator holds what the forward pass has kept."""
    return next(name for name in ("input", "sum", "output") if name in arguments)


def bind(operator: OpOverload, values: Sequence[Any], /, **named: Any) -> dict[str, Any]:
    """Name positional values; arguments that were left out get their defaults.

    >>> bind(torch.ops.aten.elu.default, ["x", 2.0], scale=3)
    {'self': 'x', 'alpha': 2.0, 'scale': 3, 'input_scale': 1}
    """
    arguments = operator._schema.arguments
    defaults = {argument.name: argument.default_value for argument in arguments}
    return defaults | dict(zip(defaults, values, strict=False)) | named


def bind_dims(operator: OpOverload, dims: Sequence[Any]) -> dict[str, Any]:
    """Name the batch dimensions of positional arguments; the others have none."""
    return dict.fromkeys(bind(operator, ())) | dict(zip(bind(operator, ()), dims, strict=False))
