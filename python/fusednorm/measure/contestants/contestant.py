# SPDX-License-Identifier: Apache-2.0
"""A contestant: how it is called for each operation, and why it may be absent."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.nn import Parameter

from fusednorm.measure.problem import Case

EPS = 1e-5

# norm(x) -> y, or norm(x, residual) -> (y, sum).
Norm = Callable[..., Any]
# From gamma, and beta where the operation has one.
Build = Callable[[Parameter, Parameter | None], Norm]


@dataclass(frozen=True)
class Way:
    """How an operation is computed, in words and as a function; it may import what it needs."""

    what: str
    build: Build


@dataclass(frozen=True)
class Contestant:
    """A library that computes some of the operations, and what it needs."""

    name: str
    ways: Mapping[str, Way]  # by operation
    module: str = ""  # that it needs, empty for torch alone
    cuda_only: bool = False
    refuses: Callable[[Case], str] = lambda case: ""  # why it cannot take a case

    def absence(self, case: Case) -> str:
        """Return why it cannot run ``case``, or an empty string."""
        if case.op not in self.ways:
            return f"has no {case.op}"
        if self.cuda_only and not case.device.startswith("cuda"):
            return f"has no {case.device} kernel"
        if self.module:
            try:
                importlib.import_module(self.module)
            except Exception as error:  # a broken installation may raise anything
                return f"{self.module} cannot be imported ({type(error).__name__}: {error})"
        return self.refuses(case)
