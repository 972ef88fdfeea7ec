# SPDX-License-Identifier: Apache-2.0
"""Other fused norms, where they can be imported. All of them are for CUDA."""

import importlib
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from fusednorm.measure.contestants.contestant import EPS, Contestant, Norm, Way
from fusednorm.measure.problem import Case


def _apex_layer_norm(gamma: Parameter, beta: Parameter | None) -> Norm:
    apex = importlib.import_module("apex.normalization.fused_layer_norm")
    return lambda x: apex.fused_layer_norm_affine(x, gamma, beta, gamma.shape, EPS)


def _apex_rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    apex = importlib.import_module("apex.normalization.fused_layer_norm")
    return lambda x: apex.fused_rms_norm_affine(x, gamma, gamma.shape, EPS)


def _transformer_engine(gamma: Parameter, beta: Parameter | None) -> Norm:
    engine = importlib.import_module("transformer_engine.pytorch")
    module = engine.RMSNorm if beta is None else engine.LayerNorm
    layer = module(gamma.shape[0], eps=EPS, dtype=gamma.dtype, device=gamma.device)
    layer.weight = gamma
    if beta is not None:
        layer.bias = beta
    return lambda x: layer(x)


def _liger_layer_norm(gamma: Parameter, beta: Parameter | None) -> Norm:
    function = importlib.import_module("liger_kernel.ops.layer_norm").LigerLayerNormFunction
    return lambda x: function.apply(x, gamma, beta, EPS)


# Of Liger's RMSNorm: offset, rounding as Llama has it, and dx in an array of its own. By default it
# overwrites dy, which a measurement needs again.
_LIGER = (0.0, "llama", False)


def _liger_rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    function = importlib.import_module("liger_kernel.ops.rms_norm").LigerRMSNormFunction
    return lambda x: function.apply(x, gamma, EPS, *_LIGER)


def _liger_add_rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    module = importlib.import_module("liger_kernel.ops.fused_add_rms_norm")
    function = module.LigerFusedAddRMSNormFunction
    return lambda x, residual: function.apply(x, residual, gamma, EPS, *_LIGER)


def _quack_layer_norm(gamma: Parameter, beta: Parameter | None) -> Norm:
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


def _quack_rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    quack = importlib.import_module("quack.rmsnorm")
    return lambda x: quack.rmsnorm(x, gamma, eps=EPS)


def _quack_add_rms_norm(gamma: Parameter, _: Parameter | None) -> Norm:
    quack = importlib.import_module("quack.rmsnorm")
    return lambda x, r: quack.rmsnorm(x, gamma, residual=r, eps=EPS, prenorm=True)


def _quack_refuses(case: Case) -> str:
    plain_layer_norm = case.op == "layer_norm"
    return "takes f32 parameters only" if plain_layer_norm and case.param_dtype != "f32" else ""


def _flash_attn(gamma: Parameter, beta: Parameter | None) -> Norm:
    module = importlib.import_module("flash_attn.ops.triton.layer_norm")
    function = module.rms_norm_fn if beta is None else module.layer_norm_fn
    return lambda x: function(x, gamma, beta, eps=EPS)


def _flash_attn_add(gamma: Parameter, beta: Parameter | None) -> Norm:
    module = importlib.import_module("flash_attn.ops.triton.layer_norm")
    function = module.rms_norm_fn if beta is None else module.layer_norm_fn
    return lambda x, residual: function(x, gamma, beta, residual=residual, eps=EPS, prenorm=True)


apex = Contestant(
    "apex",
    {
        "layer_norm": Way("apex FusedLayerNorm", _apex_layer_norm),
        "rms_norm": Way("apex FusedRMSNorm", _apex_rms_norm),
    },
    module="apex.normalization",
    cuda_only=True,
)
transformer_engine = Contestant(
    "transformer_engine",
    {
        "layer_norm": Way("TransformerEngine LayerNorm", _transformer_engine),
        "rms_norm": Way("TransformerEngine RMSNorm", _transformer_engine),
    },
    module="transformer_engine.pytorch",
    cuda_only=True,
)
liger = Contestant(
    "liger",
    {
        "layer_norm": Way("Liger LayerNorm", _liger_layer_norm),
        "rms_norm": Way("Liger RMSNorm", _liger_rms_norm),
        "add_rms_norm": Way("Liger FusedAddRMSNorm", _liger_add_rms_norm),
    },
    module="liger_kernel.ops",
    cuda_only=True,
)
quack = Contestant(
    "quack",
    {
        "layer_norm": Way("quack layernorm", _quack_layer_norm),
        "rms_norm": Way("quack rmsnorm", _quack_rms_norm),
        "add_rms_norm": Way("quack rmsnorm with residual", _quack_add_rms_norm),
    },
    module="quack.rmsnorm",
    cuda_only=True,
    refuses=_quack_refuses,
)
flash_attn = Contestant(
    "flash_attn",
    {
        "layer_norm": Way("flash-attn layer_norm_fn", _flash_attn),
        "rms_norm": Way("flash-attn rms_norm_fn", _flash_attn),
        "add_layer_norm": Way("flash-attn layer_norm_fn with residual", _flash_attn_add),
        "add_rms_norm": Way("flash-attn rms_norm_fn with residual", _flash_attn_add),
    },
    module="flash_attn.ops.triton.layer_norm",
    cuda_only=True,
)
