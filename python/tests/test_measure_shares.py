# SPDX-License-Identifier: Apache-2.0
"""Times, bytes, copies and shares agree with each other in every output.

Each share is computed again from the numbers printed beside it. The rounds are made of numbers,
with medians far from the best times, so that no output can take its share from another statistic.
"""

import contextlib
import csv
import html
import io
import json
import re

import pytest

from fusednorm.measure import plots, race, roof
from fusednorm.measure.command import main
from fusednorm.measure.operations import OPERATIONS
from fusednorm.measure.timing import Samples

PASSES = ("forward", "backward")
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "%": 0.01}
MUST_MOVE = re.compile(
    r"(\w+ \w+): (\S+ \S+) must move; a copy, at (\S+) GB/s, takes (\S+ \S+) for"
)
# Three streams and four: shares count what each operation must move.
PLACES = [f"{op} {which}" for op in ("layer_norm", "add_rms_norm") for which in PASSES]
BARS = {"layer_norm": 3, "add_rms_norm": 2}  # 2019 had no RMSNorm
WORDS = ["--op", ",".join(BARS), "--contestants", "2019,native,fusednorm", "--seconds", "0.01"]


def number(text):
    """Read "12.3 ms" or "93 %"."""
    value, _, unit = text.strip().partition(" ")
    return float(value) * (UNITS[unit] if unit else 1)


def made_of_numbers(actions, clock, seconds):
    samples = {}
    for place, name in enumerate(actions):
        median = (20 if name.startswith(roof.PREFIX) else 30 + 10 * place) * 1e-6
        samples[name] = Samples([median * 0.25, median, median * 0.99, median * 1.01, median * 9])
    return samples


