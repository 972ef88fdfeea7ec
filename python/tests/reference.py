# SPDX-License-Identifier: Apache-2.0
"""LayerNorm and RMSNorm by the formula in f64, and how far from it a dtype may be.

Tolerances. The operators read x, weight and bias as they are (no error), compute in c = f32 (f64
for f64 inputs) and round once, at the store. So an element differs from the formula by at most

    u |value|                 u: half a unit in the last place of the stored dtype
  + steps * eps(c) * scale    the arithmetic before it

`steps` counts roundings on the longest path: mean, variance and the affine step are ~10 operations,
and the sums, in fixed segments merged in a tree, have errors that grow with log2(n) at random signs
and are bounded by the segment's length over its lanes; 64 covers rows of up to 64k elements.
`scale` is the size of the terms that were added: for y |h w| + |x| rstd |w| + |b| (x - mean
cancels; where x and the mean are both near zero, the mean still has the error of its own sum, of
terms as large as <|x|>: MEAN_STEPS roundings, since those of a tree grow with sqrt(log2 n)), for dx
rstd (|g| + <|g|> + |h| <|g h|>), for dweight sum |dy h|, for dbias sum |dy|; what h lost to the
cancellation in x - mean counts in each. RMSNorm (centred=False) has no mean and nothing cancels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

STEPS = 64
MEAN_STEPS = 4  # sqrt(log2 64k)


@dataclass
class Expected:
    value: Tensor
    scale: Tensor

    def check(self, actual: Tensor, name: str) -> None:
        assert actual.shape == self.value.shape, f"{name}: {actual.shape} != {self.value.shape}"
        compute = torch.float64 if actual.dtype == torch.float64 else torch.float32
        value = actual.detach().cpu().double()
        bound = torch.finfo(actual.dtype).eps / 2 * self.value.abs()
        bound = bound + STEPS * torch.finfo(compute).eps * self.scale
        bound = bound + torch.finfo(actual.dtype).tiny  # results below the normal range
        error = (value - self.value).abs()
        worst = (error / bound).max().item() if error.numel() else 0.0
        assert worst <= 1.0, f"{name}: error is {worst:.3g} times its bound"


def _double(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().cpu().double()


def forward(
    x: Tensor,
    inner: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    *,
    centred: bool = True,
    offset: float = 0.0,
) -> Expected:
    h, rstd = normalized(x, inner, eps, centred)
    w, b = _double(weight), _double(bias)
    w = None if w is None else w + offset
    value = h if w is None else h * w
    scale = value.abs()
    if centred:
        size = x.detach().cpu().double().abs()
        in_mean = size.mean(tuple(range(-inner, 0)), keepdim=True) * (MEAN_STEPS / STEPS)
        cancelled = (size + in_mean) * rstd
        scale = scale + (cancelled if w is None else cancelled * w.abs())
    if b is not None:
        value, scale = value + b, scale + b.abs()
    return Expected(value, scale)


def normalized(x: Tensor, inner: int, eps: float, centred: bool = True) -> tuple[Tensor, Tensor]:
    x = x.detach().cpu().double()
    dims = tuple(range(-inner, 0))
    x = x - x.mean(dims, keepdim=True) if centred else x
    rstd = (x.square().mean(dims, keepdim=True) + eps).rsqrt()
    return x * rstd, rstd


def backward(
    dy: Tensor,
    x: Tensor,
    inner: int,
    weight: Tensor | None,
    eps: float,
    *,
    centred: bool = True,
    offset: float = 0.0,
    ds: Tensor | None = None,
) -> tuple[Expected, Expected, Expected]:
    """dx, dweight and dbias, the last two with the shape of ``weight``; ``ds`` is added to dx."""
    h, rstd = normalized(x, inner, eps, centred)
    dy = dy.detach().cpu().double()
    w = _double(weight)
    g = dy if w is None else dy * (w + offset)
    dims = tuple(range(-inner, 0))

    def mean(t: Tensor) -> Tensor:
        return t.mean(dims, keepdim=True)

    dx = rstd * (g - h * mean(g * h) - (mean(g) if centred else 0))
    scale = rstd * (g.abs() + mean(g.abs()) + h.abs() * mean((g * h).abs()))
    if ds is not None:
        dx, scale = dx + ds.detach().cpu().double(), scale + ds.detach().cpu().double().abs()
    x_scale = (x.detach().cpu().double().abs() * rstd).clamp(min=1)
    rows = tuple(range(x.dim() - (inner if weight is None else weight.dim())))

    def total(t: Tensor) -> Tensor:
        return t.sum(rows) if rows else t

    return (
        Expected(dx, scale * x_scale),
        Expected(total(dy * h), total((dy * h).abs() + dy.abs() * x_scale)),
        Expected(total(dy), total(dy.abs())),
    )
