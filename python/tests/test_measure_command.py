# SPDX-License-Identifier: Apache-2.0
"""The command line: what it prints, what it refuses, what it keeps when it is stopped."""

import csv
import doctest
import json
import os
import subprocess
import sys
import time

import pytest
import torch

import fusednorm
from fusednorm.measure import grammar, minimal_bytes, plots, problem, race, text
from fusednorm.measure.command import main

SMALL = ["--rows", "64", "--cols", "48", "--seconds", "0.01"]
QUICK = ["--op", "layer_norm", "--contestants", "2019,native,fusednorm"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["profile", "--dtype", "f8"], "--dtype f8: expected one of f64, f32, f16, bf16"),
        (["profile", "--contestants", "cudnn"], "--contestants cudnn: expected some of 2019"),
        (["profile", "--rows", "0", "--cols", "8"], "0: expected a whole number, at least 1"),
        (["profile", "--rows", "8"], "--rows and --cols: expected both or neither"),
        (["profile", "--shape", "8by8"], "--shape 8by8: expected ROWSxCOLS"),
        (["profile", "--device", "tpu"], "--device tpu: expected cpu, cuda or cuda:N"),
        (["profile", "--rows", "9000000", "--cols", "9000000"], "needs about"),
        (["bench", "--shape", "9000000x9000000"], "measure fewer rows or columns"),
        (["profile", "--json", "/nowhere/x.json"], "--json /nowhere/x.json: cannot be written"),
        (["bench", "--pass", "sideways"], "--pass sideways: expected one of forward"),
        (["bench", "--seconds", "-1"], "expected a number of seconds above zero"),
        (["report", "--profile", "/nowhere.json"], "--profile /nowhere.json: cannot be read"),
        (["report", "--output", "/nowhere/r.html"], "--output /nowhere/r.html: cannot be written"),
        (["bench", "--no-such-option"], "--no-such-option"),
        (["bench", "forward:f32:8x8:colour=red"], "colour: expected one of op, rounding"),
        (["bench", "forward:f32:8x8:offset=1"], "offset=1: this command takes no such problem"),
        (["bench", "forward:f32:8x8", "--dtype", "f32"], "a problem, or --shape and its like"),
        (["profile", "sideways:f32:8x8"], "sideways: expected one of forward, backward"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, said, capsys, monkeypatch):
    monkeypatch.setattr("fusednorm.measure.environment.busy", lambda: "")
    assert main(words) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_device_that_is_not_there(capsys):
    if torch.cuda.is_available():
        assert main(["profile", "--device", "cuda:99"]) == 2
    else:
        assert main(["profile", "--device", "cuda"]) == 2
    assert "--device cuda" in capsys.readouterr().err


