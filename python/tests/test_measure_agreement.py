# SPDX-License-Identifier: Apache-2.0
"""fusednorm-bench and the Python bench: one grammar, one count of bytes, one answer."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from fusednorm.measure import grammar, roof
from fusednorm.measure.contestants import CONTESTANTS
from fusednorm.measure.minimal_bytes import minimal_bytes
from fusednorm.measure.problem import Case
from fusednorm.measure.race import Race
from fusednorm.measure.rates import rates

ROOT = Path(__file__).parents[2]
FAST_BUILDS = ("release", "dev", "cuda")


def cpp_bench():
    named = os.environ.get("FUSEDNORM_BENCH_BINARY")
    # Not the sanitizers' builds, which take tens of times as long.
    builds = [ROOT / "build" / name / "bench" / "fusednorm-bench" for name in FAST_BUILDS]
    found = [Path(named)] if named else [path for path in builds if path.exists()]
    if not found:
        pytest.skip(
            "no fusednorm-bench in build/; cmake --build --preset dev, or FUSEDNORM_BENCH_BINARY="
        )
    return found[0]


def cpp_rows(tmp_path, *words):
    path = tmp_path / "cpp.json"
    subprocess.run(
        [cpp_bench(), *words, "--json", path], check=True, stdout=subprocess.DEVNULL, timeout=60
    )
    return json.loads(path.read_text())


def test_problems_and_minimal_bytes_are_the_same(tmp_path):
    texts = ["forward:f32:3x1000", "backward:f64:257x40", "backward_from_y:bf16/f32/f32:3x1000"]
    texts += ["forward:bf16/f32:8x40:out=none:gamma=none", "backward:f16:8x40:stride=50:out=dgamma"]
    texts += [f"{kind}:bf16/f32:8x40:op=rms_norm" for kind in ("forward", "backward")]
    texts += [f"{kind}:bf16:8x40:residual=bf16" for kind in ("forward", "backward")]
    texts += ["forward:bf16/f32:8x40:op=rms_norm:residual=f32", "backward:f32:8x40:residual=f32"]
    rows = cpp_rows(tmp_path, *texts, "--seconds", "0.001")
    assert [row["problem"] for row in rows] == [str(grammar.parse(text)) for text in texts]
    for row in rows:
        assert row["minimal_bytes"] == minimal_bytes(grammar.parse(row["problem"])).total


def test_the_cpp_bench_refuses_what_it_does_not_measure():
    for word in ("data=tiny", "dy=zeros", "gamma=large", "in_place=y_over_x", "seed=2", "colour=1"):
        words = [cpp_bench(), f"forward:f32:8x8:{word}"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        assert done.stderr.startswith(f"fusednorm-bench: {word.removesuffix('=1')}: ")
        assert done.stderr.count("\n") == 1


def test_the_cpp_bench_prints_a_share_of_the_times_beside_it(tmp_path):
    words = [cpp_bench(), "forward:f32:512x512", "backward:bf16:512x512", "--seconds", "0.05"]
    path = tmp_path / "cpp.json"
    done = subprocess.run(
        [*words, "--json", path], check=True, capture_output=True, text=True, timeout=60
    )
    for line, row in zip(done.stdout.splitlines()[1:], json.loads(path.read_text()), strict=True):
        microseconds, rate, copy, share = map(float, line.split()[2:6])
        # Two decimals of a rate are printed, and three of a share: a busy machine has few digits.
        measured = row["minimal_bytes"] / microseconds * 1e-3
        assert measured == pytest.approx(rate, rel=1e-3, abs=0.006)
        assert measured / copy == pytest.approx(share, rel=1e-3 + 0.006 / copy, abs=6e-4)
        assert row["share_of_copy"] == pytest.approx(rates(row).share_of_copy, rel=1e-4)
        assert row["best_seconds"] <= row["median_seconds"]


def test_the_copy_copies():
    library = roof._library()
    if library is None:
        pytest.skip("this package has no libfusednorm_copy.so; pip install . builds it")
    for count in (1, 63, 1000, 70_001, 1 << 20):
        source = torch.randint(0, 255, (count,), dtype=torch.uint8)
        for streaming in (0, 1):
            target = torch.zeros(count + 1, dtype=torch.uint8)
            library(target.data_ptr(), source.data_ptr(), count, 2, streaming)
            assert torch.equal(target[:-1], source)
            assert target[-1] == 0


def test_the_share_of_a_copy_agrees(tmp_path):
    """Both take medians of many rounds, and differ by noise and by the operator's call.

    The call (dispatcher and autograd, at most 0.1 ms) is a share of the time that is known. Of the
    noise each bench has that of two medians, the work's and the copy's; the spread of the Python
    rounds says how large it is at the moment, and a median is off by no more than the distance of
    the quartiles: four of them, and 5 % for the placement of the buffers.
    """
    if roof._library() is None:
        pytest.skip("this package has no libfusednorm_copy.so; pip install . builds it")
    rows, cols, threads = 8192, 1024, torch.get_num_threads()
    race = Race(Case(rows, cols), [CONTESTANTS["fusednorm"]])
    words = ["--shape", f"{rows}x{cols}", "--threads", str(threads), "--seconds", "0.5"]
    told = []
    for _ in range(6):  # a burst of other work during one of the two runs is no disagreement
        cpp = {r["pass"]: r["share_of_copy"] for r in cpp_rows(tmp_path, *words)}
        told = []
        for which, theirs in cpp.items():
            row = race.time(which, "warm", 0.5)[0]
            bound = 0.05 + 8 * row["spread"] + 1e-4 / row["best_seconds"]
            off = abs(row["share_of_copy"] / theirs - 1)
            told.append((which, row["share_of_copy"], theirs, off, bound))
        if all(off <= bound for *_, off, bound in told):
            return
    raise AssertionError(f"pass, Python's share, C++'s, distance, bound: {told}")
