"""Is a contestant right? Its y, dx, dgamma and dbeta against the formula in f64.

The bounds let through every honest order of work, the 2019 one included, which stores intermediate
results; fusednorm's own tests are stricter. With u the unit roundoff of the stored dtype, c that of
the compute type (f32, or f64 for f64) and inputs that are random and independent:

y, dx   ROUNDINGS u scale + STEPS c scale. ``scale`` is the sum of the absolute terms of the
        formula. The composite rounds xhat, or g = dy gamma, to the stored dtype, then the product,
        then the sum; with the last store that is 4. STEPS is the 64 of python/tests/reference.py.
dgamma, (SIGMAS (sqrt(ROUNDINGS / 3) u + sqrt(rows / 6) c) + ROUNDINGS u + STEPS c) sqrt(sum t^2)
dbeta   + u |value|, for terms t: dy, or |dy| times what x - mean is made of. A rounding is uniform
        within u |t|, so its deviation is u |t| / sqrt(3); those of ROUNDINGS stored products add as
        squares. A chain of additions rounds partial sums, which grow as sqrt(k): summed over the
        rows their deviation is c sqrt(rows / 6) sqrt(sum t^2). Six sigmas leave one false alarm in
        10^8 columns. With few rows that law does not hold yet: the bound of an element is added.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fusednorm.measure.contestants import EPS

ROUNDINGS = 4
STEPS = 64
SIGMAS = 6
NAMES = ("y", "dx", "dgamma", "dbeta")
# Rows are compared a block at a time: in f64 the formula takes ten times the memory of f32 input.
BLOCK_ELEMENTS = 1 << 20


@dataclass
class Verdict:
    """The largest error of each result over its root mean square, and over its bound."""

    errors: dict[str, float]
    of_bound: dict[str, float]  # the largest error over its bound: right up to 1

    def mistake(self, names: tuple[str, ...] = NAMES) -> str:
        """Say which of the results of those names are wrong, or nothing."""
        wrong = [n for n in names if not self.of_bound[n] <= 1]  # NaN is wrong too
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


def compare(
    x: Tensor, dy: Tensor, gamma: Tensor, beta: Tensor, results: tuple[Tensor, ...]
) -> Verdict:
    """Compare y, dx, dgamma, dbeta with the formula; shapes and dtypes must be right already."""
    x, dy, gamma, beta, y, dx, dgamma, dbeta = (t.detach() for t in (x, dy, gamma, beta, *results))
    compute = _roundoff(torch.float64 if x.dtype == torch.float64 else torch.float32)
    loose = ROUNDINGS * _roundoff(x.dtype) + STEPS * compute
    rows, cols = x.shape
    w, b = gamma.double(), beta.double()
    worst = {name: _Worst() for name in NAMES}
    sums = torch.zeros(4, cols, dtype=torch.float64, device=x.device)
    for block in _blocks(rows, cols):
        wide, g = x[block].double(), dy[block].double()
        centred = wide - wide.mean(1, keepdim=True)
        rstd = (centred.square().mean(1, keepdim=True) + EPS).rsqrt()
        xhat = centred * rstd
        lost = xhat.abs() + wide.abs() * rstd  # x - mean cancels
        worst["y"].add(y[block], xhat * w + b, loose * (lost * w.abs() + b.abs()))
        terms = g * xhat
        squares = (g * lost).square().sum(0)
        sums += torch.stack([terms.sum(0), squares, g.sum(0), g.square().sum(0)])
        g = g * w
        first, second = g.mean(1, keepdim=True), (g * xhat).mean(1, keepdim=True)
        scale = g.abs() + g.abs().mean(1, keepdim=True)
        scale = rstd * (scale + lost * (g * xhat).abs().mean(1, keepdim=True))
        worst["dx"].add(dx[block], rstd * (g - first - xhat * second), loose * scale)
    spread = (ROUNDINGS / 3) ** 0.5 * _roundoff(x.dtype) + (rows / 6) ** 0.5 * compute
    stored = _roundoff(gamma.dtype)
    for name, actual, total, squares in (
        ("dgamma", dgamma, sums[0], sums[1]),
        ("dbeta", dbeta, sums[2], sums[3]),
    ):
        bound = (SIGMAS * spread + loose) * squares.sqrt() + stored * total.abs()
        worst[name].add(actual, total, bound)
    return Verdict(
        {name: worst[name].relative for name in NAMES},
        {name: worst[name].of_bound for name in NAMES},
    )
