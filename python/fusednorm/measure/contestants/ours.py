# SPDX-License-Identifier: Apache-2.0
"""fusednorm itself: fused, and its norms behind a separate add."""

from torch.nn import Parameter

from fusednorm.measure.contestants.contestant import EPS, Contestant, Norm, Way
from fusednorm.measure.contestants.of_torch import after_add


def _layer_norm(gamma: Parameter, beta: Parameter | None) -> Norm:
    import fusednorm

    shape = list(gamma.shape)
    return lambda x: fusednorm.layer_norm(x, shape, gamma, beta, EPS)


def _rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    import fusednorm

    shape = list(gamma.shape)
    return lambda x: fusednorm.rms_norm(x, shape, gamma, EPS)


def _add_layer_norm(gamma: Parameter, beta: Parameter | None) -> Norm:
    import fusednorm

    shape = list(gamma.shape)
    return lambda x, r: fusednorm.add_layer_norm(x, r, shape, gamma, beta, EPS)


def _add_rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    import fusednorm

    shape = list(gamma.shape)
    return lambda x, r: fusednorm.add_rms_norm(x, r, shape, gamma, EPS)


fused = Contestant(
    "fusednorm",
    {
        "layer_norm": Way("this library", _layer_norm),
        "rms_norm": Way("this library", _rms_norm),
        "add_layer_norm": Way("this library", _add_layer_norm),
        "add_rms_norm": Way("this library", _add_rms_norm),
    },
)
unfused = Contestant(
    "unfused",
    {
        "add_layer_norm": Way("add, then fusednorm.layer_norm", after_add(_layer_norm)),
        "add_rms_norm": Way("add, then fusednorm.rms_norm", after_add(_rms_norm)),
    },
)
