# SPDX-License-Identifier: Apache-2.0
"""The pictures: bars of a profile, share of the copy over columns, speed-up over rows x columns."""

import itertools
import math
from pathlib import Path
from typing import Any

from fusednorm.measure.operations import OPERATIONS
from fusednorm.measure.palette import LOOKS, PARTS, check_matplotlib, figure, plain, save
from fusednorm.measure.race import Row
from fusednorm.measure.rates import rates
from fusednorm.measure.shapes import grid_shapes
from fusednorm.measure.text import duration, percent, times

__all__ = ["check_matplotlib", "draw_bench", "draw_profile"]

# Lines over columns show matrices that are larger than caches; below, calls cost more than bytes.
LEAST_BYTES = 8 << 20
LEGEND = {"fontsize": 8.5, "frameon": False}


def _parts(document: dict[str, Any], row: Row) -> list[tuple[str, float]]:
    """Return the operators of a contestant and their shares of its own time, the longest first."""
    cuda = document["case"]["device"] != "cpu"
    for table in document["tables"]:
        if all(table[key] == row[key] for key in ("op", "pass", "contestant")):
            if cuda:  # kernels have no children: they are the lines without CPU time
                lines = [
                    (x["name"], x["device_total"]) for x in table["lines"] if not x["self_cpu"]
                ]
            else:
                lines = [(x["name"], x["self_cpu"]) for x in table["lines"]]
            whole = sum(seconds for _, seconds in lines) or 1.0
            found = [
                (n.removeprefix("aten::").removeprefix("native_"), s / whole)
                for n, s in lines
                if s / whole > 0.02
            ]
            return sorted(found, key=lambda part: -part[1])
    return []


def draw_profile(document: dict[str, Any], directory: str) -> list[str]:
    """Draw (a): a bar a contestant, operation and pass, cut into its operators, against a copy."""
    rows = [r for r in document["rows"] if r["buffers"] == "warm"]
    panels = list(dict.fromkeys((r["op"], r["pass"]) for r in rows))
    mine = [[r for r in rows if (r["op"], r["pass"]) == panel] for panel in panels]
    heights = [0.9 + 0.42 * len(bars) for bars in mine]
    drawing = figure(9, sum(heights) + 0.5)
    stacked = drawing.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (op, which), bars in zip(stacked, panels, mine, strict=True):
        _bars(axes, document, bars, f"{OPERATIONS[op].title} {which}")
    case = document["case"]
    drawing.suptitle(
        f"{case['rows']} x {case['cols']} {case['dtype']} on {case['device']}: "
        "from many operators to one",
        fontsize=11,
    )
    note = "bar: median time, cut by the profiler's shares; dotted: the same bytes as a plain copy"
    return [save(drawing, str(Path(directory) / "profile.png"), document["environment"], note)]


