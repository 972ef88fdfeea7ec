# SPDX-License-Identifier: Apache-2.0
"""``python -m fusednorm profile``: one shape, operator by operator, then everyone side by side."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from fusednorm.measure import environment, profiler, traffic
from fusednorm.measure.buffers import BUFFERS, can_choose
from fusednorm.measure.contestants import CONTESTANTS, Contestant
from fusednorm.measure.problem import Case
from fusednorm.measure.progress import Progress
from fusednorm.measure.race import Race, Row
from fusednorm.measure.rates import rates
from fusednorm.measure.text import duration, percent, size, table, times

# Of rounds, for each pass and kind of buffers: four times this, with checks and compilation, is
# well under a minute.
SECONDS = 2.5


@dataclass
class Profile:
    """What has been measured so far; complete unless it was interrupted."""

    case: dict[str, Any]
    environment: dict[str, str]
    absent: dict[str, str] = field(default_factory=dict)
    tables: list[dict[str, Any]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"kind": "profile", **asdict(self)}


def run(
    case: Case,
    contestants: list[Contestant],
    passes: list[str],
    seconds: float,
    show: Callable[[str], None] = print,
) -> Profile:
    """Measure, printing tables as they come; Ctrl-C keeps what is there."""
    result = Profile(asdict(case), environment.describe(case.device))
    kinds = BUFFERS if can_choose() or case.device != "cpu" else BUFFERS[:1]
    steps = len(contestants) + len(passes) * (len(contestants) + len(kinds))
    with Progress(steps, "profile") as progress:
        try:
            _run(case, contestants, passes, seconds, kinds, result, show, progress)
        except KeyboardInterrupt:
            result.interrupted = True
    return result


def _run(
    case: Case,
    contestants: list[Contestant],
    passes: list[str],
    seconds: float,
    kinds: tuple[str, ...],
    result: Profile,
    show: Callable[[str], None],
    progress: Progress,
) -> None:
    show(f"LayerNorm {case}: each contestant against f64 first, then where its time goes.\n")
    race = Race(case, [])
    for contestant in contestants:
        progress.step(f"check {contestant.name}")
        race.enter(contestant)
        for name in race.absent.keys() - result.absent.keys():
            show(f"{name}: not timed, {race.absent[name]}")
        result.absent = dict(race.absent)
        if contestant.name in race.entries:
            errors = race.entries[contestant.name].verdict.errors
            told = ", ".join(f"{name} {error:.0e}" for name, error in errors.items())
            show(f"{contestant.name}: largest error over root mean square: {told}")
    show("")
    named: dict[str, int | None] = {}
    for which in passes:
        for name in race.timed(which):
            progress.step(f"{which} of {name}")
            found = profiler.lines(race.action(name, which), case.device)
            if name == "compile":
                named[which] = profiler.compiled_kernels(found)
            cells = profiler.as_cells(found, case.device.startswith("cuda"))
            result.tables.append(
                {
                    "contestant": name,
                    "pass": which,
                    "header": cells[0],
                    "rows": cells[1],
                    "lines": [asdict(line) for line in found],
                }
            )
            show(f"{which}, {name}: {CONTESTANTS[name].what}")
            show(table(*cells) + "\n")
    for which in passes:
        for kind in kinds:
            progress.step(f"time {which}, {kind} buffers")
            rows = race.time(which, kind, seconds, race.methods(kind)[0])
            if case.device.startswith("cuda"):
                for row in rows:
                    row["operators"] = traffic.kernels_launched(
                        race.action(row["contestant"], which)
                    )
            for row in rows:
                if row["contestant"] == "compile" and row["operators"] is None:
                    row["operators"] = named.get(which)
            result.rows += rows


def summary_cells(result: Profile) -> tuple[list[str], list[list[str]]]:
    """Return the summary's header and rows, contestants in their order, pass by pass."""
    steps = "kernels" if result.case["device"] != "cpu" else "operators"
    header = ["pass", "contestant", "time", "+-", "x 2019", "x native", "bytes/min", "of copy"]
    header += [steps, "fresh"]
    medians = {(r["pass"], r["contestant"], r["buffers"]): r["median_seconds"] for r in result.rows}
    cells = []
    for row in (r for r in result.rows if r["buffers"] == "warm"):
        which, name, median = row["pass"], row["contestant"], row["median_seconds"]

        def over(other: str, which: str = which, median: float = median) -> str:
            base = medians.get((which, other, "warm"))
            return times(base / median if base else None)

        fresh = medians.get((which, name, "fresh"))
        moved = row["moved_bytes"]
        cells.append(
            [
                *(which, name, duration(median), percent(row["spread"])),
                *(over("2019"), over("native")),
                times(moved / row["minimal_bytes"] if moved else None),
                percent(row["share_of_copy"]),
                "-" if row["operators"] is None else str(row["operators"]),
                duration(fresh) if fresh else "-",
            ]
        )
    return header, cells


def copies(result: Profile) -> list[str]:
    """Return what each pass must move, and how long a copy takes for that."""
    first = {r["pass"]: rates(r) for r in reversed(result.rows) if r["buffers"] == "warm"}
    return [
        f"{which}: {size(of.minimal_bytes)} must move; a copy, at "
        f"{of.copy_gigabytes_per_second:.3g} GB/s, takes {duration(of.seconds_as_copy)} for that"
        for which, of in reversed(first.items())
    ]


def summary(result: Profile) -> str:
    """Return everyone side by side, and what the columns mean."""
    if not result.rows:
        return "nothing was timed"
    case = result.case
    fresh = (
        "fresh: the L2 flushed before each call."
        if case["device"] != "cpu"
        else "fresh: each output in new pages from the system, as torch has it for large tensors;\n"
        "all else in pages that were used before."
    )
    return "\n".join(
        [
            f"LayerNorm {case['rows']} x {case['cols']} {case['dtype']}",
            environment.caption(result.environment),
            *copies(result),
            "",
            table(*summary_cells(result), words=2),
            "",
            "time: median of interleaved rounds, +- half the distance of the quartiles.",
            "bytes/min: what its operators read and write over what must move, at least.",
            "of copy: a copy's time for the minimal bytes over the time, both medians.",
            fresh,
        ]
    )
