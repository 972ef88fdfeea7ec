# SPDX-License-Identifier: Apache-2.0
"""What is measured: a case, its problems in the grammar, and whether there is room for it."""

from dataclasses import dataclass
from pathlib import Path

import torch

from fusednorm.measure import grammar
from fusednorm.measure.minimal_bytes import minimal_bytes
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.operations import OPERATIONS, Operation

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
}
PASSES = ("forward", "backward", "both")

# Tensors of the size of x that a pass makes and drops. The greediest is torch's RMSNorm backward on
# the CPU in 16 bits: five f32 ones at a time.
TEMPORARY_MATRICES = 10
# And that are always there: x, dy and the target of the copy; what that RMSNorm keeps beyond the
# others. With a residual: residual and ds.
SHARED_MATRICES = 3 + 3 + TEMPORARY_MATRICES
ADDED_MATRICES = 2
# The output of each contestant and what it keeps for the backward pass besides x; with a residual,
# its sum.
MATRICES_EACH = 2


@dataclass(frozen=True)
class Case:
    """One problem: the same tensors for every contestant."""

    rows: int
    cols: int
    dtype: str = "f32"
    param_dtype: str = "f32"
    device: str = "cpu"
    op: str = "layer_norm"  # of OPERATIONS

    @property
    def operation(self) -> Operation:
        """What is computed."""
        return OPERATIONS[self.op]

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
        what = f"{self.dtype}/{self.param_dtype}:{self.rows}x{self.cols}:op={self.operation.norm}"
        what += f":residual={self.dtype}" if self.operation.adds else ""
        return [grammar.parse(f"{kind}:{what}") for kind in kinds]

    def minimal_bytes(self, which: str) -> int:
        """Return the bytes that a pass cannot avoid moving.

        >>> Case(2, 8).minimal_bytes("forward")
        208
        """
        return sum(minimal_bytes(problem).total for problem in self.problems(which))

    def __str__(self) -> str:
        params = "" if self.param_dtype == self.dtype else f" (parameters {self.param_dtype})"
        shape = f"{self.rows} x {self.cols} {self.dtype}{params}"
        return f"{self.operation.title} {shape} on {self.device}"


def of_text(text: str, device: str) -> tuple[Case, str]:
    """Return the case and the pass of a problem text; BadInput where none of it is measured here.

    >>> case, which = of_text("backward:bf16/f32:bert-large:op=rms_norm", "cpu")
    >>> str(case), which
    ('RMSNorm 8192 x 1024 bf16 (parameters f32) on cpu', 'backward')
    """
    problem = grammar.parse(text)
    options = problem.options()
    named = ((o.norm, o.adds) == (problem.op, "residual" in options) for o in OPERATIONS.values())
    op = next(name for name, found in zip(OPERATIONS, named, strict=True) if found)
    case = Case(problem.rows, problem.cols, problem.x_dtype, problem.param_dtype, device, op)
    measured = case.problems(problem.kind)[0].options()
    refused = [f"{key}={value}" for key, value in options.items() if measured.get(key) != value]
    if problem.kind not in PASSES:
        refused.append(problem.kind)
    if problem.y_dtype != problem.x_dtype:
        refused.append(f"{problem.x_dtype}/{problem.param_dtype}/{problem.y_dtype}")
    if problem.rows < 1 or problem.cols < 1:
        refused.append(f"{problem.rows}x{problem.cols}")
    for word in refused:
        raise BadInput(f'{word}: this command takes no such problem; in problem "{problem}"')
    return case, problem.kind


def needed_bytes(case: Case, contestants: int) -> int:
    """Estimate the memory that measuring ``case`` takes at its worst moment."""
    adds = case.operation.adds
    shared, each = SHARED_MATRICES + ADDED_MATRICES * adds, MATRICES_EACH + adds
    return case.matrix_bytes * (shared + each * contestants)


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
