"""What is measured: shapes, dtypes, and the bytes that a pass cannot avoid moving."""

import csv
from dataclasses import dataclass
from pathlib import Path

import torch

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
class Shape:
    """A matrix of rows to be normalised, and why it is measured."""

    name: str
    rows: int
    cols: int
    why: str = ""


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

    def __str__(self) -> str:
        params = "" if self.param_dtype == self.dtype else f" (parameters {self.param_dtype})"
        return f"{self.rows} x {self.cols} {self.dtype}{params} on {self.device}"


def minimal_bytes(case: Case, which: str) -> int:
    """Return the bytes of every array that must move, once: as bench/measure.cc counts them.

    >>> minimal_bytes(Case(2, 8), "forward")  # x and y, gamma and beta
    192
    >>> minimal_bytes(Case(2, 8), "backward")  # dy, x and dx; gamma, dgamma, dbeta; mean and rstd
    304
    """
    if which == "both":
        return minimal_bytes(case, "forward") + minimal_bytes(case, "backward")
    vector = case.cols * case.torch_param_dtype.itemsize
    if which == "forward":
        return 2 * case.matrix_bytes + 2 * vector
    statistic = case.rows * (8 if case.dtype == "f64" else 4)
    return 3 * case.matrix_bytes + 3 * vector + 2 * statistic


def shapes_file() -> Path:
    """Return the one list of shapes: in an installed package beside this file, else in bench/."""
    installed = Path(__file__).with_name("shapes.csv")
    return (
        installed
        if installed.exists()
        else Path(__file__).resolve().parents[3] / "bench/shapes.csv"
    )


def listed_shapes() -> list[Shape]:
    """Read the shapes that fusednorm-bench measures too."""
    try:
        text = shapes_file().read_text()
    except OSError as error:
        raise BadInput(f"the list of shapes cannot be read: {error}") from error
    rows = csv.reader(line for line in text.splitlines() if line and not line.startswith("#"))
    return [Shape(name, int(m), int(n), ",".join(why)) for name, m, n, *why in rows]


def grid_shapes() -> list[Shape]:
    """Return rows x columns for the heat map, up to 64 MB a matrix of f32."""
    return [
        Shape(f"{rows}x{cols}", rows, cols, "grid")
        for rows in (16, 128, 1024, 8192, 65536)
        for cols in (64, 256, 1024, 4096, 16384)
        if rows * cols <= 1 << 24
    ]


def parse_shape(text: str) -> Shape:
    """Read a name of the list, or ROWSxCOLS.

    >>> parse_shape("4096x1024")
    Shape(name='4096x1024', rows=4096, cols=1024, why='')
    """
    for shape in listed_shapes():
        if shape.name == text:
            return shape
    rows, cross, cols = text.partition("x")
    if cross and rows.isdecimal() and cols.isdecimal() and int(rows) > 0 and int(cols) > 0:
        return Shape(text, int(rows), int(cols))
    names = ", ".join(shape.name for shape in listed_shapes())
    raise BadInput(f"--shape {text}: expected ROWSxCOLS, as in 4096x1024, or one of {names}")


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
