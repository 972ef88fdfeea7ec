"""LayerNorm as a module, in the place of ``torch.nn.LayerNorm``."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import LayerNorm as NativeLayerNorm

_operator = torch.ops.fusednorm.layer_norm
_memory_efficient_operator = torch.ops.fusednorm.layer_norm_memory_efficient_forward


class LayerNorm(NativeLayerNorm):
    """``torch.nn.LayerNorm`` on the fused operator.

    It *is* a ``torch.nn.LayerNorm``: constructor, attributes, ``repr``, ``state_dict`` and pickling
    are inherited, and code that asks ``isinstance(module, torch.nn.LayerNorm)`` goes on working.

    ``memory_efficient`` keeps the output instead of the input for the backward pass; see
    :func:`fusednorm.functional.memory_efficient_layer_norm`.

    >>> norm = LayerNorm((4, 8), bias=False)
    >>> norm
    LayerNorm((4, 8), eps=1e-05, elementwise_affine=True...)
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

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``input`` over its last dimensions."""
        if self.memory_efficient:
            return _memory_efficient_operator(
                input, self.normalized_shape, self.weight, self.bias, self.eps
            )[0]
        return _operator(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Describe the module as ``torch.nn.LayerNorm`` does; name ``memory_efficient`` if set."""
        suffix = ", memory_efficient=True" if self.memory_efficient else ""
        return super().extra_repr() + suffix
