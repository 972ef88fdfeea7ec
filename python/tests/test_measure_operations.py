# SPDX-License-Identifier: Apache-2.0
"""The operations: every contestant against f64, each kind of mistake, and --op in every command."""

import csv
import dataclasses
import doctest
import json
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import layer_norm, rms_norm

import stand_ins
from fusednorm.measure import operations, problem
from fusednorm.measure.command import main
from fusednorm.measure.contestants import CONTESTANTS, EPS, Contestant, Way, chosen
from fusednorm.measure.correct import compare
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.operations import OPERATIONS
from fusednorm.measure.problem import DTYPES, Case, of_text
from fusednorm.measure.race import Race

SMALL = ["--rows", "64", "--cols", "48", "--seconds", "0.01", "--device", "cpu"]
HERE = ("2019", "native", "unfused", "fusednorm")  # those that run on any machine, quickly
NEW = [op for op in OPERATIONS if op != "layer_norm"]


def here(op):
    return [CONTESTANTS[name] for name in HERE if op in CONTESTANTS[name].ways]


@pytest.mark.parametrize("op", NEW)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(300, 96), (1, 5000), (2000, 3)])
def test_honest_contestants_are_right(op, dtype, shape):
    race = Race(Case(*shape, dtype, dtype, op=op), here(op))
    # torch's LayerNorm sums dgamma and dbeta in bf16 on the CPU; that is no mistake of ours.
    assert set(race.absent) <= ({"native backward"} if op == "add_layer_norm" else set())


@pytest.mark.parametrize("op", NEW)
def test_mixed_dtypes_are_right(op):
    race = Race(Case(300, 96, "bf16", "f32", op=op), [CONTESTANTS["fusednorm"]])
    assert race.absent == {}


def results(op, dtype):
    race = Race(Case(300, 96, dtype, dtype, op=op), [CONTESTANTS["fusednorm"]])
    outputs = race.entries["fusednorm"].outputs
    values = [t.detach() for t in (*outputs, *race._gradients(outputs))]
    return race, dict(zip(race.case.operation.results, values, strict=True))


MISTAKES = {
    "y": lambda t, inputs: t * 1.05,
    "sum": lambda t, inputs: t * 1.02,
    "dx": lambda t, inputs: t + 0.1 * t.abs().mean(),
    "dresidual": lambda t, inputs: t - inputs.ds,  # the sum's own gradient was forgotten
    "dgamma": lambda t, inputs: t * 1.5,
    "dbeta": lambda t, inputs: t - inputs.dy[:4].sum(0),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("op", "name"), [(o.name, n) for o in OPERATIONS.values() for n in o.results]
)
def test_a_mistake_in_each_result_is_named(op, name, dtype):
    race, values = results(op, dtype)
    values[name] = MISTAKES[name](values[name], race.inputs).to(values[name].dtype)
    verdict = compare(race.case.operation, race.inputs, values)
    assert verdict.mistake().startswith(f"{name} is off")
    assert verdict.mistake().count(" is off") == 1


def made(op, norm):
    """Return a contestant from a function of gamma, beta and the data."""
    way = Way("made for this test", lambda gamma, beta: lambda *data: norm(gamma, beta, *data))
    return Contestant("made", {op: way})


def exact_sum(gamma, beta, x, residual):
    """Normalise x + residual before it is rounded: as flash-attn and quack do."""
    total = x.float() + residual.float()
    return rms_norm(total, gamma.shape, gamma.float(), EPS).to(x.dtype), total.to(x.dtype)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_the_norm_of_the_exact_sum_is_right_too(dtype):
    race = Race(Case(300, 96, dtype, dtype, op="add_rms_norm"), [made("add_rms_norm", exact_sum)])
    assert race.absent == {}


def test_another_norm_is_wrong():
    centred = made("rms_norm", lambda gamma, _, x: layer_norm(x, gamma.shape, gamma, None, EPS))
    race = Race(Case(300, 96, op="rms_norm"), [centred])
    assert race.absent["made"].startswith("is wrong: y is off")


def test_a_sum_that_is_not_what_was_normalised_is_wrong():
    def forgotten(gamma, beta, x, residual):
        return rms_norm(x + residual, gamma.shape, gamma, EPS), x + 0 * residual

    race = Race(Case(300, 96, op="add_rms_norm"), [made("add_rms_norm", forgotten)])
    assert race.absent["made"].startswith("is wrong: sum is off")


