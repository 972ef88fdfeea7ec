"""What the tests share: devices, and a header that says what this machine can run."""

import fusednorm._build as build
import pytest
import torch

NO_GPU = "no CUDA device here; runs where torch.cuda.is_available() and the package has CUDA"
HAS_GPU = torch.cuda.is_available() and build.WITH_CUDA


def pytest_report_header() -> str:
    cuda = "yes" if HAS_GPU else f"no ({NO_GPU})"
    return f"fusednorm built for torch {build.TORCH_VERSION}, CUDA tests: {cuda}"


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not HAS_GPU, reason=NO_GPU))]
)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)
