# SPDX-License-Identifier: Apache-2.0
"""Blocks with other norms: right before they are timed, and shares from the times beside them."""

import json

import pytest
import torch

import fusednorm
from fusednorm.measure.blocks import command, correct, run, variants
from fusednorm.measure.blocks.modules import build
from fusednorm.measure.blocks.sizes import SIZES, sizes
from fusednorm.measure.command import main
from fusednorm.measure.timing import Samples

SMALL = ["--hidden", "64", "--heads", "4", "--mlp", "96", "--batch", "2", "--tokens", "16"]
WORDS = ["blocks", *SMALL, "--device", "cpu", "--seconds", "0.01"]
BLOCKS = ("bert-base", "llama-1b")
NUMBERS = {"hidden": 64, "heads": 4, "kv_heads": 2, "mlp": 96, "batch": 2, "tokens": 16}


def small(name):
    (size,) = sizes([name], "cpu", NUMBERS)
    return build(size)


def step(block, dtype=torch.float32):
    inputs = variants.random_inputs(block, "cpu", dtype)
    return variants.step_of(block.to(dtype), "eager", inputs)


@pytest.mark.parametrize("name", BLOCKS)
def test_variants_share_parameters_and_differ_in_their_norms(name):
    base = small(name)
    result = run.Result({}, "f32", [])
    blocks = dict(run.variants(base, result))
    assert (list(blocks), result.notes) == (list(variants.VARIANTS), [])
    assert isinstance(blocks["none"].first_norm, torch.nn.Identity)
    assert type(blocks["native"].first_norm) in (torch.nn.LayerNorm, torch.nn.RMSNorm)
    assert isinstance(blocks["fused add"].second_norm, fusednorm.LayerNorm | fusednorm.RMSNorm)
    for converted in ("converted", "fused add"):
        assert type(blocks[converted].second_norm) not in (torch.nn.LayerNorm, torch.nn.RMSNorm)
        pairs = zip(base.parameters(), blocks[converted].parameters(), strict=True)
        assert all(mine is theirs for mine, theirs in pairs)
    assert type(base.first_norm) in (torch.nn.LayerNorm, torch.nn.RMSNorm), "convert went too far"


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_converted_blocks_are_right_and_wrong_ones_are_found(name, dtype):
    base = small(name)
    native = step(base, dtype)
    right, found = correct.reference(base, native), list(native.both())
    for block in dict(run.variants(base, run.Result({}, "f32", []))).values():
        said = correct.mistake(step(block, dtype), found, right)
        assert bool(said) == isinstance(block.first_norm, torch.nn.Identity), said
    wrong = variants.sharing_copy(base)
    fusednorm.convert(wrong).second_norm.eps = 0.3
    assert correct.mistake(step(wrong, dtype), found, right).startswith("result ")


def test_a_llama_block_is_causal_and_a_bert_block_is_not():
    for name, causal in (("llama-1b", True), ("bert-base", False)):
        block, (x, residual) = small(name), torch.randn(2, 2, 16, 64)
        before, _ = block(x, residual)
        x[:, 9:] += 1
        after, _ = block(x, residual)
        assert torch.equal(before[:, :9], after[:, :9]) == causal
        assert not torch.equal(before[:, 9:], after[:, 9:])


def made_of_numbers(actions, clock, seconds):
    """As if norms took 2, native ones 10 and the others 5 per cent of what goes on without them."""
    times = {"none": 1.0, "native": 1.1, "converted": 1.05, "fused add": 1.02}
    return {n: Samples([times[n] * f for f in (0.5, 0.97, 1, 1.03, 9)]) for n in actions}


