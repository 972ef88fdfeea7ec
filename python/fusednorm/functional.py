"""LayerNorm as functions, with the signatures of ``torch.nn.functional``."""

from typing import Any

import torch
from torch import Tensor
from torch.jit._builtins import _register_builtin

_operator = torch.ops.fusednorm.layer_norm  # looked up once: it is most of a tiny call


def _check_types(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: Any) -> None:
    """Raise the TypeError that native raises, where the dispatcher has only a RuntimeError."""
    for name, value in (("input", input), ("weight", weight), ("bias", bias)):
        if not isinstance(value, Tensor) and (name == "input" or value is not None):
            raise TypeError(
                f"layer_norm(): argument '{name}' must be a Tensor, not {type(value).__name__}"
            )
    if not isinstance(normalized_shape, list | tuple):
        raise TypeError(
            "layer_norm(): argument 'normalized_shape' must be a tuple of ints, "
            f"not {type(normalized_shape).__name__}"
        )
    for size in normalized_shape:
        if not isinstance(size, int | torch.SymInt):
            raise TypeError(
                "layer_norm(): argument 'normalized_shape' must be a tuple of ints, "
                f"but holds {size!r} of type {type(size).__name__}"
            )
    if not isinstance(eps, int | float | torch.SymFloat):
        raise TypeError(f"layer_norm(): argument 'eps' must be a float, not {type(eps).__name__}")


def layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise ``input`` over its last dimensions, as ``torch.nn.functional.layer_norm`` does.

    ``weight`` and ``bias`` are each optional; they have the dtype of ``input`` or are float32. The
    result has the dtype of ``input``; all arithmetic is in float32 (float64 for float64).

    >>> x = torch.tensor([[1.0, 2.0, 3.0]])
    >>> layer_norm(x, (3,), weight=torch.tensor([1.0, 10.0, 1.0]), eps=0.0)
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    try:
        return _operator(input, normalized_shape, weight, bias, eps)
    except RuntimeError:
        _check_types(input, normalized_shape, weight, bias, eps)
        raise


# TorchScript knows no try: there the function is the operator itself.
_register_builtin(layer_norm, "fusednorm::layer_norm")


def memory_efficient_layer_norm(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Do as :func:`layer_norm`, but keep the output for the backward pass instead of the input.

    Saves a copy of the activations where the output is kept anyway, as by a following linear layer,
    and the input is not. The backward pass divides by ``weight``: no element of it may be zero.

    >>> x = torch.randn(4, 8, requires_grad=True)
    >>> y = memory_efficient_layer_norm(x, (8,))
    >>> y.sum().backward()
    >>> x.grad.shape
    torch.Size([4, 8])
    """
    return torch.ops.fusednorm.layer_norm_memory_efficient_forward(
        input, normalized_shape, weight, bias, eps
    )[0]
