# SPDX-License-Identifier: Apache-2.0
"""What is measured: a case, its problems in the grammar, and whether there is room for it."""

from dataclasses import dataclass
from pathlib import Path

import torch

from fusednorm.measure import grammar
from fusednorm.measure.minimal_bytes import minimal_bytes
from fusednorm.measure.mistakes import BadInput

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
PASSES = ("forward", "backward", "both")

# Tensors of the size of x that a pass makes and drops: the 2019 composite, the greediest, has four
# products and three gradients in its backward pass.
TEMPORARY_MATRICES = 8
# And that are always there: x, dy and the target of the copy.
SHARED_MATRICES = 3 + TEMPORARY_MATRICES
# The output of each contestant and what it keeps for the backward pass besides x.
MATRICES_EACH = 2


@dataclass(frozen=True)
class Case:
    """One problem: the same tensors for every contestant."""

    rows: int
    cols: int
    dtype: str = "f32"
    param_dtype: str = "f32"
    device: str = "cpu"

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of x, y, dy and dx."""
        return DTYPES[self.dtype]

    @property
    def torch_param_dtype(self) -> torch.dtype:
        """The dtype of gamma and beta."""
        return DTYPES[self.param_dtype]

    @property
    def matrix_bytes(self) -> int:
        """The bytes of x."""
        return self.rows * self.cols * self.torch_dtype.itemsize

    def problems(self, which: str) -> list[grammar.Problem]:
        """Return what a pass computes; ``both`` is a forward and a backward pass."""
        kinds = ("forward", "backward") if which == "both" else (which,)
        dtypes = (self.dtype, self.param_dtype, self.dtype)
        return [grammar.Problem(kind, *dtypes, self.rows, self.cols) for kind in kinds]

    def minimal_bytes(self, which: str) -> int:
        """Return the bytes that a pass cannot avoid moving.

        >>> Case(2, 8).minimal_bytes("forward")
        208
        """
        return sum(minimal_bytes(problem).total for problem in self.problems(which))

    def __str__(self) -> str:
        params = "" if self.param_dtype == self.dtype else f" (parameters {self.param_dtype})"
        return f"{self.rows} x {self.cols} {self.dtype}{params} on {self.device}"


def of_text(text: str, device: str) -> tuple[Case, str]:
    """Return the case and the pass of a problem text; BadInput where none of it is measured here.

    >>> of_text("backward:bf16/f32:bert-large", "cpu")[1]
    'backward'
    """
    problem = grammar.parse(text)
    refused = [f"{key}={value}" for key, value in problem.options().items()]
    if problem.kind not in PASSES:
        refused.append(problem.kind)
    if problem.y_dtype != problem.x_dtype:
        refused.append(f"{problem.x_dtype}/{problem.param_dtype}/{problem.y_dtype}")
    if problem.rows < 1 or problem.cols < 1:
        refused.append(f"{problem.rows}x{problem.cols}")
    for word in refused:
        raise BadInput(f'{word}: this command takes no such problem; in problem "{problem}"')
    case = Case(problem.rows, problem.cols, problem.x_dtype, problem.param_dtype, device)
    return case, problem.kind


def needed_bytes(case: Case, contestants: int) -> int:
    """Estimate the memory that measuring ``case`` takes at its worst moment."""
    return case.matrix_bytes * (SHARED_MATRICES + MATRICES_EACH * contestants)


def available_bytes(device: str) -> int | None:
    """Return the memory that is free for use, or None where the system does not say."""
    if device != "cpu":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def check_memory(case: Case, contestants: int) -> None:
    """Raise BadInput where ``case`` does not fit, before anything is allocated."""
    available = available_bytes(case.device)
    needed = needed_bytes(case, contestants)
    if available is not None and needed > available:
        raise BadInput(
            f"{case}: needs about {needed / 1e9:.1f} GB, and {available / 1e9:.1f} GB are free; "
            "measure fewer rows or columns"
        )


def check_device(device: str) -> None:
    """Raise BadInput where ``device`` is not there."""
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
        raise BadInput(f"--device {device}: expected cpu, cuda or cuda:N")
    if kind == "cuda" and not torch.cuda.is_available():
        raise BadInput(f"--device {device}: this machine has no CUDA device that torch can use")
    if kind == "cuda" and index and int(index) >= torch.cuda.device_count():
        raise BadInput(f"--device {device}: there are {torch.cuda.device_count()} CUDA devices")