def test_the_table_is_made_of_the_times_beside_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(run, "take_turns", made_of_numbers)
    path = tmp_path / "blocks.json"
    assert main([*WORDS, "--mode", "eager", "--json", str(path)]) == 0
    rows = json.loads(path.read_text())["rows"]
    assert len(rows) == 2 * 2 * 4
    for row in rows:
        none, native = (
            next(
                other["median_seconds"]
                for other in rows
                if other["norms"] == name
                and all(other[key] == row[key] for key in ("block", "pass", "mode"))
            )
            for name in ("none", "native")
        )
        assert row["norms_share"] == pytest.approx(1 - none / row["median_seconds"])
        assert row["speedup"] == pytest.approx(native / row["median_seconds"])
        # Five rounds, quartiles at 0.97 and 1.03: a median is off by 1.57 * 0.06 / sqrt(5) at most.
        off = 2**0.5 * 1.57 * 0.06 / 5**0.5 * none / row["median_seconds"]
        assert row["norms_share_error"] == pytest.approx(off)
    lines = capsys.readouterr().out.splitlines()
    told = [" ".join(line.split()) for line in lines if line.startswith(BLOCKS)]
    assert "bert-base eager forward native 1.10 s 3 % 9.1 % 5.4 1.000x" in told
    assert "llama-1b eager both fused add 1.02 s 3 % 2.0 % 5.8 1.078x" in told
    assert "llama-1b eager both none 1.00 s 3 % - - 1.100x" in told


def test_eager_and_compiled_are_timed(monkeypatch, tmp_path):
    compiled = []  # compiling takes half a minute a block: what is compiled is looked at instead

    def fake(block, fullgraph, dynamic):
        compiled.append(type(block.first_norm))
        return block

    monkeypatch.setattr(torch, "compile", fake)
    path = tmp_path / "blocks.json"
    assert main([*WORDS, "--block", "llama-1b", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    assert {row["mode"] for row in document["rows"]} == {"eager", "compiled"}
    assert len(compiled) == 2 * 4  # for each pass
    assert compiled[:2] == compiled[4:6] == [torch.nn.Identity, torch.nn.RMSNorm]
    assert compiled[3] is compiled[7] is fusednorm.RMSNorm
    assert document["notes"] == []


def test_who_is_not_converted_or_wrong_is_listed_with_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(fusednorm, "convert", lambda block: block)
    words = [*WORDS, "--mode", "eager", "--block", "bert-base"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "bert-base, converted: not timed, fusednorm.convert left LayerNorm alone\n" in out

    def badly(block):
        for norm in (block.first_norm, block.second_norm):
            norm.__class__, norm.eps = fusednorm.LayerNorm, 0.3

    monkeypatch.setattr(fusednorm, "convert", badly)
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "bert-base eager, converted: not timed, is wrong: result 0 is off by" in out
    assert not any(line.split()[3:4] == ["converted"] for line in out.splitlines())


def test_a_stopped_measurement_prints_what_it_has(monkeypatch, capsys):
    real, calls = run._time, []

    def stop_late(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(run, "_time", stop_late)
    assert main([*WORDS, "--mode", "eager"]) == command.INTERRUPTED
    captured = capsys.readouterr()
    assert "bert-base  eager  both" in captured.out
    assert "interrupted" in captured.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--block", "gpt-5"], "--block gpt-5: expected some of bert-base"),
        (["--mode", "fast"], "--mode fast: expected one of eager, compiled"),
        (["--dtype", "f64"], "--dtype f64: expected one of f32, bf16, f16"),
        (["--heads", "7"], "bert-base: expected heads of an even width"),
        (["--tokens", "100000000"], "choose a smaller block, or fewer --tokens"),
        (["--json", "/nowhere/b.json"], "--json /nowhere/b.json: cannot be written"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words, said, capsys, monkeypatch):
    monkeypatch.setattr("fusednorm.measure.environment.busy", lambda: "")
    assert main(["blocks", "--device", "cpu", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_every_size_is_a_block_and_every_device_has_some():
    for size in SIZES.values():
        size.check()
    for device in ("cpu", "cuda:1"):
        assert {size.kind for size in sizes(None, device, {})} == {"bert", "llama"}
