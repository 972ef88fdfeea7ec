# SPDX-License-Identifier: Apache-2.0
"""One case and its contestants: built, checked against f64, and timed in turns with a copy."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fusednorm.measure import buffers, correct, cuda, roof, traffic
from fusednorm.measure.contestants import Contestant, Norm, present
from fusednorm.measure.inputs import random_inputs
from fusednorm.measure.problem import TEMPORARY_MATRICES, Case, check_memory
from fusednorm.measure.rates import Rates
from fusednorm.measure.timing import (
    Action,
    Clock,
    HostClock,
    PreparingClock,
    Samples,
    take_turns,
)

Row = dict[str, Any]


@dataclass
class Entry:
    """A contestant that runs: its function, its graph, its errors."""

    contestant: Contestant
    norm: Norm
    outputs: tuple[Tensor, ...]
    verdict: correct.Verdict
    moved: dict[str, traffic.Traffic]  # by pass; empty where nothing can be said


def _one_line(error: BaseException) -> str:
    text = str(error).strip() or "no message"
    return f"{type(error).__name__}: {text.splitlines()[0]}"


class Race:
    """The tensors of a case, and every contestant that is there and right."""

    def __init__(self, case: Case, contestants: list[Contestant]) -> None:
        check_memory(case, present(contestants, case))
        self.case = case
        self.entries: dict[str, Entry] = {}
        self.absent: dict[str, str] = {}
        self.inputs = random_inputs(case)
        for contestant in contestants:
            self.enter(contestant)

    def enter(self, contestant: Contestant) -> None:
        """Build and check a contestant; it is timed if it is there and right."""
        reason = contestant.absence(self.case)
        if not reason:
            try:
                with buffers.outputs("warm"):  # the formula in f64 takes many large blocks
                    entry = self._check(contestant)
                forward = entry.verdict.mistake(self.case.operation.outputs)
                reason = forward and f"is wrong: {entry.verdict.mistake()}"
            except Exception as error:  # others' code: whatever it raises is the answer
                reason = _one_line(error)
        if reason:
            self.absent[contestant.name] = reason
            return
        self.entries[contestant.name] = entry
        # A right forward pass is timed even where the gradients are wrong.
        if mistake := entry.verdict.mistake():
            self.absent[f"{contestant.name} backward"] = f"is wrong: {mistake}"

    def timed(self, which: str) -> list[str]:
        """Name the contestants that are right in a pass."""
        return [n for n in self.entries if which == "forward" or f"{n} backward" not in self.absent]

    def _check(self, contestant: Contestant) -> Entry:
        """Run both passes once, and hold the results against the formula."""
        operation, inputs = self.case.operation, self.inputs
        norm = contestant.ways[self.case.op].build(inputs.gamma, inputs.beta)
        moved: dict[str, traffic.Traffic] = {}
        if contestant.name == "compile":
            with traffic.compiled() as forward:
                outputs = self._outputs(norm)
            with traffic.compiled() as backward:
                gradients = self._gradients(outputs)
            if forward.bytes:
                # Where the backward pass is compiled along with the forward one, only the sum of
                # both is known.
                moved = {"forward": forward, "backward": backward} if backward.bytes else {}
                moved["both"] = traffic.Traffic(forward.bytes + backward.bytes)
        else:
            outputs = self._outputs(norm)
            gradients = self._gradients(outputs)
        results = dict(zip(operation.results, (*outputs, *gradients), strict=True))
        likes = (*[inputs.x] * len(operation.outputs), *inputs.named(operation.inputs))
        for (name, result), like in zip(results.items(), likes, strict=True):
            if result.shape != like.shape or result.dtype != like.dtype:
                raise TypeError(f"{name} is {result.dtype}, expected {like.dtype}")
        verdict = correct.compare(operation, inputs, results)
        entry = Entry(contestant, norm, outputs, verdict, moved)
        if contestant.name in traffic.DISPATCHED:
            for which in ("forward", "backward", "both"):
                moved[which] = traffic.dispatched(self._action(entry, which))
        return entry

    def _outputs(self, norm: Norm) -> tuple[Tensor, ...]:
        returned = norm(*self.inputs.data)
        return returned if self.case.operation.adds else (returned,)

    def _gradients(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        wanted = self.inputs.named(self.case.operation.inputs)
        return torch.autograd.grad(outputs, wanted, self.inputs.starts, retain_graph=True)

    def _action(self, entry: Entry, which: str) -> Action:
        if which == "forward":
            return lambda: entry.norm(*self.inputs.data)
        if which == "backward":
            return lambda: self._gradients(entry.outputs)
        return lambda: self._gradients(self._outputs(entry.norm))

    def action(self, name: str, which: str) -> Action:
        """Return the call that is timed."""
        return self._action(self.entries[name], which)

    def methods(self, kind: str) -> list[str]:
        """Name the ways to time: on CUDA small shapes are replayed from a graph as well."""
        if not self.case.device.startswith("cuda"):
            return ["host"]
        small = self.case.matrix_bytes <= cuda.GRAPH_BYTES and kind == "warm"
        return ["events", "graph"] if small else ["events"]

    def time(self, which: str, kind: str, seconds: float, method: str = "host") -> list[Row]:
        """Time every contestant with ``kind`` buffers: fresh or warm outputs on the CPU, flushed
        or warm L2 on CUDA.
        """  # noqa: D205
        clock: Clock = HostClock() if kind == "warm" else PreparingClock(buffers.release)
        actions = {name: self.action(name, which) for name in self.timed(which)}
        actions |= roof.copies(self.inputs.x.detach(), kind)
        if method != "host":
            device = cuda.CudaDevice(self.case.device)
            clock = cuda.EventClock(device, flush=kind == "fresh")
            if method == "graph":
                clock = cuda.GraphClock(device)
                actions = {name: cuda.captured(action) for name, action in actions.items()}
        with buffers.outputs(kind, TEMPORARY_MATRICES * self.case.matrix_bytes):
            samples = take_turns(actions, clock, seconds)
        return [self._row(name, which, kind, method, samples) for name in self.timed(which)]

    def _row(
        self, name: str, which: str, kind: str, method: str, samples: dict[str, Samples]
    ) -> Row:
        case, entry, mine = self.case, self.entries[name], samples[name]
        copy = min(s.median for n, s in samples.items() if n.startswith(roof.PREFIX))
        rates = Rates(mine.median, case.minimal_bytes(which), copy, 2 * case.matrix_bytes)
        moved = entry.moved.get(which)
        return {
            "problem": " + ".join(map(str, case.problems(which))),
            "op": case.op,
            "contestant": name,
            "pass": which,
            "dtype": case.dtype,
            "param_dtype": case.param_dtype,
            "device": case.device,
            "rows": case.rows,
            "cols": case.cols,
            "threads": torch.get_num_threads(),
            "buffers": kind,
            "method": method,
            "best_seconds": mine.best,
            "spread": mine.spread,
            "rounds": len(mine.seconds),
            "moved_bytes": moved.bytes if moved else None,
            "operators": (moved.operators or None) if moved else None,
            **rates.as_row(),
            "errors": entry.verdict.errors,
        }
