# SPDX-License-Identifier: Apache-2.0
"""The names and signatures of ``apex.normalization``: change the import and the migration is done.

>>> from fusednorm.apex import FusedLayerNorm  # was: from apex.normalization import FusedLayerNorm
>>> FusedLayerNorm(16)(torch.randn(2, 16)).shape
torch.Size([2, 16])

Where apex is wrong (weights that are zero, several devices, sizes past 2^31) these are right; where
it is right they agree with it. RMSNorm rounds the normalised values to the dtype of the output
before it multiplies by the weight, as apex's kernels do (``rounding="via_param"``), and casts its
arguments to the dtype of CUDA's autocast, where that is on.
"""

import numbers
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

Shape = int | Sequence[int] | torch.Size


def _shape(normalized_shape: Shape) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)  # type: ignore[arg-type]


def _normalize(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    normalized_shape: Shape,
    eps: float,
    memory_efficient: bool,
    dtype: torch.dtype | None = None,
) -> Tensor:
    shape = _shape(normalized_shape)
    if memory_efficient:
        return torch.ops.fusednorm.layer_norm_memory_efficient_forward(
            input, shape, weight, bias, eps, dtype
        )[0]
    if dtype is None:
        return torch.ops.fusednorm.layer_norm(input, shape, weight, bias, eps)
    return torch.ops.fusednorm.layer_norm_forward(input, shape, weight, bias, eps, dtype)[0]


