# SPDX-License-Identifier: Apache-2.0
"""Who is right: honest results pass in every dtype, each kind of mistake is named."""

import dataclasses

import pytest
import torch

import stand_ins
from fusednorm.measure import traffic
from fusednorm.measure.contestants import CONTESTANTS, Contestant, Way
from fusednorm.measure.correct import compare
from fusednorm.measure.problem import DTYPES, Case
from fusednorm.measure.race import Race


def results(dtype, rows=300, cols=96, op="layer_norm"):
    race = Race(Case(rows, cols, dtype, dtype, op=op), [CONTESTANTS["fusednorm"]])
    outputs = race.entries["fusednorm"].outputs
    values = (*outputs, *race._gradients(outputs))
    return race, dict(zip(race.case.operation.results, values, strict=True))


def verdict(race, values):
    return compare(race.case.operation, race.inputs, values)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(300, 96), (1, 5000), (2000, 3)])
def test_honest_contestants_are_right(dtype, shape):
    race = Race(Case(*shape, dtype, dtype), [CONTESTANTS[n] for n in ("2019", "fusednorm")])
    assert race.absent == {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("y", lambda t, inputs: t * 1.05),
        ("dx", lambda t, inputs: t + 0.1 * t.abs().mean()),  # a mean was not taken away
        ("dgamma", lambda t, inputs: t * 1.5),
        ("dbeta", lambda t, inputs: t - inputs.dy[:4].sum(0)),  # rows left out
    ],
)
def test_a_mistake_is_named(dtype, name, change):
    race, values = results(dtype)
    values[name] = change(values[name].detach(), race.inputs).to(values[name].dtype)
    assert verdict(race, values).mistake().startswith(f"{name} is off")


def test_one_nan_is_wrong():
    race, values = results("f32")
    values["dx"] = values["dx"].clone()
    values["dx"][17, 5] = torch.nan
    assert "dx" in verdict(race, values).mistake()


def test_a_single_wrong_element_of_the_last_block_is_seen():
    race, values = results("f32", rows=3000, cols=512)  # more than one block of rows
    values["y"] = values["y"].detach().clone()
    values["y"][-1, -1] += 1e-3
    assert "y" in verdict(race, values).mistake()


def wrong(build):
    return Contestant("wrong", {"layer_norm": Way("made wrong", build)})


def test_who_is_wrong_or_raises_gets_no_time():
    def no_beta(gamma, beta):
        return lambda x: torch.nn.functional.layer_norm(x, gamma.shape, gamma) + 0 * beta

    def broken(gamma, beta):
        raise RuntimeError("no kernel image\nlong trace")

    race = Race(Case(64, 32), [wrong(no_beta), CONTESTANTS["native"]])
    assert race.absent["wrong"].startswith("is wrong: y is off")
    assert [row["contestant"] for row in race.time("forward", "warm", 0.01)] == ["native"]
    assert Race(Case(4, 4), [wrong(broken)]).absent == {"wrong": "RuntimeError: no kernel image"}


def test_wrong_gradients_leave_the_forward_pass_its_time():
    def no_gradient(gamma, beta):
        return lambda x: (
            torch.nn.functional.layer_norm(x, gamma.shape, gamma.detach(), beta) + (0 * gamma)
        )

    race = Race(Case(64, 32), [wrong(no_gradient)])
    assert race.absent["wrong backward"].startswith("is wrong: dgamma is off")
    assert race.timed("forward") == ["wrong"]
    assert race.timed("backward") == race.timed("both") == []


def test_traffic_counts_each_tensor_once():
    matrix, vector = 64 * 32 * 4, 32 * 4
    race = Race(Case(64, 32), [CONTESTANTS["2019"], CONTESTANTS["fusednorm"]])
    fused, composite = (race.entries[n].moved for n in ("fusednorm", "2019"))
    assert fused["forward"].operators == fused["backward"].operators == 1
    statistics = 2 * 64 * 4
    assert fused["forward"].bytes in (
        2 * matrix + 2 * vector,
        2 * matrix + 2 * vector + statistics,  # kept for the backward pass
    )
    # batch_norm reads x and writes xhat, addcmul reads xhat and writes y.
    assert 4 * matrix < composite["forward"].bytes < 4.2 * matrix
    assert composite["backward"].operators > 4


def test_a_broadcast_tensor_counts_as_stored():
    row, full = torch.ones(8), torch.ones(4, 8)
    counted = traffic.dispatched(lambda: full * row.expand(4, 8))
    assert counted.bytes == (32 + 8 + 32) * 4
    assert traffic.dispatched(lambda: full.view(8, 4).t()).operators == 0


class PeerLayer(torch.nn.LayerNorm):
    """TransformerEngine's module, as far as it is called."""

    def __init__(self, normalized_shape, eps=1e-5, **kwargs):
        assert set(kwargs) == {"dtype", "device"}
        super().__init__(normalized_shape, eps=eps, **kwargs)


class PeerFunction:
    """Liger's Function."""

    @staticmethod
    def apply(x, weight, bias, eps):
        return torch.nn.functional.layer_norm(x, weight.shape, weight, bias, eps)


def peer_affine(input, weight, bias, normalized_shape, eps=1e-6, memory_efficient=False):
    return torch.nn.functional.layer_norm(input, normalized_shape, weight, bias, eps)


def peer_forward(x, weight, bias=None, eps=1e-6, return_rstd=False, return_mean=False):
    y, mean, rstd = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
    assert return_rstd
    assert return_mean
    return y, rstd.flatten(), mean.flatten()


def peer_backward(x, weight, dout, rstd, mean, has_bias=True):
    shape = (x.shape[0], 1)
    return torch.ops.aten.native_layer_norm_backward(
        dout,
        x,
        weight.shape,
        mean.view(shape),
        rstd.view(shape),
        weight,
        weight if has_bias else None,
        [True, True, has_bias],
    )


# The names and signatures that stand in the peers' sources, over torch's own arithmetic: their
# kernels need a GPU, and how they are called need not wait for one.
PEERS = {
    "apex": {"apex.normalization.fused_layer_norm": {"fused_layer_norm_affine": peer_affine}},
    "transformer_engine": {"transformer_engine.pytorch": {"LayerNorm": PeerLayer}},
    "liger": {"liger_kernel.ops.layer_norm": {"LigerLayerNormFunction": PeerFunction}},
    "quack": {"quack.rmsnorm": {"layernorm_fwd": peer_forward, "layernorm_bwd": peer_backward}},
}


@pytest.mark.parametrize("name", PEERS)
def test_peers_are_called_by_their_signatures(name, monkeypatch):
    stand_ins.install(monkeypatch, PEERS[name])
    peer = CONTESTANTS[name]
    assert peer.absence(Case(300, 96)) == "has no cpu kernel"
    race = Race(Case(300, 96), [dataclasses.replace(peer, cuda_only=False)])
    assert race.absent == {}
    timed = race.time("both", "warm", 0.01)
    assert [row["contestant"] for row in timed] == [name]
