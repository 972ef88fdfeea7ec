# SPDX-License-Identifier: Apache-2.0
"""What PyTorch has: the composite of 2019, its functions of today, and torch.compile of these."""

import torch
from torch import Tensor
from torch.nn import Parameter

from fusednorm.measure.contestants.contestant import EPS, Build, Contestant, Norm, Way


def _composite(gamma: Parameter, beta: Parameter | None) -> Norm:
    """LayerNorm as torch 1.2 built it: batch_norm over a reshaped input, then addcmul."""
    assert beta is not None

    def norm(x: Tensor) -> Tensor:
        channels = x.view(1, x.shape[0], -1)
        normal = torch.batch_norm(channels, None, None, None, None, True, 0.0, EPS, True)
        return torch.addcmul(beta, normal.view(x.shape), gamma)

    return norm


def _layer_norm(gamma: Parameter, beta: Parameter | None) -> Norm:
    return lambda x: torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, EPS)


def _rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    return lambda x: torch.nn.functional.rms_norm(x, gamma.shape, gamma, EPS)


def after_add(build: Build) -> Build:
    """Return a norm of the sum that torch makes and stores: unfused."""

    def build_both(gamma: Parameter, beta: Parameter | None) -> Norm:
        norm = build(gamma, beta)

        def add_norm(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
            total = x + residual
            return norm(total), total

        return add_norm

    return build_both


def _compiled(build: Build) -> Build:
    def build_compiled(gamma: Parameter, beta: Parameter | None) -> Norm:
        torch.compiler.reset()  # a new shape is compiled for itself, not as a dynamic one
        return torch.compile(build(gamma, beta), fullgraph=True, dynamic=False)

    return build_compiled


_NATIVE = {
    "layer_norm": Way("torch.nn.functional.layer_norm", _layer_norm),
    "rms_norm": Way("torch.nn.functional.rms_norm", _rms_norm),
    "add_layer_norm": Way("add, then functional.layer_norm", after_add(_layer_norm)),
    "add_rms_norm": Way("add, then functional.rms_norm", after_add(_rms_norm)),
}
_COMPILE = {op: Way("torch.compile of native", _compiled(way.build)) for op, way in _NATIVE.items()}

composite_of_2019 = Contestant(
    "2019", {"layer_norm": Way("reshape, batch_norm for the moments, addcmul", _composite)}
)
native = Contestant("native", _NATIVE)
compiled = Contestant("compile", _COMPILE)
