"""LayerNorm as functions, with the signatures of ``torch.nn.functional``."""

import torch
from torch import Tensor


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
    return torch.ops.fusednorm.layer_norm(input, normalized_shape, weight, bias, eps)


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
