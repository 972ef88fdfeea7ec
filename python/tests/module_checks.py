# SPDX-License-Identifier: Apache-2.0
"""What several suites ask of a module: its copies, and its gradients."""

import copy
import io
import pickle

import torch


def copies(module):
    """Return the module as deepcopy, pickle and torch.save make it again."""
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return (
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(buffer, weights_only=False),
    )


def gradients(function, module, x):
    """Return y = function(x) and the gradients of sum(y * y): of x, then of the module."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = function(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in module.parameters())]
