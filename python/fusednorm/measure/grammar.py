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
ROUNDINGS = ("once", "via_x", "via_param")
DATA = (
    *("normal", "mean1000", "mean10000", "constant", "zeros", "tiny", "huge", "ramp", "outlier"),
    *("offset", "beyond", "nan_row", "inf_row", "brink", "denormal"),
)
GRADIENTS = ("normal", "positive", "constant", "zeros", "nan_row")
GAMMAS = ("normal", "none", "zeros", "large", "minus_offset")
BETAS = ("normal", "none", "large")
STARTS = ("dy", "ds", "dy+ds")
FORWARD_IN_PLACE = ("y_over_x", "sum_over_residual", "sum_over_x", "y_over_x+sum_over_residual")
BACKWARD_IN_PLACE = (
    *("dx_over_dy", "dx_over_source", "dx_over_ds"),
    *("dresidual_over_ds", "dresidual_over_source"),
)


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
    rounding: str = "once"
    gamma_offset: float = 0.0
    residual: str = "none"  # or its dtype
    groups: tuple[int, int] = (1, 1)  # param_groups, rows_per_group
    inner: int = 0
    stride: tuple[int, ...] = (0, 0, 0, 0, 0)
    outer: tuple[int, ...] = (0, 0, 0, 0, 0)
    offset: tuple[int, ...] = (0, 0, 0, 0, 0)
    data: str = "normal"
    dy: str = "normal"
    gamma: str = "normal"
    beta: str | None = None  # None: as the operation has it
    eps: float = 1e-5
    grads: str | None = None  # None: all there are
    out: tuple[str, ...] | None = None  # None: all of them
    in_place: str = "none"
    seed: int = 1

    @property
    def outputs(self) -> tuple[str, ...]:
        """Name every optional output of the pass."""
        forward = self.kind == "forward"
        return ("mean", "rstd") if forward else ("dx", "dgamma", "dbeta", "dresidual")

    @property
    def asked(self) -> tuple[str, ...]:
        """Name the optional outputs that are asked for."""
        no_mean = self.kind == "forward" and self.op == "rms_norm"
        asked = self.default_out if self.out is None else self.out
        return tuple(name for name in asked if not (no_mean and name == "mean"))

    @property
    def default_out(self) -> tuple[str, ...]:
        """Name the optional outputs of a problem that does not mention them."""
        rms_norm = self.op == "rms_norm"
        absent = {
            "mean": rms_norm,
            "dbeta": rms_norm and not self.has_beta,
            "dresidual": not self.has_dresidual,
        }
        return tuple(name for name in self.outputs if not absent.get(name, False))

    @property
    def has_residual(self) -> bool:
        """Whether a residual is added."""
        return self.residual != "none"

    @property
    def has_dresidual(self) -> bool:
        """Whether dresidual is an array of its own."""
        return self.has_residual and self.residual != self.x_dtype

    @property
    def has_beta(self) -> bool:
        """Whether there is a beta; rms_norm has one where it is asked for."""
        return self.op != "rms_norm" if self.beta is None else self.beta != "none"

    @property
    def has_dy(self) -> bool:
        """Whether a backward pass starts from dy."""
        return self.grads != "ds"

    @property
    def has_ds(self) -> bool:
        """Whether a backward pass starts from ds."""
        if self.grads is None:
            return self.has_residual and self.kind != "forward"
        return "ds" in self.grads

    @property
    def row_dtype(self) -> str:
        """The dtype of the rows that are normalised."""
        return self.residual if self.has_residual else self.x_dtype

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
        # The defaults of some words follow from others.
        like = {
            "beta": replace(self, beta=None),
            "grads": replace(self, grads=None),
            "out": replace(self, out=None),
        }
        texts = {k: (o.write(self), o.write(like.get(k, plain))) for k, o in OPTIONS.items()}
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
    if not 1 <= len(values) <= 5:
        raise _Unexpected("one to five whole numbers, as in 1030,1040")
    return tuple(values + values[-1:] * (5 - len(values)))


def _write_per_array(problem: Problem, values: tuple[int, ...]) -> str:
    count = (2, 4) if problem.kind == "forward" else (3, 5)
    told = list(values[: count[problem.has_residual]])
    while len(told) > 1 and told[-1] == told[-2]:
        told.pop()
    return ",".join(map(str, told))


def _number(text: str, expected: str, sign: str = "") -> float:
    decimal = re.fullmatch(sign + r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text)
    if not decimal or float(text) in (float("inf"), float("-inf")):
        raise _Unexpected(expected)
    return float(text)


def _write_number(number: float) -> str:
    """Write as few digits as give the same number back, as C's %g does."""
    return next(t for n in range(6, 18) if float(t := f"{number:.{n}g}") == number)


def _residual(text: str, _: Problem) -> str:
    return _find(text, ("none", *DTYPES))


