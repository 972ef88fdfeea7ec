# SPDX-License-Identifier: Apache-2.0
"""Is a converted block right? No further from f64 than the block with native norms, twice over.

Both blocks do the same matrix products with the same roundings, and their norms round as often; so
the errors of a tensor, against the block in f64, are two draws of one size. The root mean square of
n errors scatters by about 1 / sqrt(n), and the smallest tensors are rows of ``hidden`` elements:
a factor of 2 is far outside. A tensor that native happens to compute exactly leaves one rounding,
u |value|.
"""

import copy

import torch
from torch import Tensor

from fusednorm.measure.blocks.modules import Block
from fusednorm.measure.blocks.variants import Step, step_of

FACTOR = 2


def reference(block: Block, step: Step) -> list[Tensor]:
    """Return outputs and gradients of the native block in f64."""
    inputs = tuple(t.detach().double().requires_grad_() for t in step.inputs)
    starts = tuple(t.double() for t in step.starts)
    return list(step_of(copy.deepcopy(block).double(), "eager", (inputs, starts)).both())


def mistake(found: Step, native: list[Tensor], right: list[Tensor]) -> str:
    """Say which result is further from ``right`` than FACTOR times ``native``'s, or nothing."""
    for place, (mine, theirs, value) in enumerate(zip(found.both(), native, right, strict=True)):
        error, allowed = ((t.double() - value).norm().item() for t in (mine, theirs))
        allowed = FACTOR * allowed + torch.finfo(mine.dtype).eps / 2 * value.norm().item()
        if not error <= allowed:  # NaN is wrong too
            return f"result {place} is off by {error:.2e}, where {allowed:.2e} are allowed"
    return ""
