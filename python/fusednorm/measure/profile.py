# SPDX-License-Identifier: Apache-2.0
"""``python -m fusednorm profile``: one shape by operators, then all contestants side by side."""

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from fusednorm.measure import environment, profiler, traffic
from fusednorm.measure.buffers import BUFFERS, can_choose
from fusednorm.measure.contestants import Contestant, chosen, present
from fusednorm.measure.problem import Case, check_memory
from fusednorm.measure.progress import Progress
from fusednorm.measure.race import Race, Row
from fusednorm.measure.text import table

# Of rounds, for each pass and kind of buffers: four times this for an operation, with checks and
# compilation, is well under a minute.
SECONDS = 2.5
# What is profiled when no operation is named.
OPERATIONS_PROFILED = ["layer_norm", "rms_norm"]


@dataclass
class Profile:
    """What has been measured so far; complete unless it was interrupted."""

    case: dict[str, Any]  # what all operations share
    environment: dict[str, str]
    ops: list[str]
    absent: dict[str, dict[str, str]] = field(default_factory=dict)  # by operation
    tables: list[dict[str, Any]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"kind": "profile", **asdict(self)}


@dataclass
class _Task:
    """One operation of a profile, and where its results go."""

    case: Case
    contestants: list[Contestant]
    passes: list[str]
    kinds: tuple[str, ...]
    seconds: float
    result: Profile
    show: Callable[[str], None]
    progress: Progress


def run(
    cases: list[Case],
    names: list[str] | None,
    passes: list[str],
    seconds: float,
    show: Callable[[str], None] = print,
) -> Profile:
    """Measure one shape for one or more operations, printing tables as they come.

    Ctrl-C keeps what is there.
    """
    shared = {key: value for key, value in asdict(cases[0]).items() if key != "op"}
    device = cases[0].device
    result = Profile(shared, environment.describe(device), [case.op for case in cases])
    kinds = BUFFERS if can_choose() or device != "cpu" else BUFFERS[:1]
    entered = {case.op: chosen(names, case.op) for case in cases}
    for case in cases:  # before the first is measured
        check_memory(case, present(entered[case.op], case))
    steps = sum(len(c) + len(passes) * (len(c) + len(kinds)) for c in entered.values())
    with Progress(steps, "profile") as progress:
        try:
            for case in cases:
                task = (case, entered[case.op], passes, kinds, seconds)
                _measure(_Task(*task, result, show, progress))
                gc.collect()
        except KeyboardInterrupt:
            result.interrupted = True
    return result


def _measure(task: _Task) -> None:
    task.show(f"{task.case}: each contestant against f64 first, then where its time goes.\n")
    race = Race(task.case, [])
    _check(task, race)
    task.show("")
    named: dict[str, int | None] = {}
    for which in task.passes:
        for name in race.timed(which):
            task.progress.step(f"{which} of {name}")
            found = profiler.lines(race.action(name, which), task.case.device)
            if name == "compile":
                named[which] = profiler.compiled_kernels(found)
            _keep(task, race, which, name, found)
    for which in task.passes:
        for kind in task.kinds:
            task.progress.step(f"time {which}, {kind} buffers")
            rows = race.time(which, kind, task.seconds, race.methods(kind)[0])
            for row in rows:
                if task.case.device.startswith("cuda"):
                    action = race.action(row["contestant"], which)
                    row["operators"] = traffic.kernels_launched(action)
                elif row["contestant"] == "compile" and row["operators"] is None:
                    row["operators"] = named.get(which)
            task.result.rows += rows


def _check(task: _Task, race: Race) -> None:
    """Let the contestants enter, and say how far from the formula each is or why it is absent."""
    absent = task.result.absent.setdefault(task.case.op, {})
    told = [line for of_one in task.result.absent.values() for line in of_one.items()]
    for contestant in task.contestants:
        task.progress.step(f"check {contestant.name}")
        race.enter(contestant)
        for name in race.absent.keys() - absent.keys():
            if (name, race.absent[name]) not in told:  # of an operation before
                task.show(f"{name}: not timed, {race.absent[name]}")
        absent.update(race.absent)
        if contestant.name in race.entries:
            errors = race.entries[contestant.name].verdict.errors
            each = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
            task.show(f"{contestant.name}: largest error over root mean square: {each}")


def _keep(task: _Task, race: Race, which: str, name: str, found: list[profiler.Line]) -> None:
    """Keep and show the table of one contestant's operators."""
    header, rows = profiler.as_cells(found, task.case.device.startswith("cuda"))
    what = race.entries[name].contestant.ways[task.case.op].what
    task.result.tables.append(
        {
            "op": task.case.op,
            "contestant": name,
            "what": what,
            "pass": which,
            "header": header,
            "rows": rows,
            "lines": [asdict(line) for line in found],
        }
    )
    task.show(f"{task.case.op} {which}, {name}: {what}")
    task.show(table(header, rows) + "\n")
