# SPDX-License-Identifier: Apache-2.0
"""The problem grammar of problems/problem.h, for a package that ships without its C++ parser.

problems/spellings.txt holds the two against each other, errors included.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.shapes import listed_shapes

PASSES = ("forward", "backward", "backward_from_y")
DTYPES = ("f64", "f32", "f16", "bf16")
OPERATIONS = ("layer_norm", "rms_norm")
DATA = (
    *("normal", "mean1000", "mean10000", "constant", "zeros", "tiny", "huge", "ramp", "outlier"),
    *("offset", "beyond", "nan_row", "inf_row"),
)
GRADIENTS = ("normal", "positive", "constant", "zeros", "nan_row")
GAMMAS = ("normal", "none", "zeros", "large")
BETAS = ("normal", "none", "large")


@dataclass(frozen=True)
class Problem:
    """One problem; the fields behind ``cols`` are the options, by their keys."""

    kind: str  # of PASSES
    x_dtype: str
    param_dtype: str
    y_dtype: str
    rows: int
    cols: int
    op: str = "layer_norm"
    stride: tuple[int, ...] = (0, 0, 0)
    offset: tuple[int, ...] = (0, 0, 0)
    data: str = "normal"
    dy: str = "normal"
    gamma: str = "normal"
    beta: str = "normal"
    eps: float = 1e-5
    out: tuple[str, ...] | None = None  # None: all of them
    in_place: str = "none"
    seed: int = 1

    @property
    def outputs(self) -> tuple[str, ...]:
        """Name every optional output of the pass."""
        return ("mean", "rstd") if self.kind == "forward" else ("dx", "dgamma", "dbeta")

    @property
    def asked(self) -> tuple[str, ...]:
        """Name the optional outputs that are asked for."""
        return self.outputs if self.out is None else self.out

    def __str__(self) -> str:
        """Return the shortest spelling: defaults are left out."""
        dtypes = [self.x_dtype, self.param_dtype, self.y_dtype]
        if self.y_dtype == self.x_dtype:
            dtypes = dtypes[: 1 if self.param_dtype == self.x_dtype else 2]
        words = [self.kind, "/".join(dtypes), f"{self.rows}x{self.cols}"]
        return ":".join(words + [f"{key}={value}" for key, value in self.options().items()])

    def options(self) -> dict[str, str]:
        """Return the options that differ from their defaults, as they are spelled."""
        plain = Problem(self.kind, self.x_dtype, self.param_dtype, self.y_dtype, 0, 0)
        texts = {k: (o.write(self), o.write(plain)) for k, o in OPTIONS.items()}
        return {key: mine for key, (mine, default) in texts.items() if mine != default}


class _Unexpected(Exception):
    """What was expected in the place of a word."""


def _one_of(words: Sequence[str]) -> str:
    return "one of " + ", ".join(words)


def _find(word: str, words: Sequence[str]) -> str:
    if word not in words:
        raise _Unexpected(_one_of(words))
    return word


def _integer(text: str, most: int = 2**63 - 1) -> int:
    """Read digits alone: no sign, no space, no underscore."""
    if not re.fullmatch("[0-9]+", text) or int(text) > most:
        raise _Unexpected("a whole number")
    return int(text)


def _per_array(text: str, _: Problem) -> tuple[int, ...]:
    parts = text.split(",")
    try:
        values = [_integer(part) for part in parts]
    except _Unexpected:
        values = []
    if not 1 <= len(values) <= 3:
        raise _Unexpected("one to three whole numbers, as in 1030,1040")
    return tuple(values + values[-1:] * (3 - len(values)))


def _write_per_array(problem: Problem, values: tuple[int, ...]) -> str:
    told = list(values[: 2 if problem.kind == "forward" else 3])
    while len(told) > 1 and told[-1] == told[-2]:
        told.pop()
    return ",".join(map(str, told))


def _eps(text: str, _: Problem) -> float:
    decimal = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text)
    if not decimal or float(text) == float("inf"):
        raise _Unexpected("a number of at least 0, as in 1e-5")
    return float(text)


def _write_eps(eps: float) -> str:
    """Write as few digits as give the same number back, as C's %g does."""
    return next(t for n in range(6, 18) if float(t := f"{eps:.{n}g}") == eps)


