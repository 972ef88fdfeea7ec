# SPDX-License-Identifier: Apache-2.0
"""The operators for ``torch.onnx.export(dynamo=False)``: importing this module registers them.

The exporter of today, ``dynamo=True``, needs no registration.

>>> import fusednorm.onnx  # then torch.onnx.export(model, args, path, dynamo=False)
"""

from typing import Any

import torch
from torch.onnx import symbolic_helper
from torch.onnx.symbolic_helper import parse_args

OPSET = 17  # the first with LayerNormalization
_FLOAT = torch.onnx.TensorProtoDataType.FLOAT
