# SPDX-License-Identifier: Apache-2.0
"""The roof: copies of x, timed in turns with the contestants; the best of them counts."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fusednorm.measure.timing import Action

PREFIX = "copy: "
# bench/copy.cc: the copies of fusednorm-bench, on torch's threads.
LIBRARY = Path(__file__).parents[1] / "lib" / "libfusednorm_copy.so"


def _library() -> Any:
    """Return the function of the C++ bench, or None in a package that was built without it."""
    try:
        copy = ctypes.CDLL(str(LIBRARY)).fusednorm_bench_copy
    except OSError:
        return None
    copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    copy.restype = None
    return copy


def copies(x: Tensor, kind: str) -> dict[str, Action]:
    """Return ways to copy ``x``; where buffers are fresh on the CPU, into new memory each time."""
    fresh = kind == "fresh" and x.device.type == "cpu"
    library: Any = _library() if x.device.type == "cpu" else None
    target = torch.empty_like(x)
    target.copy_(x)

    def place() -> Tensor:
        return torch.empty_like(x) if fresh else target

    def library_copy(streaming: bool) -> None:
        to, threads = place(), torch.get_num_threads()
        library(to.data_ptr(), x.data_ptr(), x.numel() * x.element_size(), threads, streaming)

    ways: dict[str, Action] = {PREFIX + "torch": lambda: place().copy_(x)}
    if library is not None:
        ways[PREFIX + "plain"] = lambda: library_copy(False)
        ways[PREFIX + "streaming"] = lambda: library_copy(True)
    return ways
