# SPDX-License-Identifier: Apache-2.0
"""A LayerNorm on the CPU, its copies on CUDA devices, and what must come back from there."""

from dataclasses import dataclass

import torch
from torch import Tensor

import fusednorm
import reference


@dataclass
class OnDevice:
    """Arguments on a device; ``run`` gives y, dx, dw and db there."""

    x: Tensor
    w: Tensor
    b: Tensor
    dy: Tensor

    def run(self) -> list[Tensor]:
        y = fusednorm.layer_norm(self.x, self.x.shape[1:], self.w, self.b)
        return [y.detach(), *torch.autograd.grad(y, (self.x, self.w, self.b), self.dy)]


class Problem:
    def __init__(self, rows: int = 600, cols: int = 257, dtype: torch.dtype = torch.float32):
        self.arguments = [
            torch.randn(shape, dtype=dtype)
            for shape in ((rows, cols), (cols,), (cols,), (rows, cols))
        ]
        self.cpu = self.on("cpu").run()

    def on(self, device: str | torch.device) -> OnDevice:
        x, w, b, dy = (t.to(device, copy=True) for t in self.arguments)
        return OnDevice(x.requires_grad_(), w.requires_grad_(), b.requires_grad_(), dy)

    def check(self, results: list[Tensor]) -> None:
        """Compare with the formula in f64, and with the CPU operator."""
        x, w, b, dy = self.arguments
        exact = [
            reference.forward(x, 1, w, b, 1e-5),
            *reference.backward(dy, x, 1, w, 1e-5),
        ]
        for name, ours, formula, cpu in zip(("y", "dx", "dw", "db"), results, exact, self.cpu):
            formula.check(ours, name)
            scale = cpu.abs().max()
            torch.testing.assert_close(ours.cpu() / scale, cpu / scale)
