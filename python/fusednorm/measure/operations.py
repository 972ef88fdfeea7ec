# SPDX-License-Identifier: Apache-2.0
"""The operations that are measured: a norm, alone or of a row to which a residual is added."""

from dataclasses import dataclass

from fusednorm.measure.mistakes import BadInput


@dataclass(frozen=True)
class Operation:
    """One of the family, under the name of its PyTorch function."""

    name: str
    title: str  # for headings
    norm: str  # op= of the problem grammar
    adds: bool = False  # y = norm(sum), sum = x + residual; both are returned

    @property
    def outputs(self) -> tuple[str, ...]:
        """Name what a forward pass returns; a backward pass starts from a gradient of each."""
        return ("y", "sum") if self.adds else ("y",)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Name what a gradient is asked for."""
        data = ("x", "residual") if self.adds else ("x",)
        return (*data, "gamma", "beta") if self.norm == "layer_norm" else (*data, "gamma")

    @property
    def results(self) -> tuple[str, ...]:
        """Name all that is compared with the formula.

        >>> OPERATIONS["add_rms_norm"].results
        ('y', 'sum', 'dx', 'dresidual', 'dgamma')
        """
        return (*self.outputs, *(f"d{name}" for name in self.inputs))


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("layer_norm", "LayerNorm", "layer_norm"),
        Operation("rms_norm", "RMSNorm", "rms_norm"),
        Operation("add_layer_norm", "add + LayerNorm", "layer_norm", adds=True),
        Operation("add_rms_norm", "add + RMSNorm", "rms_norm", adds=True),
    )
}


def check_operations(names: list[str]) -> list[str]:
    """Return the names, each once; BadInput names the first that is none."""
    for name in names:
        if name not in OPERATIONS:
            raise BadInput(f"--op {name}: expected some of {', '.join(OPERATIONS)}")
    return list(dict.fromkeys(names))
