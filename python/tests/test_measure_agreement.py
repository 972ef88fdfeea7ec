"""fusednorm-bench and the Python bench: one list of shapes, one count of bytes, one answer."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from fusednorm.measure import problem, roof
from fusednorm.measure.contestants import CONTESTANTS
from fusednorm.measure.problem import Case, minimal_bytes
from fusednorm.measure.race import Race

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


def test_the_shapes_are_one_file():
    listed = ROOT / "bench" / "shapes.csv"
    if not listed.exists():
        pytest.skip("these tests are not in a source tree")
    assert problem.shapes_file().read_text() == listed.read_text()


@pytest.mark.parametrize("params", [[], ["--param-dtype", "f32"]])
def test_minimal_bytes_are_counted_alike(tmp_path, params):
    dtypes = [w for d in problem.DTYPES for w in ("--dtype", d)]
    shapes = ["--shape", "3x1000", "--shape", "257x40"]
    if params:
        dtypes = ["--dtype", "bf16"]
    rows = cpp_rows(tmp_path, *dtypes, *params, *shapes, "--seconds", "0.001")
    assert rows
    for row in rows:
        case = Case(row["rows"], row["cols"], row["dtype"], row["param_dtype"])
        counted = row["gigabytes_per_second"] * 1e9 * row["seconds"]
        assert counted == pytest.approx(minimal_bytes(case, row["pass"]), rel=1e-5)


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
    """Both take the best of many rounds, and differ by noise and by the operator's call.

    The call (dispatcher and autograd, at most 0.1 ms) is a share of the time that is known. Of the
    noise each bench has that of two best times, the work's and the copy's; the spread of the
    Python rounds says how large it is at the moment, and a best time is off by no more than the
    distance of the quartiles: four of them, and 5 % for the placement of the buffers.
    """
    if roof._library() is None:
        pytest.skip("this package has no libfusednorm_copy.so; pip install . builds it")
    rows, cols, threads = 8192, 1024, torch.get_num_threads()
    race = Race(Case(rows, cols), [CONTESTANTS["fusednorm"]])
    words = ["--shape", f"{rows}x{cols}", "--threads", str(threads), "--seconds", "0.5"]
    told = []
    for _ in range(3):  # a burst of other work during one of the two runs is no disagreement
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