def lines_of(*words):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(list(words)) == 0
    return out.getvalue().splitlines()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Everything that a profile and a sweep print, write and draw."""
    directory = tmp_path_factory.mktemp("shares")
    figures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "take_turns", made_of_numbers)
        real = plots.save
        patch.setattr(plots, "save", lambda f, *rest: figures.append(f) or real(f, *rest))
        files = {kind: str(directory / kind) for kind in ("p.json", "p.csv", "b.json", "r.html")}
        plot = ["--plot", str(directory), "--json", files["p.json"], "--csv", files["p.csv"]]
        profile_lines = lines_of("profile", "--shape", "640x480", *WORDS, *plot)
        bars = figures[0]
        bench_lines = lines_of("bench", "--shape", "640x480", *WORDS, "--json", files["b.json"])
        names = ["--profile", files["p.json"], "--bench", files["b.json"]]
        lines_of("report", *names, "--output", files["r.html"])
    return profile_lines, bench_lines, bars, files


def check(seconds, minimal_bytes, copy_rate, share):
    # Three digits of times and rates are printed, and whole per cents.
    assert minimal_bytes / (copy_rate * 1e9) / seconds == pytest.approx(share, rel=0.02, abs=0.006)


def facts(lines):
    """Return the bytes and the copy of each operation and pass."""
    found = {}
    for line in lines:
        if match := MUST_MOVE.search(line):
            which, moved, rate, seconds = match.groups()
            found[which] = (number(moved), float(rate))
            assert number(moved) / (float(rate) * 1e9) == pytest.approx(number(seconds), rel=0.01)
    assert list(found) == PLACES
    return found


def check_cells(rows, of_pass):
    assert len(rows) == len(PASSES) * sum(BARS.values())
    for cells in rows:
        place = f"{cells['op']} {cells['pass']}"
        check(number(cells["time"]), *of_pass[place], number(cells["of copy"]))


def test_a_residual_is_two_more_streams_forward_and_one_more_backward(outputs):
    of_pass, matrix = facts(outputs[0]), 640 * 480 * 4
    streams = [round(moved / matrix) for moved, _ in of_pass.values()]
    assert streams == [2, 3, 4, 4]


def test_the_summary(outputs):
    lines = outputs[0]
    top = next(i for i, line in enumerate(lines) if line.startswith("op "))
    header = re.split(r"  +", lines[top])
    rows = [
        re.split(r"  +", line)
        for line in lines[top + 2 :]
        if re.match(r"\w+_norm +(for|back)ward  ", line)
    ]
    check_cells([dict(zip(header, row, strict=True)) for row in rows], facts(lines))


def test_the_files(outputs):
    files = outputs[3]
    with open(files["p.csv"]) as file:
        of_csv = list(csv.DictReader(file))
    for name in ("p.json", "b.json"):
        with open(files[name]) as file:
            rows = json.load(file)["rows"]
        for row in rows + (of_csv if name == "p.json" else []):
            words = (
                "median_seconds",
                "minimal_bytes",
                "copy_gigabytes_per_second",
                "share_of_copy",
            )
            seconds, moved, copy, share = (float(row[word]) for word in words)
            assert moved / seconds * 1e-9 / copy == pytest.approx(share, rel=1e-9)
            rate = float(row["copy_bytes"]) / float(row["copy_seconds"])
            assert rate == pytest.approx(copy * 1e9, rel=1e-9)
            assert seconds > 2 * float(row["best_seconds"])


def test_the_lines_of_a_sweep(outputs):
    with open(outputs[3]["b.json"]) as file:
        rows = json.load(file)["rows"]
    lines = [line for line in outputs[1] if re.match(r"\w+_norm +(forward|backward|both) ", line)]
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        time, rate, copy, share = re.search(
            r"(\S+ [mu]?s) +\S+ % +(\S+) +(\S+) +(\S+)$", line
        ).groups()
        assert row["minimal_bytes"] / number(time) * 1e-9 == pytest.approx(float(rate), rel=0.01)
        check(number(time), row["minimal_bytes"], row["copy_gigabytes_per_second"], float(share))
        assert float(copy) == pytest.approx(row["copy_gigabytes_per_second"], abs=0.06)


def test_the_picture(outputs):
    of_pass = facts(outputs[0])
    panels = {f"{OPERATIONS[op].title} {which}": (op, which) for op in BARS for which in PASSES}
    assert [axes.get_title(loc="left") for axes in outputs[2].axes] == list(panels)
    for axes, (op, which) in zip(outputs[2].axes, panels.values(), strict=True):
        moved, rate = of_pass[f"{op} {which}"]
        # The dotted line is the copy's time, and each bar's label has the bar's.
        dotted = axes.lines[0].get_xdata()[0] * 1e-3
        assert dotted == pytest.approx(moved / (rate * 1e9), rel=0.01)
        labels = [t for t in axes.texts if "of copy" in t.get_text()]
        assert len(labels) == BARS[op]
        for place, label in enumerate(labels):
            time, share = re.match(r"(\S+ \w+), (\S+ %) of copy", label.get_text()).groups()
            check(number(time), moved, rate, number(share))
            bar = [p for p in axes.patches if round(p.get_y() + p.get_height() / 2) == place]
            end = max(p.get_x() + p.get_width() for p in bar) * 1e-3
            assert end == pytest.approx(number(time), rel=0.01)
            assert dotted / end == pytest.approx(number(share), rel=0.02, abs=0.006)


def tables(page):
    for table in re.findall(r"<table.*?</table>", page, re.S):
        rows = re.findall(r"<tr.*?</tr>", table, re.S)
        cells = [[html.unescape(c) for c in re.findall(r"<t[hd]>(.*?)</t[hd]>", r)] for r in rows]
        yield [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]


def test_the_page(outputs):
    with open(outputs[3]["r.html"]) as file:
        page = file.read()
    of_pass = facts(html.unescape(page).splitlines())
    of_profile = next(t for t in tables(page) if "of copy" in t[0])
    check_cells(of_profile, of_pass)
    sweep = next(t for t in tables(page) if "share of copy" in t[0])
    warm = [r for r in sweep if r["pass"] in PASSES and r["buffers"] == "warm"]
    assert {r["op"] for r in warm} == set(BARS)
    for row in warm:
        if row["dtype"] == "f32":
            moved = of_pass[f"{row['op']} {row['pass']}"][0]
            assert moved / number(row["time"]) * 1e-9 == pytest.approx(float(row["GB/s"]), rel=0.01)
        share = float(row["GB/s"]) / float(row["copy GB/s"])
        assert share == pytest.approx(float(row["share of copy"]), rel=0.01)
