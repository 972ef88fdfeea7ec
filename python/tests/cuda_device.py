# SPDX-License-Identifier: Apache-2.0
"""Where CUDA tests run: on a GPU, or on the emulated device (tools/with-emulated-cuda).

The emulated device executes PTX. PyTorch's own kernels are machine code, which it refuses at
launch, so a test makes its data on the CPU, puts them on the device, calls fusednorm and takes the
results back. ``to``, ``cpu``, ``empty``, ``backward(dy)`` with a given dy and copies without a
change of dtype or layout need no kernel; ``randn``, ``ones_like``, ``sum``, ``double``, ``+`` do.
"""

import os

import fusednorm._build as build
import pytest
import torch
from torch import Tensor


def version_refused(emulated: str | None, torch_cuda: str | None) -> str | None:
    """Say why the emulated runtime cannot stand in for the one that torch was built for.

    >>> version_refused("13", "12.6")
    'the emulated CUDA device stands in for CUDA 13, but this torch was built for CUDA 12.6'
    >>> version_refused("13", "13.2") is version_refused(None, "12.6") is None
    True
    """
    if emulated is None or (torch_cuda is not None and torch_cuda.split(".")[0] == emulated):
        return None
    built = "without CUDA" if torch_cuda is None else f"for CUDA {torch_cuda}"
    return (
        f"the emulated CUDA device stands in for CUDA {emulated}, but this torch was built {built}"
    )


REFUSED = version_refused(os.environ.get("FUSEDNORM_EMULATED_CUDA"), torch.version.cuda)
HAS_CUDA = REFUSED is None and torch.cuda.is_available() and build.WITH_CUDA
NO_CUDA = REFUSED or (
    "no CUDA device here; runs where torch.cuda.is_available() and the package has CUDA, or on the "
    "emulated device: make test-python-cuda"
)
HAS_TWO = HAS_CUDA and torch.cuda.device_count() > 1
NO_TWO = "one CUDA device; needs two" if HAS_CUDA else NO_CUDA
EMULATED = HAS_CUDA and torch.cuda.get_device_name(0).startswith("fusednorm emulator")

marks = [pytest.mark.cuda, pytest.mark.skipif(not HAS_CUDA, reason=NO_CUDA)]


def needs_kernel_of_pytorch(what: str) -> None:
    """Skip on the emulated device a test that cannot do without a kernel of PyTorch's own."""
    if EMULATED:
        pytest.skip(
            f"{what} is a kernel of PyTorch's own, without PTX for the emulated CUDA device; "
            "runs on a GPU"
        )


def put(tensor: Tensor, device: str | torch.device) -> Tensor:
    """Copy to a device as the tensor lies in memory; ``to`` would close gaps and align it."""
    whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.detach().untyped_storage())
    there = whole.to(device, copy=True)
    view = there.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return view.requires_grad_(tensor.requires_grad)
