# SPDX-License-Identifier: Apache-2.0
"""Fused LayerNorm and RMSNorm for PyTorch: drop-ins for ``torch.nn``'s and for apex.

>>> import torch, fusednorm
>>> norm = fusednorm.LayerNorm(8)
>>> norm(torch.randn(2, 8)).shape
torch.Size([2, 8])

``convert`` swaps the layers of a finished model in place:

>>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8))
>>> type(fusednorm.convert(model)[1])
<class 'fusednorm.module.LayerNorm'>
"""

from fusednorm._load import load_operators

load_operators()

from fusednorm import _build as _build  # noqa: E402  (the operators must exist first)
from fusednorm import _decompositions as _decompositions  # noqa: E402
from fusednorm import _vmap as _vmap  # noqa: E402
from fusednorm.conversion import Explanation, convert, explain, revert  # noqa: E402
from fusednorm.functional import (  # noqa: E402
    add_layer_norm,
    add_layer_norm_,
    add_rms_norm,
    add_rms_norm_,
    layer_norm,
    rms_norm,
)
from fusednorm.module import LayerNorm, RMSNorm  # noqa: E402

__version__ = _build.VERSION
__all__ = [
    "Explanation",
    "LayerNorm",
    "RMSNorm",
    "add_layer_norm",
    "add_layer_norm_",
    "add_rms_norm",
    "add_rms_norm_",
    "convert",
    "explain",
    "layer_norm",
    "revert",
    "rms_norm",
]