def fused_layer_norm(
    input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """Normalise without parameters.

    >>> fused_layer_norm(torch.tensor([[-1.0, 1.0]]), 2, eps=0.0)
    tensor([[-1.,  1.]])
    """
    return _normalize(input, None, None, normalized_shape, eps, memory_efficient)


def fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Normalise with parameters; the result has the dtype of ``input``."""
    return _normalize(input, weight, bias, normalized_shape, eps, memory_efficient)


def mixed_dtype_fused_layer_norm_affine(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Normalise with parameters; the result has the dtype of ``weight``.

    >>> x = torch.zeros(2, 4, dtype=torch.bfloat16)
    >>> mixed_dtype_fused_layer_norm_affine(x, torch.ones(4), torch.zeros(4), 4).dtype
    torch.float32
    """
    return _normalize(input, weight, bias, normalized_shape, eps, memory_efficient, weight.dtype)


def _rms_normalize(
    input: Tensor,
    weight: Tensor | None,
    normalized_shape: Shape,
    eps: float,
    memory_efficient: bool,
    mixed: bool = False,
) -> Tensor:
    if input.is_cuda and torch.is_autocast_enabled("cuda"):
        cast = torch.get_autocast_dtype("cuda")
        input, weight = input.to(cast), None if weight is None else weight.to(cast)
        with torch.autocast("cuda", enabled=False):
            return _rms_normalize(input, weight, normalized_shape, eps, memory_efficient, mixed)
    # apex has no other pairs than these two; f32 weights beside a 16-bit output are rounded once.
    via_weight = weight is not None and (mixed or weight.dtype == input.dtype)
    rounding = "via_param" if via_weight else "once"
    shape = _shape(normalized_shape)
    if memory_efficient:
        return torch.ops.fusednorm.rms_norm_memory_efficient_forward(
            input, shape, weight, eps, rounding=rounding
        )[0]
    return torch.ops.fusednorm.rms_norm(input, shape, weight, eps, rounding=rounding)


def fused_rms_norm(
    input: Tensor, normalized_shape: Shape, eps: float = 1e-6, memory_efficient: bool = False
) -> Tensor:
    """Divide by the root of the mean square, without a weight.

    >>> fused_rms_norm(torch.tensor([[-1.0, 1.0]]), 2, eps=0.0)
    tensor([[-1.,  1.]])
    """
    return _rms_normalize(input, None, normalized_shape, eps, memory_efficient)


def fused_rms_norm_affine(
    input: Tensor,
    weight: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Normalise with a weight; the result has the dtype of ``input``."""
    return _rms_normalize(input, weight, normalized_shape, eps, memory_efficient)


def mixed_dtype_fused_rms_norm_affine(
    input: Tensor,
    weight: Tensor,
    normalized_shape: Shape,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> Tensor:
    """Normalise with a weight; the result has the dtype of ``weight``.

    >>> x = torch.zeros(2, 4, dtype=torch.bfloat16)
    >>> mixed_dtype_fused_rms_norm_affine(x, torch.ones(4), 4).dtype
    torch.float32
    """
    return _rms_normalize(input, weight, normalized_shape, eps, memory_efficient, mixed=True)


def manual_rms_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None, eps: float
) -> Tensor:
    """Return what apex computes without its kernels: in the dtype of ``weight``, float32 without.

    >>> manual_rms_norm(torch.ones(2, 4, dtype=torch.bfloat16), (4,), None, 1e-6).dtype
    torch.float32
    """
    compute = torch.float64 if input.dtype == torch.float64 else torch.float32
    return torch.ops.fusednorm.rms_norm(
        input,
        _shape(normalized_shape),
        weight,
        eps,
        rounding="via_param",
        dtype=compute if weight is None else None,
    )


class _ApexNorm(Module):
    """What apex's two modules share: the attributes beside the parameters, and ``repr``."""

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float,
        elementwise_affine: bool,
        memory_efficient: bool,
        parameters: Sequence[str],
    ) -> None:
        super().__init__()
        self.normalized_shape = torch.Size(_shape(normalized_shape))
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.memory_efficient = memory_efficient
        for name in parameters:
            made = Parameter(torch.empty(*self.normalized_shape)) if elementwise_affine else None
            self.register_parameter(name, made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to one and the bias, where there is one, to zero."""
        for name, value in (("weight", 1.0), ("bias", 0.0)):
            parameter = getattr(self, name, None)
            if parameter is not None:
                torch.nn.init.constant_(parameter, value)

    def extra_repr(self) -> str:
        """Describe the module as apex does."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


def _check_affine(module: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Refuse what apex's mixed modules refuse; return the arguments that are left."""
    if not arguments.pop("elementwise_affine", True):
        raise RuntimeError(f"{module} does not support `elementwise_affine = False`")
    return arguments


class FusedLayerNorm(_ApexNorm):
    """apex's module: as ``torch.nn.LayerNorm``, parameters in the input's dtype or float32.

    >>> FusedLayerNorm(8, memory_efficient=True)
    FusedLayerNorm(torch.Size([8]), eps=1e-05, elementwise_affine=True)
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        self.weight: Parameter | None
        self.bias: Parameter | None
        super().__init__(
            normalized_shape, eps, elementwise_affine, memory_efficient, ("weight", "bias")
        )

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input`` over its last dimensions."""
        return _normalize(
            input, self.weight, self.bias, self.normalized_shape, self.eps, self.memory_efficient
        )


class MixedFusedLayerNorm(FusedLayerNorm):
    """apex's module for float32 parameters and half-precision inputs: float32 comes out.

    >>> norm = MixedFusedLayerNorm(8)
    >>> norm(torch.zeros(2, 8, dtype=torch.float16)).dtype
    torch.float32
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        *,
        memory_efficient: bool = False,
        **kwargs: Any,
    ) -> None:
        rest = _check_affine("MixedFusedLayerNorm", kwargs)
        super().__init__(normalized_shape, eps, True, memory_efficient, **rest)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input``; the result has the dtype of the parameters."""
        dtype = None if self.weight is None else self.weight.dtype
        return _normalize(
            input,
            self.weight,
            self.bias,
            self.normalized_shape,
            self.eps,
            self.memory_efficient,
            dtype,
        )


class FusedRMSNorm(_ApexNorm):
    """apex's module: RMSNorm with a weight in the input's dtype or float32.

    >>> FusedRMSNorm(8, memory_efficient=True)
    FusedRMSNorm(torch.Size([8]), eps=1e-05, elementwise_affine=True)
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
    ) -> None:
        self.weight: Parameter | None
        super().__init__(normalized_shape, eps, elementwise_affine, memory_efficient, ("weight",))

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input`` over its last dimensions."""
        return _rms_normalize(
            input, self.weight, self.normalized_shape, self.eps, self.memory_efficient
        )


class MixedFusedRMSNorm(FusedRMSNorm):
    """apex's module for a float32 weight and half-precision inputs: float32 comes out.

    >>> norm = MixedFusedRMSNorm(8)
    >>> norm(torch.zeros(2, 8, dtype=torch.float16)).dtype
    torch.float32
    """

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        *,
        memory_efficient: bool = False,
        **kwargs: Any,
    ) -> None:
        rest = _check_affine("MixedFusedRMSNorm", kwargs)
        super().__init__(normalized_shape, eps, True, memory_efficient, **rest)

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input``; the result has the dtype of the weight."""
        return _rms_normalize(
            input,
            self.weight,
            self.normalized_shape,
            self.eps,
            self.memory_efficient,
            mixed=True,
        )
