# SPDX-License-Identifier: Apache-2.0
"""The norms as modules, in the place of ``torch.nn.LayerNorm`` and ``torch.nn.RMSNorm``."""

from typing import Any, overload

import torch
from torch import Tensor
from torch.nn import LayerNorm as NativeLayerNorm
from torch.nn import Parameter
from torch.nn import RMSNorm as NativeRMSNorm

_ops = torch.ops.fusednorm
_layer_norm = _ops.layer_norm
_layer_norm_memory_efficient = _ops.layer_norm_memory_efficient_forward
_rms_norm = _ops.rms_norm
_rms_norm_memory_efficient = _ops.rms_norm_memory_efficient_forward

# A scripted forward returns a tensor and nothing else: TorchScript compiles only the first branch
# of is_scripting(), and takes a missing annotation of what forward returns for a tensor.


class LayerNorm(NativeLayerNorm):
    """``torch.nn.LayerNorm`` on the fused operator.

    It *is* a ``torch.nn.LayerNorm``: constructor, attributes, ``repr``, ``state_dict`` and pickling
    are inherited, and code that asks ``isinstance(module, torch.nn.LayerNorm)`` goes on working.

    ``norm(x, residual)`` returns the norm of ``x + residual`` and that sum; see
    :func:`fusednorm.add_layer_norm`. ``memory_efficient`` keeps the output instead of the input for
    the backward pass; see :func:`fusednorm.functional.memory_efficient_layer_norm`. With a residual
    the sum is kept, which the next layer needs anyway.

    >>> norm = LayerNorm((4, 8), bias=False)
    >>> norm
    LayerNorm((4, 8), eps=1e-05, elementwise_affine=True, bias=False)
    >>> norm(torch.zeros(2, 4, 8)).sum().item()
    0.0
    """

    __constants__ = [  # noqa: RUF012  (TorchScript reads it)
        *NativeLayerNorm.__constants__,
        "memory_efficient",
    ]

    # On the class, so that modules that convert() or an old pickle brought here have it.
    memory_efficient: bool = False

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        memory_efficient: bool = False,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.memory_efficient = memory_efficient

    @overload
    def forward(self, input: Tensor) -> Tensor: ...
    @overload
    def forward(self, input: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]: ...
    def forward(self, input: Tensor, residual: Tensor | None = None):  # type: ignore[no-untyped-def]
        """Normalise ``input``, or ``input + residual``, over its last dimensions."""
        if residual is not None:
            if torch.jit.is_scripting():
                raise RuntimeError("a scripted norm takes no residual: call add_layer_norm")
            else:
                return _ops.add_layer_norm(
                    input, residual, self.normalized_shape, self.weight, self.bias, self.eps
                )
        if self.memory_efficient:
            return _layer_norm_memory_efficient(
                input, self.normalized_shape, self.weight, self.bias, self.eps
            )[0]
        return _layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Describe the module as ``torch.nn.LayerNorm`` does; name ``memory_efficient`` if set."""
        suffix = ", memory_efficient=True" if self.memory_efficient else ""
        return super().extra_repr() + suffix


class RMSNorm(NativeRMSNorm):
    """``torch.nn.RMSNorm`` on the fused operator, with what models add to it.

    It *is* a ``torch.nn.RMSNorm``; ``eps=None`` is the epsilon of the compute type (float32 for
    16-bit inputs), whatever torch is installed. ``bias`` adds one. ``offset`` is added to the
    weight, which then starts at ``1 - offset``: ``offset=1`` stores weights around zero.
    ``rounding`` is that of :func:`fusednorm.rms_norm`. ``norm(x, residual)`` returns the norm of
    ``x + residual`` and that sum. ``memory_efficient`` keeps the output instead of the input for
    the backward pass; see :func:`fusednorm.functional.memory_efficient_rms_norm`.

    >>> norm = RMSNorm(8, offset=1.0)
    >>> norm
    RMSNorm((8,), eps=None, elementwise_affine=True, offset=1.0)
    >>> norm(torch.full((2, 8), 3.0)).sum().item(), norm.weight.sum().item()
    (16.0, 0.0)
    """

    __constants__ = [  # noqa: RUF012  (TorchScript reads it)
        *NativeRMSNorm.__constants__,
        "offset",
        "rounding",
        "memory_efficient",
    ]

    # On the class, so that modules that convert() or an old pickle brought here have them.
    offset: float = 0.0
    rounding: str = "once"
    memory_efficient: bool = False

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = False,
        offset: float = 0.0,
        rounding: str = "once",
        memory_efficient: bool = False,
    ) -> None:
        if rounding not in ("once", "via_x", "via_param"):
            raise ValueError(
                f"RMSNorm: rounding must be 'once', 'via_x' or 'via_param', but it is {rounding!r}"
            )
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        self.bias: Parameter | None
        self.offset = float(offset)
        self.rounding = rounding
        self.memory_efficient = memory_efficient
        parameter = None
        if bias and elementwise_affine:
            parameter = Parameter(torch.empty(self.normalized_shape, device=device, dtype=dtype))
        self.register_parameter("bias", parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to ``1 - offset`` and the bias to zero: the norm alone."""
        if self.elementwise_affine:
            torch.nn.init.constant_(self.weight, 1.0 - self.offset)
        bias = getattr(self, "bias", None)  # native's constructor calls this before there is one
        if bias is not None:
            torch.nn.init.zeros_(bias)

    @overload
    def forward(self, x: Tensor) -> Tensor: ...
    @overload
    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]: ...
    def forward(self, x: Tensor, residual: Tensor | None = None):  # type: ignore[no-untyped-def]
        """Normalise ``x``, or ``x + residual``, over its last dimensions."""
        if residual is not None:
            if torch.jit.is_scripting():
                raise RuntimeError("a scripted norm takes no residual: call add_rms_norm")
            else:
                return _ops.add_rms_norm(
                    x,
                    residual,
                    self.normalized_shape,
                    self.weight,
                    self.eps,
                    self.bias,
                    offset=self.offset,
                    rounding=self.rounding,
                )
        if self.memory_efficient:
            return _rms_norm_memory_efficient(
                x,
                self.normalized_shape,
                self.weight,
                self.eps,
                self.bias,
                offset=self.offset,
                rounding=self.rounding,
            )[0]
        return _rms_norm(
            x,
            self.normalized_shape,
            self.weight,
            self.eps,
            self.bias,
            offset=self.offset,
            rounding=self.rounding,
        )

    def extra_repr(self) -> str:
        """Describe the module as ``torch.nn.RMSNorm`` does; name what differs from it."""
        extra = {
            "bias": self.bias is not None,
            "offset": self.offset,
            "rounding": self.rounding,
            "memory_efficient": self.memory_efficient,
        }
        plain = (False, 0.0, "once")
        suffix = [f", {name}={value!r}" for name, value in extra.items() if value not in plain]
        return super().extra_repr() + "".join(suffix)
