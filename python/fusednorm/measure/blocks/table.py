# SPDX-License-Identifier: Apache-2.0
"""The table of the blocks, and what its columns mean."""

from fusednorm.measure import environment
from fusednorm.measure.blocks.run import Result, Row
from fusednorm.measure.text import duration, percent, table

HEADER = ["block", "mode", "pass", "norms", "time", "+-", "norms' share", "+- %", "x native"]
MEANING = (
    "norms: none (identity, the residual adds stay), native (nn.LayerNorm, nn.RMSNorm), converted\n"
    "(fusednorm.convert), fused add (fusednorm's modules; norm(x, residual) does the add, too).\n"
    "time: median of interleaved rounds, +- half the distance of the quartiles.\n"
    "norms' share: 1 - (time without norms) / time, +- how far medians of that spread may be off.\n"
    "A share, or a difference of shares, within that is noise."
)


def cells(result: Result) -> list[list[str]]:
    """Return the rows of the table, forward passes first."""
    order = {"forward": 0, "both": 1}
    places = list(dict.fromkeys((r["block"], r["mode"]) for r in result.rows))
    rows = sorted(
        result.rows, key=lambda r: (places.index((r["block"], r["mode"])), order[r["pass"]])
    )
    return [
        [
            *(row["block"], row["mode"], row["pass"], row["norms"]),
            *(duration(row["median_seconds"]), percent(row["spread"])),
            *_share(row),
            f"{row['speedup']:.3f}x",
        ]
        for row in rows
    ]


def _share(row: Row) -> tuple[str, str]:
    if row["norms"] == "none":
        return "-", "-"
    return f"{row['norms_share'] * 100:.1f} %", f"{row['norms_share_error'] * 100:.1f}"


def summary(result: Result) -> str:
    """Return all that is printed."""
    if not result.rows:
        return "nothing was timed"
    blocks = [f"{block}, {result.dtype}" for block in result.blocks]
    facts = [environment.caption(result.environment), *blocks]
    notes = ["", *result.notes] if result.notes else []
    return "\n".join([*facts, "", table(HEADER, cells(result), words=4), *notes, "", MEANING])
