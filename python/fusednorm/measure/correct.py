# SPDX-License-Identifier: Apache-2.0
"""Is a contestant right? Its outputs and gradients against the formula in f64.

The bounds let through every honest order of work, the 2019 one included, which stores intermediate
results; fusednorm's own tests are stricter. With u the unit roundoff of the stored dtype, c that of
the compute type (f32, or f64 for f64) and inputs that are random and independent:

sum     (u + c) |x + residual|: one rounding to the compute type, one to the stored dtype.
y, dx,  ROUNDINGS u scale + STEPS c scale. ``scale`` is the sum of the absolute terms of the
dresid. formula. The composite rounds xhat, or g = dy gamma, to the stored dtype, then the product,
        then the sum; with the last store that is 4. STEPS is the 64 of python/tests/reference.py.
        With a residual the formula takes the sum as stored. A library that normalises the exact one
        is off by one rounding of s, and has the last store: 2. Unfused, the norm's dx is stored,
        then ds is added and the sum stored: 2, and ds is a term of the scale.
dgamma, (SIGMAS (sqrt(ROUNDINGS / 3) u + sqrt(rows / 6) c) + ROUNDINGS u + STEPS c) sqrt(sum t^2)
dbeta   + u |value|, for terms t: dy, or |dy| times what x - mean is made of. A rounding is uniform
        within u |t|, so its deviation is u |t| / sqrt(3); those of ROUNDINGS stored products add as
        squares. A chain of additions rounds partial sums, which grow as sqrt(k): summed over the
        rows their deviation is c sqrt(rows / 6) sqrt(sum t^2). Six sigmas leave one false alarm in
        10^8 columns. With few rows that law does not hold yet: the bound of an element is added.

RMSNorm subtracts no mean, so that nothing cancels: x - mean is made of xhat alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fusednorm.measure.contestants import EPS
from fusednorm.measure.inputs import Inputs
from fusednorm.measure.operations import Operation

ROUNDINGS = 4
STEPS = 64
SIGMAS = 6
# Rows are compared a block at a time: in f64 the formula takes ten times the memory of f32 input.
BLOCK_ELEMENTS = 1 << 20


@dataclass
class Verdict:
    """The largest error of each result over its root mean square, and over its bound."""

    errors: dict[str, float]
    of_bound: dict[str, float]  # the largest error over its bound: right up to 1

    def mistake(self, names: tuple[str, ...] = ()) -> str:
        """Say which of the results (of those names, if any) are wrong, or nothing."""
        wrong = [n for n in names or self.of_bound if not self.of_bound[n] <= 1]  # NaN is wrong too
        return ", ".join(
            f"{n} is off by {self.of_bound[n]:.3g} times its bound (error {self.errors[n]:.1e})"
            for n in wrong
        )


@dataclass
class _Worst:
    """The worst element so far, and what makes it relative."""

    error: float = 0.0
    of_bound: float = 0.0
    squares: float = 0.0
    count: int = 0

    def add(self, actual: Tensor, expected: Tensor, bound: Tensor) -> None:
        difference = (actual.double() - expected).abs()
        ratio = difference / (bound + torch.finfo(actual.dtype).tiny)
        self.error = max(self.error, _largest(difference))
        self.of_bound = max(self.of_bound, _largest(ratio))
        self.squares += expected.square().sum().item()
        self.count += expected.numel()

    @property
    def relative(self) -> float:
        return self.error / max((self.squares / self.count) ** 0.5, 1e-300)


def _largest(values: Tensor) -> float:
    """Return the maximum, infinity for NaN: max() would forget a NaN."""
    return torch.nan_to_num(values, nan=torch.inf).max().item()


def _blocks(rows: int, cols: int) -> Iterator[slice]:
    step = max(1, BLOCK_ELEMENTS // cols)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _roundoff(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


@dataclass
class _Block:
    """Some rows of the formula: what is normalised, and what the backward pass takes from it."""

    exact: Tensor  # x, or x + residual
    xhat: Tensor
    rstd: Tensor
    lost: Tensor  # the sum of the absolute terms that xhat is made of


def _normalise(norm: str, exact: Tensor, stored: torch.dtype) -> _Block:
    s = exact.to(stored).double()
    centred = s - s.mean(1, keepdim=True) if norm == "layer_norm" else s
    rstd = (centred.square().mean(1, keepdim=True) + EPS).rsqrt()
    xhat = centred * rstd
    cancelled = s.abs() * rstd if norm == "layer_norm" else 0.0  # in x - mean
    return _Block(exact, xhat, rstd, xhat.abs() + cancelled)


def _dx(norm: str, block: _Block, g: Tensor, ds: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the gradient of the row from g = dy gamma, and its scale."""
    terms = g * block.xhat
    dx = g - block.xhat * terms.mean(1, keepdim=True)
    scale = g.abs() + block.lost * terms.abs().mean(1, keepdim=True)
    if norm == "layer_norm":
        dx = dx - g.mean(1, keepdim=True)
        scale = scale + g.abs().mean(1, keepdim=True)
    dx, scale = block.rstd * dx, block.rstd * scale
    return (dx, scale) if ds is None else (dx + ds, scale + ds.abs())


def compare(operation: Operation, inputs: Inputs, results: dict[str, Tensor]) -> Verdict:
    """Compare each of ``operation.results``; shapes and dtypes must be right already."""
    results = {name: tensor.detach() for name, tensor in results.items()}
    dtype, norm = inputs.x.dtype, operation.norm
    compute = _roundoff(torch.float64 if dtype == torch.float64 else torch.float32)
    loose = ROUNDINGS * _roundoff(dtype) + STEPS * compute
    rows, cols = inputs.x.shape
    w = inputs.gamma.detach().double()
    b = torch.zeros_like(w) if inputs.beta is None else inputs.beta.detach().double()
    worst = {name: _Worst() for name in operation.results}
    sums = torch.zeros(4, cols, dtype=torch.float64, device=w.device)
    for place in _blocks(rows, cols):
        exact = sum(tensor.detach()[place].double() for tensor in inputs.data)
        assert isinstance(exact, Tensor)
        block = _normalise(norm, exact, dtype)
        xhat, lost, dy = block.xhat, block.lost, inputs.dy[place].double()
        ds = None if inputs.ds is None else inputs.ds[place].double()
        worst["y"].add(results["y"][place], xhat * w + b, loose * (lost * w.abs() + b.abs()))
        if operation.adds:
            bound = (_roundoff(dtype) + compute) * exact.abs()
            worst["sum"].add(results["sum"][place], exact, bound)
        dx, scale = _dx(norm, block, dy * w, ds)
        for name in ("dx", "dresidual")[: 1 + operation.adds]:
            worst[name].add(results[name][place], dx, loose * scale)
        squares = (dy * lost).square().sum(0)
        sums += torch.stack([(dy * xhat).sum(0), squares, dy.sum(0), dy.square().sum(0)])
    spread = (ROUNDINGS / 3) ** 0.5 * _roundoff(dtype) + (rows / 6) ** 0.5 * compute
    stored = _roundoff(inputs.gamma.dtype)
    for name, total, squares in (("dgamma", *sums[:2]), ("dbeta", *sums[2:])):
        if name in worst:
            bound = (SIGMAS * spread + loose) * squares.sqrt() + stored * total.abs()
            worst[name].add(results[name], total, bound)
    return Verdict(
        {name: one.relative for name, one in worst.items()},
        {name: one.of_bound for name, one in worst.items()},
    )