def test_the_operators_of_the_fused_ones_are_one_each_way():
    for op in OPERATIONS:
        race = Race(Case(64, 32, op=op), here(op))
        fused = race.entries["fusednorm"].moved
        assert [fused[which].operators for which in ("forward", "backward")] == [1, 1]
        for which, moved in fused.items():
            assert moved.bytes == pytest.approx(race.case.minimal_bytes(which), rel=0.1)
        if op.startswith("add"):
            unfused = race.entries["unfused"].moved
            assert [unfused[which].operators for which in ("forward", "backward")] == [2, 2]
            matrix = race.case.matrix_bytes
            # Forward the norm reads the sum again; backward the norm's dx is stored and read.
            assert unfused["forward"].bytes - fused["forward"].bytes == pytest.approx(
                matrix, rel=0.1
            )
            more = unfused["backward"].bytes - fused["backward"].bytes
            assert more == pytest.approx(2 * matrix, rel=0.1)


def test_who_is_listed_for_an_operation():
    names = {op: {c.name for c in chosen(None, op)} for op in OPERATIONS}
    peers = {"apex", "transformer_engine", "liger", "quack", "flash_attn"}
    assert all(peers <= names[op] for op in OPERATIONS)
    assert "2019" in names["layer_norm"] - names["rms_norm"]
    assert "unfused" in names["add_rms_norm"] - names["rms_norm"]
    absent = Race(Case(8, 8, op="add_rms_norm"), chosen(None, "add_rms_norm")[2:-2]).absent
    assert absent["apex"] == "has no add_rms_norm"
    assert absent["quack"] == "has no cpu kernel"


