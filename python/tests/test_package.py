"""The package as such: examples in docstrings run, and types are shipped."""

import doctest
import importlib
import importlib.resources

import pytest
import torch

import fusednorm

MODULES = ["", ".functional", ".module", ".conversion", ".apex", ".distributed", "._load"]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    module = importlib.import_module(f"fusednorm{name}")
    result = doctest.testmod(module, extraglobs={"torch": torch}, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def test_types_are_shipped():
    assert importlib.resources.files(fusednorm).joinpath("py.typed").is_file()


def test_every_public_name_is_documented():
    for name in fusednorm.__all__:
        assert getattr(fusednorm, name).__doc__
