# SPDX-License-Identifier: Apache-2.0
"""A module's twin: the same class and plain attributes, other parameters, no hooks.

The probe runs twins, never the module itself. So a model on the meta device is probed like any
other, and no hook or parameter of the model is touched.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from fusednorm.conversion.candidates import base_class, tensors

ELEMENTS = 4096  # of the data, at least
# Instance attributes that are no setting of the module: accelerate's and our own.
_NOT_SETTINGS = ("forward", "_old_forward", "_hf_hook")
# What autocast runs in float32 on CUDA, of the functions that norms are made of.
_FLOAT32_LIST = ("layer_norm", "rms_norm", "pow", "__pow__", "rsqrt", "reciprocal", "norm", "sum")


def settings(module: Module) -> dict[str, Any]:
    """Return the attributes on which a module's forward may depend, parameters apart."""
    internal = vars(Module())
    return {
        name: value
        for name, value in vars(module).items()
        if name not in internal
        and name not in _NOT_SETTINGS
        and "fusednorm" not in name
        and not isinstance(value, Tensor)
    }


@dataclass
class Data:
    """Rows and parameters in float32, from which any dtype is made."""

    rows: Tensor  # rows x columns
    parameters: dict[str, Tensor]
    shape: tuple[int, ...]
    device: str

    def input(self, dtype: torch.dtype, leading: int = 2) -> Tensor:
        """Return the rows with so many dimensions before the normalised ones."""
        count = len(self.rows)
        sizes = [count] if leading == 1 else [2, *[1] * (leading - 2), count // 2]
        rows = self.rows[0] if leading == 0 else self.rows
        return rows.reshape(*(sizes if leading else []), *self.shape).to(self.device, dtype)

    def cast(self, dtype: torch.dtype | None) -> dict[str, Tensor]:
        """Return the parameters in a dtype."""
        return {name: value.to(self.device, dtype) for name, value in self.parameters.items()}


def make_data(names: Sequence[str], shape: tuple[int, ...], device: str) -> Data:
    """Return rows of several sizes, off centre, and parameters around 0.7 and 0.3."""
    generator = torch.Generator().manual_seed(17)
    columns = max(1, math.prod(shape))
    count = 4 * max(1, math.ceil(ELEMENTS / (4 * columns)))
    rows = torch.randn(count, columns, generator=generator) + 0.5
    rows *= torch.tensor([1.0, 2.0**-6, 4.0, 2.0**-3]).repeat(count // 4)[:, None]
    parameters = {
        name: torch.randn(shape, generator=generator) * 0.3 + centre
        for name, centre in zip(names, (0.7, 0.3), strict=False)
    }
    return Data(rows, parameters, shape, device)


class Twin:
    """Runs the forward of a module's class on given data."""

    def __init__(self, module: Module) -> None:
        self.kind = base_class(module)
        self.settings = settings(module)
        self.absent = [name for name, value in module._parameters.items() if value is None]
        devices = {tensor.device.type for tensor in tensors(module).values()}
        self.device = "cuda" if devices == {"cuda"} else "cpu"

    def __call__(
        self, input: Tensor, parameters: dict[str, Tensor], training: bool = True, **changed: Any
    ) -> Any:
        """Run it, with some of its settings changed."""
        module = self.kind.__new__(self.kind)
        Module.__init__(module)
        vars(module).update(self.settings)
        module._parameters.update(dict.fromkeys(self.absent) | parameters)  # type: ignore[arg-type]
        module.training = training
        for name, value in changed.items():
            setattr(module, name, value)
        return module.forward(input)


class Float32List(TorchFunctionMode):
    """What autocast does on CUDA, on any device: some functions get float32."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call ``func``, with half-precision tensors as float32 if it is listed."""
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _FLOAT32_LIST:
            args = [_as_float32(value) for value in args]
            kwargs = {name: _as_float32(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)


def _as_float32(value: Any) -> Any:
    half = isinstance(value, Tensor) and value.dtype in (torch.float16, torch.bfloat16)
    return value.to(torch.float32) if half else value