def _groups(text: str, _: Problem) -> tuple[int, int]:
    try:
        sizes = [_integer(part) for part in text.split("x")]
    except _Unexpected:
        sizes = []
    if not 1 <= len(sizes) <= 2 or 0 in sizes:
        raise _Unexpected("G or GxR, whole numbers of at least 1, as in 8x4")
    return sizes[0], sizes[-1] if len(sizes) == 2 else 1


def _starts(text: str, problem: Problem) -> str:
    if problem.kind == "forward":
        raise _Unexpected("a backward pass")
    return _find(text, STARTS)


def _write_starts(problem: Problem) -> str:
    return STARTS[(1, 0, 2)[problem.has_dy + (problem.has_dy and problem.has_ds)]]


def _write_beta(problem: Problem) -> str:
    if problem.beta is None:
        return "normal" if problem.has_beta else "none"
    return problem.beta


def _out(text: str, problem: Problem) -> tuple[str, ...]:
    words = [] if text == "none" else text.split("+")
    if not set(words) <= set(problem.outputs):
        raise _Unexpected("none, or some of " + "+".join(problem.outputs))
    return tuple(name for name in problem.outputs if name in words)


def _in_place(text: str, problem: Problem) -> str:
    places = FORWARD_IN_PLACE if problem.kind == "forward" else BACKWARD_IN_PLACE
    return _find(text, ("none", *places))


@dataclass(frozen=True)
class _Option:
    read: Callable[[str, Problem], Any]  # raises _Unexpected
    write: Callable[[Problem], str]


def _word(key: str, words: Sequence[str]) -> _Option:
    return _Option(lambda text, _: _find(text, words), lambda p: getattr(p, key))


# Every option, in the order in which it is printed.
OPTIONS = {
    "op": _word("op", OPERATIONS),
    "rounding": _word("rounding", ROUNDINGS),
    "gamma_offset": _Option(
        lambda text, _: _number(text, "a number, as in 1", "-?"),
        lambda p: _write_number(p.gamma_offset),
    ),
    "residual": _Option(_residual, lambda p: p.residual),
    "groups": _Option(
        _groups, lambda p: "x".join(map(str, p.groups if p.groups[1] > 1 else p.groups[:1]))
    ),
    "inner": _Option(lambda text, _: _integer(text), lambda p: str(p.inner)),
    "stride": _Option(_per_array, lambda p: _write_per_array(p, p.stride)),
    "outer": _Option(_per_array, lambda p: _write_per_array(p, p.outer)),
    "offset": _Option(_per_array, lambda p: _write_per_array(p, p.offset)),
    "data": _word("data", DATA),
    "dy": _word("dy", GRADIENTS),
    "gamma": _word("gamma", GAMMAS),
    "beta": _Option(lambda text, _: _find(text, BETAS), _write_beta),
    "eps": _Option(
        lambda text, _: _number(text, "a number of at least 0, as in 1e-5"),
        lambda p: _write_number(p.eps),
    ),
    "grads": _Option(_starts, _write_starts),
    "out": _Option(_out, lambda p: "+".join(p.asked) or "none"),
    "in_place": _Option(_in_place, lambda p: p.in_place),
    "seed": _Option(lambda text, _: _integer(text, 2**64 - 1), lambda p: str(p.seed)),
}


def _check_together(given: dict[str, str], problem: Problem) -> tuple[str, str]:
    """Return a word that means something only beside others, and what was expected, or nothing."""
    place = problem.in_place
    other_dtype = "residual= of another dtype than x beside it"
    dresidual = "dresidual" in (problem.out or ()) and problem.kind != "forward"
    rules = (
        ("outer", problem.inner == 0, "inner= beside it"),
        ("grads", problem.has_ds and not problem.has_residual, "residual= beside it"),
        ("out", dresidual and not problem.has_dresidual, other_dtype),
        ("in_place", "sum_over" in place and not problem.has_residual, "residual= beside it"),
        ("in_place", place == "dx_over_dy" and not problem.has_dy, "grads= with dy beside it"),
        ("in_place", place.endswith("_ds") and not problem.has_ds, "grads= with ds beside it"),
        ("in_place", "dresidual" in place and not problem.has_dresidual, other_dtype),
    )
    for key, broken, what in rules:
        if key in given and broken:
            return given[key], what
    return "", ""


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
        problem = Problem(kind, x, param, y, rows, cols)
        given: dict[str, str] = {}
        for word in fields[3:]:
            key, equals, value = word.partition("=")
            if key not in OPTIONS:
                word = key
                raise _Unexpected(_one_of(tuple(OPTIONS)))
            if key in given:
                raise _Unexpected(f"{key}= once")
            given[key] = word
            if not equals:
                raise _Unexpected(f"{key}=VALUE")
            problem = replace(problem, **{key: OPTIONS[key].read(value, problem)})
    except _Unexpected as error:
        return problem, word, str(error)
    return problem, *_check_together(given, problem)


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
