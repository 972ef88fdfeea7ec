# SPDX-License-Identifier: Apache-2.0
"""What native's types accept, ours accept: checked by mypy and pyright, never run."""

import torch
from torch import Tensor, nn

import fusednorm
import fusednorm.apex


def shapes(x: Tensor, w: Tensor) -> list[Tensor]:
    """Every way to spell a shape that torch.nn.functional.layer_norm takes."""
    one: tuple[int] = (8,)
    some: tuple[int, ...] = (4, 8)
    return [
        fusednorm.layer_norm(x, one),
        fusednorm.layer_norm(x, some, w),
        fusednorm.layer_norm(x, [8], weight=w, bias=None, eps=1e-6),
        fusednorm.layer_norm(x, x.shape[-1:]),
        fusednorm.layer_norm(x, torch.Size([8])),
        fusednorm.rms_norm(x, one, w, None),
        fusednorm.rms_norm(x, x.shape[-1:], offset=1.0, rounding="via_x", dtype=torch.float32),
        fusednorm.apex.fused_layer_norm(x, one),
    ]


def modules(x: Tensor) -> Tensor:
    """Every way to spell a shape that torch.nn.LayerNorm takes."""
    native: list[nn.LayerNorm] = [
        fusednorm.LayerNorm(8),
        fusednorm.LayerNorm((8,)),
        fusednorm.LayerNorm([4, 8], eps=1e-6, bias=False),
        fusednorm.LayerNorm(torch.Size([8]), device="cpu", dtype=torch.bfloat16),
        fusednorm.LayerNorm(8, memory_efficient=True),
    ]
    rms: nn.RMSNorm = fusednorm.RMSNorm((8,), offset=1.0)
    y: Tensor = fusednorm.LayerNorm(8).forward(x)
    pair: tuple[Tensor, Tensor] = fusednorm.add_rms_norm(x, x, (8,))
    model: nn.Sequential = fusednorm.convert(nn.Sequential(*native, rms), numerics="once")
    model = fusednorm.revert(model)
    table: fusednorm.Explanation = fusednorm.explain(model, example_input=x)
    paths: list[str] = [norm.path for norm in table.norms]
    return y + pair[0] + len(paths)
