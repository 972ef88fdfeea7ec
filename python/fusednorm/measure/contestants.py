"""Who is measured: LayerNorm by its name, how to call it, and why it may be absent."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.problem import Case

EPS = 1e-5

Norm = Callable[[Tensor], Tensor]
Build = Callable[[Parameter, Parameter], Norm]


@dataclass(frozen=True)
class Contestant:
    """A way to compute LayerNorm; ``build`` may import what it needs."""

    name: str
    what: str
    build: Build
    module: str = ""  # that it needs, empty for torch alone
    cuda_only: bool = False

    def absence(self, case: Case) -> str:
        """Return why it cannot run ``case``, or an empty string."""
        if self.cuda_only and not case.device.startswith("cuda"):
            return f"has no {case.device} kernel"
        if self.module:
            try:
                importlib.import_module(self.module)
            except Exception as error:  # a broken installation may raise anything
                return f"{self.module} cannot be imported ({type(error).__name__}: {error})"
        if self.name == "quack" and case.param_dtype != "f32":
            return "takes f32 parameters only"
        return ""


def _composite(gamma: Parameter, beta: Parameter) -> Norm:
    """LayerNorm as torch 1.2 built it: batch_norm over a reshaped input, then addcmul."""

    def norm(x: Tensor) -> Tensor:
        channels = x.view(1, x.shape[0], -1)
        normal = torch.batch_norm(channels, None, None, None, None, True, 0.0, EPS, True)
        return torch.addcmul(beta, normal.view(x.shape), gamma)

    return norm


def _native(gamma: Parameter, beta: Parameter) -> Norm:
    return lambda x: torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, EPS)


def _compile(gamma: Parameter, beta: Parameter) -> Norm:
    torch.compiler.reset()  # a new shape is compiled for itself, not as a dynamic one
    compiled = torch.compile(torch.nn.functional.layer_norm, fullgraph=True, dynamic=False)
    return lambda x: compiled(x, gamma.shape, gamma, beta, EPS)


def _fusednorm(gamma: Parameter, beta: Parameter) -> Norm:
    import fusednorm

    shape = list(gamma.shape)
    return lambda x: fusednorm.layer_norm(x, shape, gamma, beta, EPS)


def _apex(gamma: Parameter, beta: Parameter) -> Norm:
    apex = importlib.import_module("apex.normalization.fused_layer_norm")
    return lambda x: apex.fused_layer_norm_affine(x, gamma, beta, gamma.shape, EPS)


def _transformer_engine(gamma: Parameter, beta: Parameter) -> Norm:
    engine = importlib.import_module("transformer_engine.pytorch")
    layer = engine.LayerNorm(gamma.shape[0], eps=EPS, dtype=gamma.dtype, device=gamma.device)
    layer.weight, layer.bias = gamma, beta
    return lambda x: layer(x)


def _liger(gamma: Parameter, beta: Parameter) -> Norm:
    function = importlib.import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction
    return lambda x: function.apply(x, gamma, beta, EPS)


def _quack(gamma: Parameter, beta: Parameter) -> Norm:
    """Join quack's two functions, which it offers without autograd."""
    quack = importlib.import_module("quack.rmsnorm")

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            y, rstd, mean = quack.layernorm_fwd(
                x, weight, bias, eps=EPS, return_rstd=True, return_mean=True
            )
            ctx.save_for_backward(x, weight, rstd, mean)
            return y

        @staticmethod
        def backward(ctx: Any, *dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x, weight, rstd, mean = ctx.saved_tensors
            return quack.layernorm_bwd(x, weight, dy[0], rstd, mean)

    return lambda x: Function.apply(x, gamma, beta)


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("2019", "reshape, batch_norm for the moments, addcmul", _composite),
        Contestant("native", "torch.nn.functional.layer_norm", _native),
        Contestant("compile", "torch.compile of native", _compile),
        Contestant("apex", "apex FusedLayerNorm", _apex, "apex.normalization", True),
        Contestant(
            "transformer_engine",
            "TransformerEngine LayerNorm",
            _transformer_engine,
            "transformer_engine.pytorch",
            True,
        ),
        Contestant("liger", "Liger LayerNorm", _liger, "liger_kernel.ops.layer_norm", True),
        Contestant("quack", "quack layernorm", _quack, "quack.rmsnorm", True),
        Contestant("fusednorm", "this library", _fusednorm),
    )
}


def chosen(names: list[str] | None) -> list[Contestant]:
    """Return the contestants of those names, in the order of the list; all where none is named."""
    for name in names or []:
        if name not in CONTESTANTS:
            raise BadInput(f"--contestants {name}: expected some of {', '.join(CONTESTANTS)}")
    return [c for c in CONTESTANTS.values() if not names or c.name in names]
