# SPDX-License-Identifier: Apache-2.0
"""``python -m fusednorm bench``: the sweep over shapes, dtypes, passes and threads."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fusednorm.measure import environment
from fusednorm.measure.contestants import Contestant, chosen, present
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.problem import Case, check_memory
from fusednorm.measure.progress import Progress
from fusednorm.measure.race import Race, Row
from fusednorm.measure.store import Resume
from fusednorm.measure.text import duration, percent

QUICK_SECONDS = 0.25
FULL_SECONDS = 0.6

LINE = "{:<14} {:<8} {:<4} {:>8} {:>8} {:>7} {:<6} {:<7} {:<18} {:>10} {:>6} {:>7} {:>7} {:>6}"
HEADER = LINE.format(
    *("op", "pass", "type", "rows", "cols", "threads", "buffer", "method", "contestant", "time"),
    *("+-", "GB/s", "copy", "share"),
)


@dataclass
class Plan:
    """What a sweep covers."""

    problems: list[tuple[Case, list[str]]]  # with the passes of each case
    kinds: list[str]
    threads: list[int]
    names: list[str] | None  # of contestants; None: all
    left_out: tuple[str, ...]  # where none is named
    device: str
    seconds: float
    listed: bool = False  # by problems/shapes.csv: a case that does not fit here is left out

    def contestants(self, case: Case) -> list[Contestant]:
        """Return the contestants of a case: measured, or listed with the reason why not."""
        of_all = chosen(self.names, case.op)
        return [c for c in of_all if self.names or c.name not in self.left_out]

    def cases(self) -> Iterator[tuple[Case, list[str], int]]:
        """Yield the cases with their passes and threads, in the order in which they run."""
        for threads in self.threads:
            for case, passes in self.problems:
                yield case, passes, threads

    def key(self, case: Case, passes: list[str], threads: int) -> str:
        """Name a case with all that its result depends on."""
        names = ",".join(contestant.name for contestant in self.contestants(case))
        what = f"{','.join(passes)}; {','.join(self.kinds)}; {names}; {self.seconds} s"
        return f"{case}; {threads} threads; {what}; medians"


@dataclass
class Sweep:
    """What has been measured so far."""

    environment: dict[str, str]
    rows: list[Row] = field(default_factory=list)
    absent: dict[str, dict[str, str]] = field(default_factory=dict)  # by operation
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"kind": "bench", **vars(self)}


def line(row: Row) -> str:
    """Return one measurement as a line below ``HEADER``."""
    return LINE.format(
        *(row["op"], row["pass"], row["dtype"], row["rows"], row["cols"], row["threads"]),
        *(row["buffers"], row["method"], row["contestant"], duration(row["median_seconds"])),
        *(percent(row["spread"]), f"{row['gigabytes_per_second']:.1f}"),
        *(f"{row['copy_gigabytes_per_second']:.1f}", f"{row['share_of_copy']:.3f}"),
    )


def run(plan: Plan, resume_path: str | None, show: Callable[[str], None] = print) -> Sweep:
    """Measure every case, printing lines as they come; Ctrl-C keeps what is there."""
    sweep = Sweep(environment.describe(plan.device))
    resume = Resume(resume_path, sweep.environment)
    cases = list(_fitting(plan, sweep))  # before the first is measured, not after an hour
    before = torch.get_num_threads()
    show(HEADER)
    steps = sum(1 + len(passes) * len(plan.kinds) for _, passes, _ in cases)
    with Progress(steps, "bench") as progress:
        try:
            for case, passes, threads in cases:
                torch.set_num_threads(threads)
                _measure(plan, case, passes, threads, sweep, resume, show, progress)
        except KeyboardInterrupt:
            sweep.interrupted = True
        finally:
            torch.set_num_threads(before)
    for note in sweep.notes:  # below the table, not in it
        show(note)
    return sweep


def _fitting(plan: Plan, sweep: Sweep) -> Iterator[tuple[Case, list[str], int]]:
    """Yield the cases that there is memory for; BadInput if one was asked for by name."""
    for case, passes, threads in plan.cases():
        try:
            check_memory(case, present(plan.contestants(case), case))
        except BadInput as reason:
            if not plan.listed:
                raise
            if (note := f"left out: {reason}") not in sweep.notes:
                sweep.notes.append(note)
            continue
        yield case, passes, threads


def _measure(
    plan: Plan,
    case: Case,
    passes: list[str],
    threads: int,
    sweep: Sweep,
    resume: Resume,
    show: Callable[[str], None],
    progress: Progress,
) -> None:
    key = plan.key(case, passes, threads)
    if key in resume.done:
        for _ in range(1 + len(passes) * len(plan.kinds)):
            progress.step(f"kept {case}")
        _list_absent(sweep, case.op, resume.done[key]["absent"])
        _take(sweep, resume.done[key]["rows"], show)
        return
    progress.step(f"check {case}")
    race = Race(case, plan.contestants(case))
    _list_absent(sweep, case.op, race.absent)
    rows: list[Row] = []
    for which in passes:
        for kind in plan.kinds:
            progress.step(f"{which} {case}, {kind}")
            for method in race.methods(kind):
                measured = race.time(which, kind, plan.seconds, method)
                _take(sweep, measured, show)
                rows += measured
    resume.add(key, rows, race.absent)
    del race
    gc.collect()


def _list_absent(sweep: Sweep, op: str, absent: dict[str, str]) -> None:
    sweep.absent.setdefault(op, {}).update(absent)
    notes = [f"{name}: not timed, {reason}" for name, reason in absent.items()]
    sweep.notes += [note for note in notes if note not in sweep.notes]


def _take(sweep: Sweep, rows: list[Row], show: Callable[[str], None]) -> None:
    for row in rows:
        show(line(row))
    sweep.rows += rows
