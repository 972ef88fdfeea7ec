# SPDX-License-Identifier: Apache-2.0
"""How pictures look: one colour and marker a contestant, told apart by colour-blind readers too."""

from dataclasses import dataclass
from typing import Any

from fusednorm.measure.environment import caption
from fusednorm.measure.mistakes import BadInput


@dataclass(frozen=True)
class Look:
    """A colour of the Okabe-Ito palette, or a grey beside it, and a marker."""

    colour: str
    marker: str


LOOKS = {
    "2019": Look("#000000", "s"),
    "native": Look("#E69F00", "o"),
    "compile": Look("#56B4E9", "^"),
    "apex": Look("#009E73", "v"),
    "transformer_engine": Look("#F0E442", "D"),
    "liger": Look("#CC79A7", "P"),
    "quack": Look("#0072B2", "X"),
    "flash_attn": Look("#666666", "p"),
    "unfused": Look("#A0A0A0", "d"),
    "fusednorm": Look("#D55E00", "*"),
}
# The parts of the unfused bar, the longest first.
PARTS = ("#333333", "#666666", "#999999", "#BBBBBB", "#D5D5D5", "#E8E8E8")


def check_matplotlib() -> None:
    """Raise BadInput where pictures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise BadInput("--plot: needs matplotlib; pip install matplotlib") from error


def figure(width: float, height: float) -> Any:
    """Return an empty figure, free of pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(drawing: Any, path: str, facts: dict[str, str], note: str = "") -> str:
    """Write the figure with machine, versions and date below it."""
    text = f"{note}\n{caption(facts)}" if note else caption(facts)
    drawing.supxlabel(text, fontsize=7.5, color="#444444")
    drawing.savefig(path, dpi=110)
    return path


def plain(axes: Any) -> None:
    """Take away what says nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
