# SPDX-License-Identifier: Apache-2.0
"""Loads the operator library, or says plainly why it does not fit the torch that is installed."""

from pathlib import Path

import torch

LIBRARY = Path(__file__).parent / "lib" / "libfusednorm_torch.so"

_REBUILD = "pip install --force-reinstall --no-deps ."


def _release(version: str) -> str:
    """Return the part of a version that fixes the C++ interface: "2.15.0+cu132" -> "2.15"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def _remedy(version: str, built_for: str) -> str:
    """Return the command that fits: a wheel's version names its torch, a build's own does not."""
    remedy = (
        f"Rebuild it against the torch you have, in the directory of its source:\n    {_REBUILD}"
    )
    if "+" in version:
        remedy += (
            "\nor install the torch that this wheel was built for:\n"
            f"    pip install 'torch=={_release(built_for)}.*'"
        )
    return remedy


def check_torch(version: str, built_for: str, installed: str) -> None:
    """Raise ImportError unless both versions of torch are of one release.

    >>> check_torch("0.1.0", "2.15.0+cu132", "2.15.1+cpu")
    >>> check_torch("0.1.0", "2.15.0", "2.16.0")
    Traceback (most recent call last):
    ...
    ImportError: fusednorm 0.1.0 was built for torch 2.15.0, but torch 2.16.0 is installed.
    Rebuild it against the torch you have, in the directory of its source:
        pip install --force-reinstall --no-deps .
    >>> check_torch("0.1.0+torch2.15.cpu", "2.15.0", "2.12.1")
    Traceback (most recent call last):
    ...
    ImportError: fusednorm 0.1.0+torch2.15.cpu was built for torch 2.15.0, but torch 2.12.1 is installed.
    Rebuild it against the torch you have, in the directory of its source:
        pip install --force-reinstall --no-deps .
    or install the torch that this wheel was built for:
        pip install 'torch==2.15.*'
    """  # noqa: E501
    if _release(built_for) != _release(installed):
        raise ImportError(
            f"fusednorm {version} was built for torch {built_for}, but torch {installed} "
            f"is installed.\n{_remedy(version, built_for)}"
        )


def load_operators() -> None:
    """Register the operators as ``torch.ops.fusednorm``."""
    try:
        from fusednorm._build import TORCH_VERSION, VERSION
    except ModuleNotFoundError as error:
        raise ImportError(
            "fusednorm has no operator library: this is its source, not an installed package.\n"
            "Install it with: pip install ."
        ) from error
    check_torch(VERSION, TORCH_VERSION, str(torch.__version__))
    try:
        torch.ops.load_library(LIBRARY)
    except OSError as error:
        raise ImportError(
            f"fusednorm, built for torch {TORCH_VERSION}, cannot be loaded by torch "
            f"{torch.__version__}: {error}\n{_remedy(VERSION, TORCH_VERSION)}"
        ) from error
