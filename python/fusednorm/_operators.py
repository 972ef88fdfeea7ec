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

# Each forward operator, and the one that computes the same with a dtype of its own for the output.
FORWARD: dict[OpOverload, OpOverload] = {
    _ops.layer_norm.default: _ops.layer_norm_forward.default,
    _ops.layer_norm_forward.default: _ops.layer_norm_forward.default,
    _ops.layer_norm_memory_efficient_forward.default: (
        _ops.layer_norm_memory_efficient_forward.default
    ),
}
BACKWARD: tuple[OpOverload, ...] = (
    _ops.layer_norm_backward.default,
    _ops.layer_norm_memory_efficient_backward.default,
)


def bind(operator: OpOverload, values: Sequence[Any]) -> dict[str, Any]:
    """Name positional values; arguments that were left out get their defaults.

    >>> bind(torch.ops.aten.elu.default, ["x", 2.0])
    {'self': 'x', 'alpha': 2.0, 'scale': 1, 'input_scale': 1}
    """
    arguments = operator._schema.arguments
    defaults = {argument.name: argument.default_value for argument in arguments}
    return defaults | dict(zip(defaults, values, strict=False))


def bind_dims(operator: OpOverload, dims: Sequence[Any]) -> dict[str, Any]:
    """Name the batch dimensions of positional arguments; the others have none."""
    return dict.fromkeys(bind(operator, ())) | dict(zip(bind(operator, ()), dims, strict=False))
