# SPDX-License-Identifier: Apache-2.0
"""A recipe: how a norm class computes, in the terms of our operators, and when it applies."""

import importlib
import sys
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Module, Parameter

from fusednorm import _build, apex

Pair = tuple[torch.dtype, torch.dtype | None]  # of the input and of the parameters

DEVICES = ("cpu", "meta", "cuda") if _build.WITH_CUDA else ("cpu", "meta")


@dataclass(frozen=True)
class Recipe:
    """What :func:`fusednorm.convert` found out about a module by running it.

    ``pairs`` and ``ranks`` are the dtypes and numbers of dimensions for which the module's own
    forward gave the same result; for any other input that forward goes on being used.
    """

    operation: str  # layer_norm or rms_norm
    rounding: str  # once, via_x or via_param
    offset: float  # added to the weight
    output: str  # input, weight or promoted: whose dtype the result has
    weight: str | None  # names of attributes, which are read at each call
    bias: str | None
    eps_name: str | None  # None: the class has it as a constant, eps
    eps: float | None
    shape_name: str | None  # attribute with the normalised shape, where there is no parameter
    per_head: bool  # parameters are (heads, columns): row r uses line r % heads
    argument: str  # name of forward's first argument
    pairs: frozenset[Pair]
    ranks: frozenset[int]
    autocast: str  # under autocast: cast (as the operator does), keep (ignores it) or own forward

    def parameter(self, module: Module) -> Tensor | None:
        """Return the weight, or the bias of a norm that has nothing else."""
        name = self.weight or self.bias
        return None if name is None else getattr(module, name)

    def refusal(self, module: Module, input: object) -> str:
        """Return why this input takes the module's own forward; empty if it does not."""
        if not isinstance(input, Tensor) or not _plain(input):
            return f"input is a {type(input).__name__}"
        parameter = self.parameter(module)
        dtype = None
        if parameter is not None:
            if not _plain(parameter):
                return f"weight is a {type(parameter).__name__}"
            if _is_dtensor(parameter) != _is_dtensor(input):
                return "one of input and weight is a DTensor, the other is not"
            dtype = parameter.dtype
        if (input.dtype, dtype) not in self.pairs:
            return f"dtypes {input.dtype} and {dtype}"
        if input.device.type not in DEVICES:
            return f"device {input.device.type}"
        if input.layout is not torch.strided or input.is_nested:
            return "layout"
        if input.dim() not in self.ranks:
            return f"{input.dim()} dimensions"
        if self.autocast == "own" and torch.is_autocast_enabled(input.device.type):
            return "autocast"
        shape = self._expected(module, parameter)
        if shape is not None and tuple(input.shape[input.dim() - len(shape) :]) != shape:
            return f"shape {tuple(input.shape)}"
        return ""

    def _expected(self, module: Module, parameter: Tensor | None) -> tuple[int, ...] | None:
        if parameter is not None:
            return tuple(parameter.shape)
        return None if self.shape_name is None else tuple(getattr(module, self.shape_name))

    def __call__(self, module: Module, input: Tensor) -> Tensor:
        """Compute the module's result with the fused operator."""
        weight = None if self.weight is None else getattr(module, self.weight)
        bias = None if self.bias is None else getattr(module, self.bias)
        eps = self.eps if self.eps_name is None else getattr(module, self.eps_name)
        shape = self._expected(module, weight if weight is not None else bias)
        shape = (input.shape[-1],) if shape is None else shape[-1:] if self.per_head else shape
        if torch.jit.is_tracing():  # where sizes are tensors
            shape = tuple(int(size) for size in shape)
        kind = input.device.type
        if self.autocast == "keep" and kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                return self.apply(input, shape, weight, bias, eps)
        return self.apply(input, shape, weight, bias, eps)

    def apply(
        self,
        input: Tensor,
        shape: tuple[int, ...],
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float | None,
    ) -> Tensor:
        """Call the operator on tensors."""
        parameter = weight if weight is not None else bias
        dtype = _output_dtype(self.output, input, parameter)
        return normalise(
            self.operation,
            input,
            shape,
            weight,
            bias,
            eps,
            self.offset,
            self.rounding,
            dtype,
            self.per_head,
        )

    def with_rounding(self, rounding: str) -> "Recipe":
        """Return the recipe with another rounding; the dtype of the result stays."""
        return replace(self, rounding=rounding)

    def __str__(self) -> str:
        """Name the recipe as the documentation does."""
        words = [self.operation, self.rounding]
        words += [f"offset {self.offset:g}"] if self.offset else []
        words += ["per head"] if self.per_head else []
        return ", ".join([*words, _RESULT[self.output]])


@dataclass(frozen=True)
class ApexRecipe:
    """A class of apex, whose own forward needs a GPU and cannot be probed: known by its name."""

    name: str
    argument: str = "input"

    def refusal(self, module: Module, input: object) -> str:
        """Return why this input takes apex's forward; empty if it does not."""
        plain = isinstance(input, Tensor) and _plain(input)
        return "" if plain else f"input is a {type(input).__name__}"

    def __call__(self, module: Module, input: Tensor) -> Tensor:
        """Compute what our class of the same name does."""
        return getattr(apex, self.name).forward(module, input)

    def with_rounding(self, rounding: str) -> "ApexRecipe":
        """Return the recipe as it is: there is one rounding."""
        return self

    def __str__(self) -> str:
        """Name the recipe as the documentation does."""
        return f"fusednorm.apex.{self.name}"


_RESULT = {"input": "input's dtype", "weight": "weight's dtype", "promoted": "promoted dtype"}


def normalise(
    operation: str,
    input: Tensor,
    shape: tuple[int, ...],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float | None,
    offset: float,
    rounding: str,
    dtype: torch.dtype | None,
    per_head: bool,
) -> Tensor:
    """Call the fused operator of a recipe."""
    ops = torch.ops.fusednorm
    if operation == "rms_norm":
        return ops.rms_norm(
            input, shape, weight, eps, bias=bias, offset=offset, rounding=rounding, dtype=dtype
        )
    if rounding == "once" and not offset and dtype in (None, input.dtype) and not per_head:
        return ops.layer_norm(input, shape, weight, bias, eps)
    return ops.layer_norm_rounded(
        input, shape, weight, bias, eps, offset=offset, rounding=rounding, dtype=dtype
    )


def _plain(tensor: Tensor) -> bool:
    """Return whether the operators take this tensor: no subclass that needs rules of its own."""
    kind = type(tensor)
    return kind is Tensor or kind is Parameter or kind is FakeTensor or _is_dtensor(tensor)


def _is_dtensor(tensor: Tensor) -> bool:
    # Not imported here: that takes a second, and before it there is no DTensor either.
    module = sys.modules.get("torch.distributed.tensor")
    if module is None or type(tensor) is not module.DTensor:
        return False
    if "fusednorm.distributed" not in sys.modules:
        importlib.import_module("fusednorm.distributed")  # registers the sharding rules
    return True


def _output_dtype(rule: str, input: Tensor, parameter: Tensor | None) -> torch.dtype:
    if parameter is None or rule == "input":
        return input.dtype
    if rule == "weight":
        return parameter.dtype
    return torch.promote_types(input.dtype, parameter.dtype)
