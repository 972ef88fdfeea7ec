# SPDX-License-Identifier: Apache-2.0
"""Times blocks with and without norms in turns; the difference is what the norms cost."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fusednorm.measure import cuda, environment
from fusednorm.measure.blocks import correct
from fusednorm.measure.blocks.modules import Block, build
from fusednorm.measure.blocks.sizes import Size
from fusednorm.measure.blocks.variants import (
    VARIANTS,
    NotConverted,
    Step,
    random_inputs,
    sharing_copy,
    step_of,
)
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.problem import DTYPES, available_bytes
from fusednorm.measure.progress import Progress
from fusednorm.measure.quiet import no_cuda_remarks
from fusednorm.measure.timing import Clock, HostClock, Samples, take_turns

MODES = ("eager", "compiled")
PASSES = ("forward", "both")
SECONDS = 10.0  # of rounds, for each block, mode and pass

Row = dict[str, Any]


@dataclass
class Plan:
    """What is measured."""

    sizes: list[Size]
    modes: list[str]
    dtype: str
    device: str
    seconds: float

    @property
    def steps(self) -> int:
        """How many times a block's variants are timed."""
        return len(self.sizes) * len(self.modes) * len(PASSES)


@dataclass
class Result:
    """What has been measured so far; complete unless it was interrupted."""

    environment: dict[str, str]
    dtype: str
    blocks: list[str]
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"kind": "blocks", **vars(self)}


def check_memory(size: Size, dtype: str, device: str) -> None:
    """Raise BadInput where a block does not fit, before anything is allocated.

    Parameters and gradients, both again in f64 for the check; and what the f64 block keeps for its
    backward pass: ten arrays of the width of the block, six of the MLP's, the attention's scores.
    """
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build(size).parameters())
    tokens = size.batch * size.tokens
    kept = tokens * (10 * size.hidden + 6 * size.mlp + size.heads * size.tokens)
    needed = parameters * 2 * (DTYPES[dtype].itemsize + 8) + kept * 8
    available = available_bytes(device)
    if available is not None and needed > available:
        raise BadInput(
            f"{size}: needs about {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are free; "
            "choose a smaller block, or fewer --tokens"
        )


def run(plan: Plan) -> Result:
    """Measure every block; Ctrl-C keeps what is there."""
    for size in plan.sizes:
        check_memory(size, plan.dtype, plan.device)
    no_cuda_remarks()
    facts = environment.describe(plan.device)
    result = Result(facts, plan.dtype, [str(size) for size in plan.sizes])
    with Progress(plan.steps, "blocks") as progress:
        try:
            for size in plan.sizes:
                for mode in plan.modes:
                    _measure(plan, size, mode, result, progress)
        except KeyboardInterrupt:
            result.interrupted = True
    return result


def variants(base: Block, result: Result) -> Iterator[tuple[str, Block]]:
    """Yield the block with each kind of norms; one that cannot be made is noted with the reason."""
    for name, change in VARIANTS.items():
        block = sharing_copy(base)
        try:
            change(block)
        except NotConverted as reason:
            _note(result, f"{block.attention.size.name}, {name}: not timed, {reason}")
            continue
        yield name, block


def _measure(plan: Plan, size: Size, mode: str, result: Result, progress: Progress) -> None:
    dtype = DTYPES[plan.dtype]
    base = build(size).to(plan.device, dtype)
    inputs = random_inputs(base, plan.device, dtype)
    blocks = dict(variants(base, result))
    for which in reversed(PASSES):  # both first: it is what the check runs
        progress.step(f"{size.name} {mode} {which}")
        torch.compiler.reset()  # as many graphs as there are variants, below the compiler's limit
        steps = {name: step_of(block, mode, inputs) for name, block in blocks.items()}
        if which == "both":
            for name in _wrong(base, steps, result, f"{size.name} {mode}"):
                del steps[name], blocks[name]
        result.rows += _time(plan, size, mode, which, steps)


def _wrong(base: Block, steps: dict[str, Step], result: Result, where: str) -> list[str]:
    """Hold each variant with norms against f64; return and note those that are wrong."""
    right = correct.reference(base, steps["native"])
    native: list[Tensor] = list(steps["native"].both())
    found = {n: correct.mistake(s, native, right) for n, s in steps.items() if n != "none"}
    wrong = [name for name, mistake in found.items() if mistake]
    for name in wrong:
        _note(result, f"{where}, {name}: not timed, is wrong: {found[name]}")
    return wrong


def _note(result: Result, note: str) -> None:
    if note not in result.notes:
        result.notes.append(note)


def _of_median(samples: Samples) -> float:
    """Return how far a median may be off, relative to it.

    Of n samples 1.57 times the distance of the quartiles over sqrt(n), which is the notch of a box
    plot: 95 in 100 are within. ``spread`` is half that distance.
    """
    return 2 * 1.57 * samples.spread / math.sqrt(len(samples.seconds))


def _time(plan: Plan, size: Size, mode: str, which: str, steps: dict[str, Step]) -> list[Row]:
    clock: Clock = HostClock()
    if plan.device.startswith("cuda"):
        clock = cuda.EventClock(cuda.CudaDevice(plan.device), flush=False)
    calls: dict[str, Callable[[], object]] = {n: getattr(s, which) for n, s in steps.items()}
    samples = take_turns(calls, clock, plan.seconds)
    medians = {name: found.median for name, found in samples.items()}
    unsure = {name: _of_median(found) for name, found in samples.items()}
    return [
        {
            "block": size.name,
            "pass": which,
            "mode": mode,
            "norms": name,
            "dtype": plan.dtype,
            "device": plan.device,
            "threads": torch.get_num_threads(),
            "tokens": size.batch * size.tokens,
            "median_seconds": medians[name],
            "spread": samples[name].spread,
            "rounds": len(samples[name].seconds),
            "norms_share": 1 - medians["none"] / medians[name],
            "norms_share_error": medians["none"]
            / medians[name]
            * math.hypot(unsure["none"], unsure[name]),
            "speedup": medians["native"] / medians[name],
        }
        for name in steps
    ]
