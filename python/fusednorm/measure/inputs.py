# SPDX-License-Identifier: Apache-2.0
"""The tensors of a case, the same for every contestant."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from fusednorm.measure.problem import Case


@dataclass(frozen=True)
class Inputs:
    """Data, parameters, and the gradients that a backward pass starts from."""

    x: Tensor
    dy: Tensor
    gamma: Parameter
    beta: Parameter | None = None  # of LayerNorm
    residual: Tensor | None = None
    ds: Tensor | None = None  # the gradient of sum = x + residual

    @property
    def data(self) -> tuple[Tensor, ...]:
        """What a contestant is called with."""
        return (self.x,) if self.residual is None else (self.x, self.residual)

    @property
    def starts(self) -> tuple[Tensor, ...]:
        """The gradients of what it returns."""
        return (self.dy,) if self.ds is None else (self.dy, self.ds)

    def named(self, names: tuple[str, ...]) -> tuple[Tensor, ...]:
        """Return those of the operation, by their names."""
        return tuple(getattr(self, name) for name in names)


def random_inputs(case: Case) -> Inputs:
    """Make the tensors of ``case``; the same each time."""
    generator = torch.Generator().manual_seed(2019)
    matrix, operation = (case.rows, case.cols), case.operation

    def random(shape: tuple[int, ...], centre: float, dtype: torch.dtype) -> Tensor:
        values = torch.randn(shape, generator=generator).add_(centre)
        return values.to(dtype).to(case.device)

    data, params = case.torch_dtype, case.torch_param_dtype
    x = random(matrix, 0.5, data).requires_grad_()
    dy = random(matrix, 0.0, data)
    gamma = Parameter(random(matrix[1:], 1.0, params))
    has_beta = "beta" in operation.inputs
    beta = Parameter(random(matrix[1:], 0.0, params)) if has_beta else None
    if not operation.adds:
        return Inputs(x, dy, gamma, beta)
    residual = random(matrix, -0.25, data).requires_grad_()
    return Inputs(x, dy, gamma, beta, residual, random(matrix, 0.0, data))
