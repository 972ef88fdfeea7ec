# SPDX-License-Identifier: Apache-2.0
"""The summary of a profile: every contestant side by side, operation by operation."""

from fusednorm.measure import environment
from fusednorm.measure.operations import OPERATIONS
from fusednorm.measure.profile import Profile
from fusednorm.measure.rates import Rates, rates
from fusednorm.measure.text import duration, percent, size, table, times

# Whose time the others are held against, where it was measured.
BASES = ("2019", "native", "unfused")
WORDS = 3  # the columns that are text


def summary_cells(result: Profile) -> tuple[list[str], list[list[str]]]:
    """Return the summary's header and rows, contestants in their order, pass by pass."""
    keys = ("op", "pass", "contestant", "buffers")
    medians = {tuple(r[key] for key in keys): r["median_seconds"] for r in result.rows}
    bases = [name for name in BASES if any(name == key[2] for key in medians)]
    steps = "kernels" if result.case["device"] != "cpu" else "operators"
    header = ["op", "pass", "contestant", "time", "+-", *(f"x {name}" for name in bases)]
    header += ["bytes/min", "of copy", steps, "fresh"]
    cells = []
    for row in (r for r in result.rows if r["buffers"] == "warm"):
        place, median, moved = (row["op"], row["pass"]), row["median_seconds"], row["moved_bytes"]
        against = [medians.get((*place, name, "warm")) for name in bases]
        fresh = medians.get((*place, row["contestant"], "fresh"))
        cells.append(
            [
                *(*place, row["contestant"], duration(median), percent(row["spread"])),
                *(times(base / median if base else None) for base in against),
                times(moved / row["minimal_bytes"] if moved else None),
                percent(row["share_of_copy"]),
                "-" if row["operators"] is None else str(row["operators"]),
                duration(fresh) if fresh else "-",
            ]
        )
    return header, cells


def copies(result: Profile) -> list[str]:
    """Return what each pass must move, and how long a copy takes for that."""
    first: dict[str, Rates] = {}
    for row in (r for r in result.rows if r["buffers"] == "warm"):
        first.setdefault(f"{row['op']} {row['pass']}", rates(row))
    return [
        f"{which}: {size(of.minimal_bytes)} must move; a copy, at "
        f"{of.copy_gigabytes_per_second:.3g} GB/s, takes {duration(of.seconds_as_copy)} for that"
        for which, of in first.items()
    ]


def heading(result: Profile) -> str:
    """Name the operations and their shape."""
    titles = ", ".join(OPERATIONS[op].title for op in result.ops)
    case = result.case
    return f"{titles} {case['rows']} x {case['cols']} {case['dtype']}"


def summary(result: Profile) -> str:
    """Return all contestants side by side, and what the columns mean."""
    if not result.rows:
        return "nothing was timed"
    fresh = (
        "fresh: the L2 flushed before each call."
        if result.case["device"] != "cpu"
        else "fresh: each output in new pages from the system, as torch has it for large tensors;\n"
        "all else in pages that were used before."
    )
    return "\n".join(
        [
            heading(result),
            environment.caption(result.environment),
            *copies(result),
            "",
            table(*summary_cells(result), words=WORDS),
            "",
            "time: median of interleaved rounds, +- half the distance of the quartiles.",
            "bytes/min: what its operators read and write over what must move, at least.",
            "of copy: a copy's time for the minimal bytes over the time, both medians.",
            fresh,
        ]
    )