def _bars(axes: Any, document: dict[str, Any], rows: list[Row], title: str) -> None:
    longest = max(r["median_seconds"] for r in rows)
    seconds_of = {r["contestant"]: r["median_seconds"] for r in rows}
    base = next((name for name in ("2019", "native") if name in seconds_of), None)
    for place, row in enumerate(rows):
        seconds, left = row["median_seconds"], 0.0
        parts = _parts(document, row)
        whole = sum(share for _, share in parts)
        # A chain of many operators, as native rms_norm on the CPU, begins the colours again.
        for (name, share), colour in zip(parts, itertools.cycle(PARTS), strict=False):
            width = seconds * share / whole
            if row["contestant"] != "2019":
                colour = LOOKS[row["contestant"]].colour
            axes.barh(place, width * 1e3, left=left * 1e3, color=colour, edgecolor="white")
            if len(parts) > 1 and width > 0.0098 * len(name) * longest:
                dark = colour in PARTS[:2]
                axes.text(
                    *((left + width / 2) * 1e3, place, name),
                    **{"ha": "center", "va": "center", "fontsize": 7.5},
                    color="white" if dark else "black",
                )
            left += width
        told = f"{duration(seconds)}, {percent(row['share_of_copy'])} of copy"
        if base and seconds_of[base] > seconds:
            told += f", {times(seconds_of[base] / seconds)} {base}"
        axes.text((seconds + longest * 0.01) * 1e3, place, told, va="center", fontsize=9)
    axes.axvline(rates(rows[0]).seconds_as_copy * 1e3, color="black", linestyle=":", linewidth=1)
    axes.set_yticks(range(len(rows)), [r["contestant"] for r in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1e3 * 1.3)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("milliseconds", fontsize=9)
    plain(axes)


def draw_bench(document: dict[str, Any], directory: str) -> list[str]:
    """Draw (b) for each operation and dtype, and (c) where a grid was measured."""
    rows = [r for r in document["rows"] if r["buffers"] == "warm" and r["method"] != "graph"]
    most = max((r["threads"] for r in rows), default=0)
    rows = [r for r in rows if r["threads"] == most]
    grid = {(s.rows, s.cols) for s in grid_shapes()}
    drawn = []
    for op, dtype in dict.fromkeys((r["op"], r["dtype"]) for r in rows):
        mine = [r for r in rows if (r["op"], r["dtype"]) == (op, dtype)]
        lines = [r for r in mine if r["minimal_bytes"] >= LEAST_BYTES]
        if len({r["cols"] for r in lines}) > 1:
            drawn.append(_draw_shares(document, lines, directory))
        cells = [r for r in mine if (r["rows"], r["cols"]) in grid]
        if len({(r["rows"], r["cols"]) for r in cells}) >= 9:
            drawn.append(_draw_speedup(document, cells, directory))
    return drawn


def _panels(rows: list[Row], width: float, height: float) -> tuple[Any, dict[str, Any]]:
    passes = [p for p in ("forward", "backward") if any(r["pass"] == p for r in rows)] or ["both"]
    drawing = figure(width if len(passes) > 1 else width * 0.6, height)
    axes = drawing.subplots(1, len(passes), squeeze=False, sharey=True)[0]
    return drawing, dict(zip(passes, axes, strict=True))


def _of(row: Row) -> tuple[str, str]:
    """Name the operation and dtype of a picture, for its title and its file."""
    return f"{OPERATIONS[row['op']].title} {row['dtype']}", f"{row['op']}-{row['dtype']}"


def _short(value: float) -> str:
    """Write a power of two.

    >>> _short(256), _short(4096), _short(2**22)
    ('256', '4k', '4M')
    """
    for unit, scale in (("M", 1 << 20), ("k", 1 << 10)):
        if value >= scale:
            return f"{value / scale:g}{unit}"
    return f"{value:g}"


def _draw_shares(document: dict[str, Any], rows: list[Row], directory: str) -> str:
    drawing, panels = _panels(rows, 9, 3.9)
    for which, axes in panels.items():
        for name in dict.fromkeys(r["contestant"] for r in rows):
            # One point a width: of several shapes the one with most rows.
            points = {}
            for r in sorted(rows, key=lambda r: r["rows"]):
                if r["pass"] == which and r["contestant"] == name:
                    points[r["cols"]] = r["share_of_copy"]
            cols = sorted(points)
            axes.plot(
                *(cols, [points[c] for c in cols]),
                **{"color": LOOKS[name].colour, "marker": LOOKS[name].marker, "label": name},
                **{"linewidth": 1.6, "markersize": 9 if name == "fusednorm" else 5},
            )
        axes.axhline(1, color="#666666", linestyle=":", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, max(1.1, 1.05 * max(r["share_of_copy"] for r in rows)))
        axes.xaxis.set_major_formatter(lambda value, _: _short(value))
        axes.set_title(which, loc="left", fontsize=10)
        axes.set_xlabel("columns", fontsize=9)
        plain(axes)
    first = next(iter(panels.values()))
    first.set_ylabel("share of a copy's bandwidth", fontsize=9)
    handles, labels = first.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside right upper", **LEGEND)
    title, name = _of(rows[0])
    drawing.suptitle(f"{title}: minimal bytes a second, as a share of a copy", fontsize=11)
    path = str(Path(directory) / f"share-{name}.png")
    return save(drawing, path, document["environment"], "dotted: a copy in the same run")


def _draw_speedup(document: dict[str, Any], rows: list[Row], directory: str) -> str:
    drawing, panels = _panels(rows, 9, 4.2)
    heights, widths = (sorted({r[k] for r in rows}) for k in ("rows", "cols"))
    image = None
    for which, axes in panels.items():
        seconds = {
            (r["contestant"], r["rows"], r["cols"]): r["median_seconds"]
            for r in rows
            if r["pass"] == which
        }
        cells = [[math.nan] * len(widths) for _ in heights]
        for i, m in enumerate(heights):
            for j, n in enumerate(widths):
                ours, theirs = (seconds.get((name, m, n)) for name in ("fusednorm", "native"))
                if ours and theirs:
                    cells[i][j] = math.log2(theirs / ours)
                    dark = abs(cells[i][j]) > 2
                    axes.text(
                        *(j, i, times(theirs / ours)),
                        **{"ha": "center", "va": "center", "fontsize": 9},
                        color="white" if dark else "black",
                    )
        axes.set_facecolor("#EEEEEE")
        image = axes.imshow(cells, cmap="PuOr_r", vmin=-3, vmax=3, origin="lower", aspect="auto")
        axes.set_xticks(range(len(widths)), [str(n) for n in widths])
        axes.set_yticks(range(len(heights)), [str(m) for m in heights])
        axes.set_title(which, loc="left", fontsize=10)
        axes.set_xlabel("columns", fontsize=9)
        axes.tick_params(labelsize=9)
    next(iter(panels.values())).set_ylabel("rows", fontsize=9)
    scale = drawing.colorbar(image, ax=list(panels.values()), ticks=[-3, -2, -1, 0, 1, 2, 3])
    scale.ax.set_yticklabels(["1/8x", "1/4x", "1/2x", "1x", "2x", "4x", "8x"], fontsize=8)
    title, name = _of(rows[0])
    drawing.suptitle(f"{title}: fusednorm's speed-up over torch's native", fontsize=11)
    path = str(Path(directory) / f"speedup-{name}.png")
    return save(drawing, path, document["environment"], "orange: fusednorm is faster")
