# SPDX-License-Identifier: Apache-2.0
"""The Python parser of problems against the list that the C++ one is held against, too."""

from pathlib import Path

import pytest

from fusednorm.measure import grammar
from fusednorm.measure.minimal_bytes import minimal_bytes
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.problem import of_text
from fusednorm.measure.shapes import listed_shapes, shapes_file

PROBLEMS = Path(__file__).parents[2] / "problems"


def spellings(sign):
    lines = (PROBLEMS / "spellings.txt").read_text().splitlines()
    shapes = ", ".join(shape.name for shape in listed_shapes())
    kept = [line.split(sign, 1) for line in lines if sign in line and not line.startswith("#")]
    return [(text, meaning.replace("{shapes}", shapes)) for text, meaning in kept]


def test_every_spelling_means_what_the_list_says():
    right = spellings(" => ")
    assert len(right) > 80
    for text, meaning in right:
        problem = grammar.parse(text)
        count = minimal_bytes(problem)
        assert f"{problem} | read {count.read}, written {count.written}" == meaning
        assert str(grammar.parse(str(problem))) == str(problem)


def test_every_error_is_the_one_of_the_list():
    wrong = spellings(" !! ")
    assert len(wrong) > 50
    for text, meaning in wrong:
        with pytest.raises(BadInput) as error:
            grammar.parse(text)
        assert str(error.value) == f'{meaning}; in problem "{text}"'


def test_the_list_has_every_word():
    """An error lists the words of its place, so the lists of words are compared with it."""
    told = " ".join(meaning for _, meaning in spellings(" !! "))
    spelled = {text for text, _ in spellings(" => ")}
    for words in (grammar.PASSES, grammar.DTYPES, grammar.OPERATIONS, tuple(grammar.OPTIONS)):
        assert "one of " + ", ".join(words) in told
    for key, words in {
        "op": grammar.OPERATIONS,
        "rounding": grammar.ROUNDINGS,
        "residual": ("none", *grammar.DTYPES),
        "grads": grammar.STARTS,
        "data": grammar.DATA,
        "dy": grammar.GRADIENTS,
        "gamma": grammar.GAMMAS,
        "beta": grammar.BETAS,
    }.items():
        assert ", ".join(words) in told
        for word in words:
            assert any(f":{key}={word}:" in f"{text}:" for text in spelled), word
    for key in grammar.OPTIONS:
        assert any(f":{key}=" in text for text in spelled)


def test_the_shapes_are_one_file():
    assert shapes_file().read_text() == (PROBLEMS / "shapes.csv").read_text()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("forward:f32:3x5:offset=1", "offset=1"),
        ("forward:f32:3x5:eps=0", "eps=0"),
        ("forward:f32:3x5:rounding=via_x", "rounding=via_x"),
        ("forward:f32:6x5:inner=2:outer=20", "inner=2"),
        ("backward:f32:3x5:out=dx", "out=dx"),
        ("backward_from_y:f32:3x5", "backward_from_y"),
        ("forward:bf16/f32/f32:3x5", "bf16/f32/f32"),
        ("forward:f32:0x5", "0x5"),
    ],
)
def test_what_is_not_measured_is_refused_and_not_ignored(text, word):
    with pytest.raises(BadInput, match="takes no such problem") as error:
        of_text(text, "cpu")
    assert str(error.value).startswith(f"{word}: ")
