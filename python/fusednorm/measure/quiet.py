# SPDX-License-Identifier: Apache-2.0
"""Keeps libraries from writing into the tables."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stderr_closed() -> Iterator[None]:
    """Send the file descriptor of standard error nowhere: Kineto logs each start and stop there."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def no_cuda_remarks() -> None:
    """Drop torch's warning of a CUDA toolkit without a device: it says nothing about a CPU."""
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