def _out(text: str, problem: Problem) -> tuple[str, ...] | None:
    words = [] if text == "none" else text.split("+")
    if not set(words) <= set(problem.outputs):
        raise _Unexpected("none, or some of " + "+".join(problem.outputs))
    asked = tuple(name for name in problem.outputs if name in words)
    return None if asked == problem.outputs else asked


def _in_place(text: str, problem: Problem) -> str:
    forward = problem.kind == "forward"
    return _find(text, ("none", *(("y_over_x",) if forward else ("dx_over_dy", "dx_over_source"))))


@dataclass(frozen=True)
class _Option:
    read: Callable[[str, Problem], Any]  # raises _Unexpected
    write: Callable[[Problem], str]


def _word(key: str, words: Sequence[str]) -> _Option:
    return _Option(lambda text, _: _find(text, words), lambda p: getattr(p, key))


# Every option, in the order in which it is printed.
OPTIONS = {
    "op": _word("op", OPERATIONS),
    "stride": _Option(_per_array, lambda p: _write_per_array(p, p.stride)),
    "offset": _Option(_per_array, lambda p: _write_per_array(p, p.offset)),
    "data": _word("data", DATA),
    "dy": _word("dy", GRADIENTS),
    "gamma": _word("gamma", GAMMAS),
    "beta": _word("beta", BETAS),
    "eps": _Option(_eps, lambda p: _write_eps(p.eps)),
    "out": _Option(_out, lambda p: "+".join(p.asked) or "none"),
    "in_place": _Option(_in_place, lambda p: p.in_place),
    "seed": _Option(lambda text, _: _integer(text, 2**64 - 1), lambda p: str(p.seed)),
}


def _shape(text: str) -> tuple[int, int]:
    names = {shape.name: (shape.rows, shape.cols) for shape in listed_shapes()}
    if text in names:
        return names[text]
    sizes = text.split("x")
    try:
        rows, cols = (_integer(size) for size in sizes)
    except (_Unexpected, ValueError):
        expected = f"ROWSxCOLS, as in 4096x1024, or {_one_of(tuple(names))}"
        raise _Unexpected(expected) from None
    return rows, cols


def _parse(text: str) -> tuple[Problem, str, str]:
    """Return the problem, or the word that is none and what was expected in its place."""
    word, fields = text, text.split(":")
    problem = Problem("forward", "f32", "f32", "f32", 0, 0)
    try:
        if len(fields) < 3:
            raise _Unexpected("PASS:DTYPES:SHAPE")
        kind = _find(word := fields[0], PASSES)
        dtypes = (word := fields[1]).split("/")
        if len(dtypes) > 3:
            raise _Unexpected("x, x/param or x/param/y")
        for word in dtypes:
            _find(word, DTYPES)
        x, param, y = (*dtypes, *[dtypes[0]] * 2)[:3] if len(dtypes) < 3 else dtypes
        rows, cols = _shape(word := fields[2])
        problem, given = Problem(kind, x, param, y, rows, cols), set()
        for word in fields[3:]:
            key, equals, value = word.partition("=")
            if key not in OPTIONS:
                word = key
                raise _Unexpected(_one_of(tuple(OPTIONS)))
            if key in given:
                raise _Unexpected(f"{key}= once")
            given.add(key)
            if not equals:
                raise _Unexpected(f"{key}=VALUE")
            problem = replace(problem, **{key: OPTIONS[key].read(value, problem)})
        if problem.op == "rms_norm":  # has neither
            asked = tuple(name for name in problem.asked if name not in ("mean", "dbeta"))
            problem = replace(problem, beta="none", out=asked)
    except _Unexpected as error:
        return problem, word, str(error)
    return problem, "", ""


def parse(text: str) -> Problem:
    """Read a problem; BadInput names the word that is none, and what was expected in its place.

    >>> str(parse("backward:bf16/f32/bf16:bert-large:offset=1,1"))
    'backward:bf16/f32:8192x1024:offset=1'
    """
    problem, word, expected = _parse(text)
    if expected:
        raise BadInput(f'{word or chr(34) * 2}: expected {expected}; in problem "{text}"')
    return problem


def parse_shape(option: str, text: str) -> tuple[int, int]:
    """Read ROWSxCOLS or a name of the list, given as ``option``; at least one row and column."""
    try:
        rows, cols = _shape(text)
    except _Unexpected as error:
        raise BadInput(f"{option} {text}: expected {error}") from None
    if rows < 1 or cols < 1:
        raise BadInput(f"{option} {text}: expected at least one row and one column")
    return rows, cols
