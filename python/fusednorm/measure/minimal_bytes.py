# SPDX-License-Identifier: Apache-2.0
"""The bytes that no implementation of a problem can avoid moving, as problems/ defines them."""

from dataclasses import dataclass

from fusednorm.measure.grammar import Problem

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True)
class Bytes:
    """Each array that the asked outputs depend on, and each asked output, once."""

    read: int
    written: int

    @property
    def total(self) -> int:
        """Both ways."""
        return self.read + self.written


def minimal_bytes(problem: Problem) -> Bytes:
    """Count them.

    >>> from fusednorm.measure.grammar import parse
    >>> minimal_bytes(parse("forward:f32:2x8"))  # x, gamma, beta; y, mean, rstd
    Bytes(read=128, written=80)
    """
    x, y, row = (
        problem.rows * problem.cols * SIZES[dtype]
        for dtype in (problem.x_dtype, problem.y_dtype, problem.row_dtype)
    )
    parameter = problem.groups[0] * problem.cols * SIZES[problem.param_dtype]
    statistic = problem.rows * (8 if problem.x_dtype == "f64" else 4)
    gamma, beta, residual = problem.gamma != "none", problem.has_beta, problem.has_residual
    if problem.kind == "forward":
        written = y + row * residual + statistic * len(problem.asked)
        return Bytes(x + row * residual + parameter * (gamma + beta), written)
    dx, dgamma, dbeta, dresidual = (name in problem.asked for name in problem.outputs)
    of_rows, dy = dx or dresidual, problem.has_dy
    from_y = problem.kind == "backward_from_y"
    through_norm = dy and of_rows
    normalised = through_norm or (dy and dgamma)  # dbeta is a sum of dy alone
    read = y * (normalised or (dy and dbeta))  # dy
    if normalised:
        read += y if from_y else row
    read += row * (problem.has_ds and of_rows)
    read += parameter * (gamma and (normalised if from_y else through_norm))
    read += parameter * (beta and from_y and normalised)
    has_mean = problem.op != "rms_norm"
    read += statistic * (normalised and not from_y and has_mean)  # mean
    read += statistic * (through_norm if from_y else normalised)  # rstd
    return Bytes(read, x * dx + row * dresidual + parameter * (dgamma + dbeta))
