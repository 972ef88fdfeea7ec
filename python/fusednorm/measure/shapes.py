# SPDX-License-Identifier: Apache-2.0
"""The one list of shapes, problems/shapes.csv, and the grid of the heat map."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fusednorm.measure.mistakes import BadInput


@dataclass(frozen=True)
class Shape:
    """A matrix of rows to be normalised, and the lists that it is on."""

    name: str
    rows: int
    cols: int
    lists: tuple[str, ...] = ()


def shapes_file() -> Path:
    """Return the list: in an installed package beside this file, else in problems/."""
    installed = Path(__file__).with_name("shapes.csv")
    source = Path(__file__).resolve().parents[3] / "problems" / "shapes.csv"
    return installed if installed.exists() else source


@cache
def listed_shapes(of: str = "") -> tuple[Shape, ...]:
    """Read the shapes of one list (bench, quick, peer, cost or width), or all of them."""
    try:
        text = shapes_file().read_text()
    except OSError as error:
        raise BadInput(f"the list of shapes cannot be read: {error}") from error
    rows = csv.reader(line for line in text.splitlines() if line and not line.startswith("#"))
    shapes = [Shape(name, int(m), int(n), tuple(on.split("+"))) for name, m, n, on, *_ in rows]
    return tuple(shape for shape in shapes if not of or of in shape.lists)


def grid_shapes() -> list[Shape]:
    """Return rows x columns for the heat map, up to 64 MB a matrix of f32."""
    return [
        Shape(f"{rows}x{cols}", rows, cols)
        for rows in (16, 128, 1024, 8192, 65536)
        for cols in (64, 256, 1024, 4096, 16384)
        if rows * cols <= 1 << 24
    ]
