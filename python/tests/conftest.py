# SPDX-License-Identifier: Apache-2.0
"""What the tests share: devices, and a header that says what this machine can run."""

import os

import pytest

try:
    import torch
except (ImportError, OSError) as error:
    # A torch that asks for entry points which the emulated runtime does not have.
    if "FUSEDNORM_EMULATED_CUDA" not in os.environ:
        raise
    refusal = f"skipped: the emulated CUDA device does not serve this torch: {error}"
    cuda_marks: list[pytest.MarkDecorator] = []
else:
    refusal = ""
    import cuda_device
    from cuda_device import marks as cuda_marks


def pytest_configure() -> None:
    if refusal:
        pytest.exit(refusal, returncode=0)


def pytest_report_header() -> str:
    import fusednorm._build as build

    cuda = f"no ({cuda_device.NO_CUDA})"
    if cuda_device.HAS_CUDA:
        cuda = f"on {torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}"
    return f"fusednorm built for torch {build.TORCH_VERSION}, CUDA tests: {cuda}"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=cuda_marks)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