def test_profile_prints_tables_and_summary_and_writes_files(tmp_path, capsys):
    files = ["--json", str(tmp_path / "p.json"), "--csv", str(tmp_path / "p.csv")]
    shape = ["--shape", "2048x256", "--seconds", "0.01"]  # the engine's bookkeeping is small here
    assert main(["profile", *shape, *QUICK, *files, "--plot", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert "AddcmulBackward0" in out, "the table of the request"
    assert "aten::native_batch_norm_backward" in out
    for column in ("self CPU", "CPU total", "calls", "share", "x 2019", "x native", "of copy"):
        assert column in out
    document = json.loads((tmp_path / "p.json").read_text())
    assert {r["contestant"] for r in document["rows"]} == {"2019", "native", "fusednorm"}
    assert {r["buffers"] for r in document["rows"]} <= {"warm", "fresh"}
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(document["rows"])
    assert float(rows[0]["error_dgamma"]) < 1e-3
    assert (tmp_path / "new" / "profile.png").read_bytes().startswith(b"\x89PNG")


def test_backward_only(capsys):
    assert main(["profile", *SMALL, *QUICK, "--backward-only"]) == 0
    out = capsys.readouterr().out
    assert "layer_norm backward, fusednorm" in out
    assert "forward, " not in out


def test_absent_contestants_say_why_in_a_line(capsys):
    words = ["--op", "layer_norm", "--contestants", "apex,native", "--device", "cpu"]
    assert main(["profile", *SMALL, *words]) == 0
    assert "apex: not timed, has no cpu kernel\n" in capsys.readouterr().out


def test_bench_covers_what_was_asked_and_leaves_the_threads_alone(tmp_path):
    path = tmp_path / "b.json"
    before = torch.get_num_threads()
    words = ["--shape", "32x40", "--shape", "8x41", "--dtype", "f32", "--dtype", "bf16"]
    words += ["--pass", "both", "--threads", "1", "--threads", "2", "--seconds", "0.01"]
    assert main(["bench", *words, *QUICK, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    keys = {(r["cols"], r["dtype"], r["threads"], r["buffers"], r["contestant"]) for r in rows}
    assert len(keys) == len(rows) == 2 * 2 * 2 * len({r["buffers"] for r in rows}) * 3
    assert torch.get_num_threads() == before


def test_a_stopped_sweep_keeps_its_cases_and_goes_on(tmp_path, capsys, monkeypatch):
    words = ["bench", "--shape", "32x40", "--shape", "8x41", "--dtype", "f32", "--pass", "forward"]
    words += ["--buffers", "warm", "--seconds", "0.01", *QUICK]
    words += ["--resume", str(tmp_path / "kept"), "--json", str(tmp_path / "b.json")]
    real, measured = race.Race.time, []

    def stop_at_the_second(self, *arguments):
        measured.append(self.case.rows)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(race.Race, "time", stop_at_the_second)
    assert main(words) == 130
    assert "interrupted" in capsys.readouterr().err
    assert {r["rows"] for r in json.loads((tmp_path / "b.json").read_text())["rows"]} == {32}
    assert main(words) == 0
    assert measured == [32, 8, 8], "the finished case was measured again"
    assert {r["rows"] for r in json.loads((tmp_path / "b.json").read_text())["rows"]} == {32, 8}

    monkeypatch.setattr("fusednorm.measure.environment.processor", lambda: "another machine")
    assert main(words) == 2
    assert "was measured with machine" in capsys.readouterr().err


def test_a_profile_that_is_stopped_prints_what_it_has(capsys, monkeypatch):
    real, calls = race.Race.time, []

    def stop_late(self, *arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(race.Race, "time", stop_late)
    assert main(["profile", *SMALL, *QUICK]) == 130
    captured = capsys.readouterr()
    assert "x native" in captured.out
    assert "\nlayer_norm  forward  fusednorm " in captured.out
    assert "interrupted" in captured.err


def test_in_a_pipe_there_are_no_escapes_and_little_time_before_the_first_line():
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    torch_import = time.perf_counter() - begin
    words = [sys.executable, "-m", "fusednorm", "profile", *SMALL, *QUICK, "--forward-only"]
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        first = child.stdout.readline()
        waited = time.perf_counter() - begin - torch_import
        out, err = child.communicate()
    assert child.returncode == 0
    assert b"\x1b" not in first + out + err
    assert b"USDT" not in err, "a native library wrote into the tables"
    # On a machine that others use too, both numbers grow with the load.
    allowed = 3.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert waited < allowed, f"{waited:.1f} s from torch to the first line"


@pytest.mark.parametrize("module", [grammar, minimal_bytes, plots, problem, text])
def test_the_examples_in_the_documentation(module):
    assert doctest.testmod(module).failed == 0


def test_problems_are_spelled_in_the_grammar(tmp_path):
    path = tmp_path / "b.json"
    texts = ["forward:bf16/f32:32x40", "backward:f32:8x41", "backward:bf16/f32:32x40"]
    words = [*texts, "--contestants", "native", "--buffers", "warm", "--seconds", "0.01"]
    assert main(["bench", *words, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    # torch's bf16 backward pass is off on the CPU and gets no time.
    assert {r["problem"] for r in rows} | {texts[2]} == set(texts)


def test_a_closed_pipe_ends_the_command_without_a_word():
    words = [sys.executable, "-m", "fusednorm", "profile", *SMALL, *QUICK, "--forward-only"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        child.stdout.close()  # as `| head -0` does
        err = child.stderr.read()
        assert child.wait() == 141
    assert b"Traceback" not in err
    assert b"BrokenPipe" not in err


def test_a_report_that_fails_or_is_stopped_leaves_no_file(tmp_path, capsys, monkeypatch):
    output = tmp_path / "report.html"

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(race.Race, "time", stop)
    monkeypatch.setattr("fusednorm.measure.command.DEFAULT_SHAPE", "64x48")
    assert main(["report", "--output", str(output)]) == 130
    assert "no report was written" in capsys.readouterr().err
    assert main(["report", "--profile", "/nowhere.json", "--output", str(output)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_only_a_measurement_says_that_the_machine_is_busy(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fusednorm.measure.environment.busy", lambda: "this machine is busy")
    assert main(["profile", "--dtype", "f8"]) == 2
    assert main(["report", "--profile", "/nowhere.json"]) == 2
    assert "busy" not in capsys.readouterr().err
    assert main(["profile", *SMALL, *QUICK, "--forward-only"]) == 0
    assert "busy" in capsys.readouterr().err


def test_more_threads_than_cores_are_remarked_on(capsys):
    before, many = torch.get_num_threads(), (os.cpu_count() or 1) + 1
    words = ["--shape", "8x16", "--dtype", "f32", "--pass", "forward", "--buffers", "warm"]
    words += ["--seconds", "0.01", "--contestants", "native"]
    assert main(["bench", *words, "--threads", str(many)]) == 0
    assert f"--threads {many}: this machine has {many - 1} cores" in capsys.readouterr().err
    assert torch.get_num_threads() == before


def test_notes_stand_below_the_table(capsys):
    words = ["--shape", "8x16", "--dtype", "f32", "--pass", "forward", "--buffers", "warm"]
    words += ["--seconds", "0.01", "--contestants", "apex,native", "--device", "cpu"]
    assert main(["bench", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "apex: not timed, has no cpu kernel"
    assert all("not timed" not in line for line in lines[:-1])


def test_version(capsys):
    with pytest.raises(SystemExit) as leave:
        main(["--version"])
    assert leave.value.code == 0
    assert fusednorm.__version__ in capsys.readouterr().out
