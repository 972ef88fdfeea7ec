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
    x, y = (problem.rows * problem.cols * SIZES[d] for d in (problem.x_dtype, problem.y_dtype))
    parameter = problem.cols * SIZES[problem.param_dtype]
    statistic = problem.rows * (8 if problem.x_dtype == "f64" else 4)
    gamma, beta = problem.gamma != "none", problem.beta != "none"
    if problem.kind == "forward":
        written = y + statistic * len(problem.asked)
        return Bytes(x + parameter * (gamma + beta), written)
    dx, dgamma, dbeta = (name in problem.asked for name in problem.outputs)
    from_y = problem.kind == "backward_from_y"
    normalised = dx or dgamma  # dbeta is a sum of dy alone
    read = y * (normalised or dbeta)  # dy
    if normalised:
        read += y if from_y else x
    read += parameter * (gamma and (normalised if from_y else dx))
    read += parameter * (beta and from_y and normalised)
    has_mean = problem.op != "rms_norm"
    read += statistic * (normalised and not from_y and has_mean)  # mean
    read += statistic * (dx if from_y else normalised)  # rstd
    return Bytes(read, x * dx + parameter * (dgamma + dbeta))
