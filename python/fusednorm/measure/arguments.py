# SPDX-License-Identifier: Apache-2.0
"""How the words of the command line are read; a mistake is one line."""

import argparse
import os
import sys
from typing import NoReturn

import torch

from fusednorm import _build
from fusednorm.measure import environment
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.problem import check_device


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise BadInput(message)


def at_least_one(text: str) -> int:
    """Read a count."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number, at least 1")
    return int(text)


def seconds(text: str) -> float:
    """Read a time."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text}: expected a number of seconds above zero")
    return value


def names(text: str) -> list[str]:
    """Read a list with commas."""
    return [name for name in text.split(",") if name]


def one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    """Return ``value``; BadInput where it is not known."""
    if value not in known:
        raise BadInput(f"{option} {value}: expected one of {', '.join(known)}")
    return value


def device(asked: str | None) -> str:
    """Return the device that was asked for, or CUDA where there is one."""
    if asked is None:
        return "cuda" if torch.cuda.is_available() and _build.WITH_CUDA else "cpu"
    check_device(asked)
    return asked


def remark(threads: list[int]) -> None:
    """Say on stderr what will make the measurement worse than it could be."""
    cores = os.cpu_count() or 1
    remarks = [environment.busy()]
    remarks += [
        f"--threads {count}: this machine has {cores} cores, so threads will wait for each other"
        for count in threads
        if count > cores
    ]
    for line in filter(None, remarks):
        print(f"fusednorm: {line}", file=sys.stderr)
