# SPDX-License-Identifier: Apache-2.0
"""``python -m fusednorm report``: tables, pictures and environment as one page, no network."""

import base64
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from fusednorm.measure import evidence, plots, store
from fusednorm.measure.operations import OPERATIONS
from fusednorm.measure.profile import Profile
from fusednorm.measure.summary import WORDS, copies, heading, summary_cells
from fusednorm.measure.text import duration, percent

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff }
h1 { font-size: 1.6rem } h2 { margin-top: 2.2rem } h3 { margin-bottom: .3rem; font-size: 1rem }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd }
.words1 td:nth-child(1), .words1 th:nth-child(1), .words2 td:nth-child(-n+2),
.words2 th:nth-child(-n+2), .words3 td:nth-child(-n+3), .words3 th:nth-child(-n+3),
.words8 td:nth-child(-n+3) { text-align: left }
tr.ours { background: #fdeee3; font-weight: 600 }
img { max-width: 100%; margin: 1rem 0 } pre { background: #f4f4f4; padding: .8rem; overflow: auto }
.wide { overflow-x: auto } details { margin: .6rem 0 } footer { margin-top: 3rem; color: #555 }
"""


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1, ours: int | None = None
) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in header) + "</tr>"]
    for row in rows:
        mark = ' class="ours"' if ours is not None and row[ours] == "fusednorm" else ""
        lines.append(f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    return f'<div class="wide"><table class="words{words}">' + "\n".join(lines) + "</table></div>"


def _pictures(paths: list[str]) -> str:
    tags = []
    for path in paths:
        data = base64.b64encode(Path(path).read_bytes()).decode()
        name = escape(Path(path).stem)
        tags.append(f'<img alt="{name}" src="data:image/png;base64,{data}">')
    return "\n".join(tags)


def _absent(document: dict[str, Any]) -> str:
    """List the contestants not timed and why, each reason once for its operations."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for op, of_one in document["absent"].items():
        for name, reason in of_one.items():
            reasons.setdefault((name, reason), []).append(op)
    if not reasons:
        return ""
    told = "".join(
        f"<li><b>{escape(name)}</b> ({', '.join(ops)}): {escape(reason)}</li>"
        for (name, reason), ops in reasons.items()
    )
    return f"<p>Not timed:</p><ul>{told}</ul>"


def _errors(document: dict[str, Any]) -> str:
    errors = {(r["op"], r["contestant"]): r["errors"] for r in document["rows"]}
    names = list(dict.fromkeys(n for op in document["ops"] for n in OPERATIONS[op].results))
    cells = [
        [*who, *(f"{of[n]:.1e}" if n in of else "" for n in names)] for who, of in errors.items()
    ]
    return _table(["op", "contestant", *names], cells, words=2)


def _profile(document: dict[str, Any]) -> str:
    result = Profile(**{key: value for key, value in document.items() if key != "kind"})
    parts = [
        f"<h2>Profile: {escape(heading(result))} on {document['case']['device']}</h2>",
        "<p>Every contestant was first held against the formula in f64; one that is wrong gets no"
        " time. Contestants alternate with a copy of the same size.</p>",
        *(f"<p>{escape(line)}.</p>" for line in copies(result)),
        _table(*summary_cells(result), words=WORDS, ours=2),
        _absent(document),
        "<h3>Largest error against f64, over the root mean square</h3>",
        _errors(document),
        "<h2>Operator by operator</h2>",
        "<p>torch.profiler, times of one call. Totals and shares include what an operator calls."
        "</p>",
    ]
    for table in document["tables"]:
        place = f"{table['op']} {table['pass']}, {table['contestant']}: {table['what']}"
        parts.append(f"<h3>{escape(place)}</h3>")
        parts.append(_table(table["header"], table["rows"]))
    return "\n".join(parts)


def _bench(document: dict[str, Any]) -> str:
    header = ["contestant", "op", "pass", "dtype", "rows", "cols", "threads", "buffers"]
    header += ["time", "+-", "GB/s", "copy GB/s", "share of copy"]
    cells = [
        [
            *(r["contestant"], r["op"], r["pass"], r["dtype"], str(r["rows"]), str(r["cols"])),
            *(str(r["threads"]), r["buffers"], duration(r["median_seconds"])),
            *(percent(r["spread"]), f"{r['gigabytes_per_second']:.1f}"),
            *(f"{r['copy_gigabytes_per_second']:.1f}", f"{r['share_of_copy']:.3f}"),
        ]
        for r in document["rows"]
    ]
    table = _table(header, cells, words=8, ours=0)
    return f"<details><summary>{len(cells)} measurements</summary>{table}</details>"


def _how_we_know() -> str:
    claims = [[claim.name, claim.meaning, ", ".join(claim.tests)] for claim in evidence.CLAIMS]
    return "\n".join(
        [
            '<h2 id="how-we-know">How we know</h2>',
            "<p>What is promised, and the tests that would fail without it.</p>",
            _table(["guarantee", "meaning", "held by"], claims, words=3),
            "<h3>What has run, and where</h3>",
            _table(["what", "where", "how far"], evidence.HAS_RUN, words=3),
            "<h3>What has not</h3>",
            _table(["what", "why"], evidence.HAS_NOT_RUN, words=2),
        ]
    )


def _facts(facts: dict[str, str]) -> str:
    return _table(["", ""], [[key, value] for key, value in facts.items()], words=2)


def render(profile: dict[str, Any], sweeps: list[dict[str, Any]]) -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as directory:
        profile_pictures = _pictures(
            plots.draw_profile(profile, directory) if profile["rows"] else []
        )
        bench_parts = []
        for sweep in sweeps:
            bench_parts.append(_pictures(plots.draw_bench(sweep, directory)))
            bench_parts.append(_bench(sweep))
    body = [
        "<h1>fusednorm: what fusion saves</h1>",
        profile_pictures,
        _profile(profile) if profile["rows"] else "<p>Nothing was timed.</p>",
        "<h2>Sweep</h2>",
        *(bench_parts or ["<p>None was given: <code>report --bench FILE</code> adds one.</p>"]),
        _how_we_know(),
        "<h2>Environment</h2>",
        _facts(profile["environment"]),
        "<h2>How to reproduce</h2>",
        "<pre>python -m fusednorm profile --json profile.json --plot pictures\n"
        "python -m fusednorm bench --quick --json bench.json --plot pictures\n"
        "python -m fusednorm report --profile profile.json --bench bench.json</pre>",
        "<footer>time: median of interleaved rounds, +- half the distance of the quartiles."
        " bytes/min: what the operators read and write, each input and output once, over what must"
        " move. of copy: a copy's time for the minimal bytes over the time, both medians of the"
        " same rounds. fresh: outputs in new pages of the system (CPU), L2 flushed (CUDA)."
        "</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="icon" href="data:,"><title>fusednorm: what fusion saves</title>'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def write(path: str, profile: dict[str, Any], sweeps: list[dict[str, Any]]) -> None:
    """Write the page to ``path``."""
    store.write_whole(path, render(profile, sweeps))
