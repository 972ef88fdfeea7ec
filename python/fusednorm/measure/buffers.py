# SPDX-License-Identifier: Apache-2.0
"""Fresh and warm outputs on the CPU: whether a result's pages come from the system or are kept.

An operator of PyTorch allocates what it returns. glibc maps large blocks anew each time, so that
the first write to each page traps into the kernel, at about the cost of the LayerNorm itself; an
allocator that keeps its memory has no such cost. Both are real, so both are measured, apart.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # names of mallopt(3)
SMALL_LISTS = 1
# Seven of each of the sizes 32, 48, 64 and 80 fill the lists.
SPLINTERS = 32
DEFAULT_MMAP_THRESHOLD, DEFAULT_MMAP_MAX = 128 << 10, 65536

BUFFERS = ("warm", "fresh")


def can_choose() -> bool:
    """Say whether the C library lets its allocator be steered: glibc does."""
    return hasattr(ctypes.CDLL(None), "mallopt")


def release() -> None:
    """Give the pages of all free blocks back: malloc prefers a used hole to new pages."""
    if can_choose():
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


@contextmanager
def outputs(kind: str, reserve: int = 0) -> Iterator[None]:
    """Make the outputs of operators ``warm`` (kept pages) or ``fresh`` (new ones) inside.

    Warm outputs come from ``reserve`` bytes that are written first. An aligned block leaves a
    splinter before it, which malloc keeps for small requests; the hole that it leaves in the end
    is then too small for the next. Once the lists of splinters are full they are merged instead.
    """
    if not can_choose():
        yield
        return
    library = ctypes.CDLL(None)
    if kind == "warm":
        library.mallopt(MMAP_MAX, 0)
        library.mallopt(TRIM_THRESHOLD, -1)
        library.mallopt(SMALL_LISTS, 0)
        library.malloc.restype = library.memalign.restype = ctypes.c_void_p
        for _ in range(SPLINTERS if reserve else 0):
            block = library.memalign(ctypes.c_size_t(64), ctypes.c_size_t(reserve // 8))
            library.free(ctypes.c_void_p(block))
        block = library.malloc(ctypes.c_size_t(reserve))
        if block:
            ctypes.memset(block, 1, reserve)
            library.free(ctypes.c_void_p(block))
    else:
        library.mallopt(MMAP_MAX, DEFAULT_MMAP_MAX)
        library.mallopt(MMAP_THRESHOLD, DEFAULT_MMAP_THRESHOLD)
    try:
        yield
    finally:
        library.mallopt(MMAP_MAX, DEFAULT_MMAP_MAX)
        library.mallopt(MMAP_THRESHOLD, DEFAULT_MMAP_THRESHOLD)
        library.mallopt(TRIM_THRESHOLD, DEFAULT_MMAP_THRESHOLD)