def test_profile_shows_both_norms_unless_an_operation_is_named(capsys, tmp_path):
    files = ["--json", str(tmp_path / "p.json"), "--csv", str(tmp_path / "p.csv")]
    names = ["--contestants", "native,apex,fusednorm", "--forward-only"]
    assert main(["profile", *SMALL, *names, *files, "--plot", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\nLayerNorm, RMSNorm 64 x 48 f32\n" in out
    assert "\nlayer_norm  forward  fusednorm " in out
    assert "\nrms_norm    forward  native " in out
    assert out.count("apex: not timed, has no cpu kernel\n") == 1
    document = json.loads((tmp_path / "p.json").read_text())
    assert document["ops"] == ["layer_norm", "rms_norm"]
    assert set(document["absent"]) == {"layer_norm", "rms_norm"}
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["op"] for row in rows} == {"layer_norm", "rms_norm"}
    assert {bool(row["error_dbeta"]) for row in rows if row["op"] == "rms_norm"} == {False}


def test_add_operations_are_held_against_the_unfused(capsys):
    names = ["--contestants", "native,unfused,fusednorm"]
    assert main(["profile", *SMALL, *names, "--op", "add_rms_norm"]) == 0
    out = capsys.readouterr().out
    header = next(line for line in out.splitlines() if line.startswith("op "))
    assert "x native  x unfused" in header
    assert "x 2019" not in header
    assert "add_rms_norm  backward  unfused " in out


def test_bench_takes_operations_and_problems_of_the_grammar(tmp_path):
    path = tmp_path / "b.json"
    words = ["--contestants", "native", "--buffers", "warm", "--seconds", "0.01"]
    shape = ["--shape", "32x40", "--dtype", "f32", "--pass", "both"]
    assert main(["bench", *shape, "--op", ",".join(NEW), *words, "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert [row["op"] for row in rows] == NEW
    text = "backward:bf16/f32:32x40:op=rms_norm:residual=bf16"
    words[1] = "fusednorm"  # native gives f32 here where it is no operator of its own (torch 2.6)
    assert main(["bench", text, *words, "--json", str(path)]) == 0
    (row,) = json.loads(path.read_text())["rows"]
    assert (row["op"], row["problem"]) == ("add_rms_norm", text)


@pytest.mark.parametrize(
    "word", ["residual=f32", "rounding=via_x", "gamma_offset=1", "groups=4", "grads=dy"]
)
def test_words_of_the_grammar_that_are_not_measured_are_refused(word):
    text = "backward:bf16:32x40:residual=bf16:" + word
    text = text.replace("residual=bf16:residual", "residual")
    with pytest.raises(BadInput, match="takes no such problem") as error:
        of_text(text, "cpu")
    assert str(error.value).startswith(f"{word}: ")


@pytest.mark.parametrize("command", ["profile", "bench", "report"])
def test_an_operation_that_is_none_is_one_line(command, capsys, tmp_path):
    words = ["--output", str(tmp_path / "r.html")] if command == "report" else SMALL[:-2]
    assert main([command, *words, "--op", "batch_norm"]) == 2
    said = "--op batch_norm: expected some of layer_norm, rms_norm, add_layer_norm, add_rms_norm"
    assert said in capsys.readouterr().err


def test_the_examples_in_the_documentation():
    assert doctest.testmod(operations).failed == 0


# The names and signatures that stand in the peers' sources, over torch's own arithmetic: their
# kernels need a GPU, and how they are called need not wait for one.


class PeerRMSNorm(torch.nn.RMSNorm):
    """TransformerEngine's module, as far as it is called."""

    def __init__(self, normalized_shape, eps=1e-5, **kwargs):
        assert set(kwargs) == {"dtype", "device"}
        super().__init__(normalized_shape, eps=eps, **kwargs)


def apex_rms_norm(input, weight, normalized_shape, eps=1e-6, memory_efficient=False):
    return rms_norm(input, normalized_shape, weight, eps)


def liger_rms_norm(x, w, eps, offset=0.0, casting_mode="llama", in_place=True, row_mode=None):
    assert (offset, in_place) == (0.0, False), "in place it overwrites dy"
    return rms_norm(x, w.shape, w, eps)


def liger_add(x, r, w, eps, offset=0.0, casting_mode="llama", in_place=False, row_mode=None):
    return liger_rms_norm(x + r, w, eps, offset, casting_mode, in_place), x + r


def quack_rms_norm(
    x, weight=None, bias=None, residual=None, out_dtype=None, residual_dtype=None, eps=1e-6,
    prenorm=False,
):  # fmt: skip
    total = x if residual is None else x + residual
    y = rms_norm(total, weight.shape, weight, eps)
    return (y, total) if prenorm else y


def flash_attn_norm(norm):
    def function(x, weight, bias, residual=None, x1=None, weight1=None, bias1=None, eps=1e-6,
                 dropout_p=0.0, rowscale=None, prenorm=False):  # fmt: skip
        total = x if residual is None else x + residual
        y = norm(total, weight, bias, eps)
        return (y, total) if prenorm else y

    return function


FLASH_ATTN = {
    "rms_norm_fn": flash_attn_norm(lambda x, w, b, eps: rms_norm(x, w.shape, w, eps)),
    "layer_norm_fn": flash_attn_norm(lambda x, w, b, eps: layer_norm(x, w.shape, w, b, eps)),
}
PEERS = {
    "apex": {"apex.normalization.fused_layer_norm": {"fused_rms_norm_affine": apex_rms_norm}},
    "transformer_engine": {"transformer_engine.pytorch": {"RMSNorm": PeerRMSNorm}},
    "liger": {
        "liger_kernel.ops.rms_norm": {
            "LigerRMSNormFunction": SimpleNamespace(apply=liger_rms_norm)
        },
        "liger_kernel.ops.fused_add_rms_norm": {
            "LigerFusedAddRMSNormFunction": SimpleNamespace(apply=liger_add)
        },
    },
    "quack": {"quack.rmsnorm": {"rmsnorm": quack_rms_norm}},
    "flash_attn": {"flash_attn.ops.triton.layer_norm": FLASH_ATTN},
}
# test_measure_correct.py has the LayerNorm of the others.
CALLS = [
    (name, op)
    for name in PEERS
    for op in CONTESTANTS[name].ways
    if op != "layer_norm" or name == "flash_attn"
]


@pytest.mark.parametrize(("name", "op"), CALLS)
def test_peers_are_called_by_their_signatures(name, op, monkeypatch):
    stand_ins.install(monkeypatch, PEERS[name])
    peer = CONTESTANTS[name]
    assert peer.absence(Case(300, 96, op=op)) == "has no cpu kernel"
    race = Race(Case(300, 96, op=op), [dataclasses.replace(peer, cuda_only=False)])
    assert race.absent == {}
    assert [row["op"] for row in race.time("both", "warm", 0.01)] == [op]


def test_a_listed_shape_that_does_not_fit_is_left_out_and_a_named_one_is_refused(
    monkeypatch, capsys, tmp_path
):
    path = tmp_path / "b.json"
    room = {"rows": 65536, "cols": 64}  # elements that are free, each 4 bytes in 24 arrays
    monkeypatch.setattr(problem, "available_bytes", lambda _: 24 * 4 * room["rows"] * room["cols"])
    words = ["--contestants", "native", "--buffers", "warm", "--seconds", "0.01"]
    words += ["--dtype", "f32", "--pass", "forward", "--json", str(path)]
    assert main(["bench", "--quick", *words]) == 0
    assert {row["rows"] for row in json.loads(path.read_text())["rows"]} == {1, 64}
    assert "left out: LayerNorm 65536 x 256 f32 on cpu: needs about" in capsys.readouterr().out
    assert main(["bench", "--shape", "65536x256", *words]) == 2
    assert "measure fewer rows or columns" in capsys.readouterr().err
