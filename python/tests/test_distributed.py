"""DDP and FSDP2 on two processes over gloo give the gradients of one process."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.filterwarnings("ignore")
WORLD = 2


def make_model():
    import fusednorm

    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16),
        torch.nn.LayerNorm(16),
        torch.nn.Linear(16, 4),
        torch.nn.LayerNorm(4),
    )
    return fusednorm.convert(model)


def gradients_of_one_process(batch):
    model = make_model()
    model(batch).square().mean().backward()
    return [p.grad for p in model.parameters()]


def worker(rank, wrapper, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    try:
        batch = torch.randn(6 * WORLD, 8, generator=torch.Generator().manual_seed(9))
        expected = gradients_of_one_process(batch)
        model = make_model()
        if wrapper == "ddp":
            wrapped = DistributedDataParallel(model)
        else:
            mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))
            fully_shard(model[1], mesh=mesh)
            wrapped = fully_shard(model, mesh=mesh)
        wrapped(batch.chunk(WORLD)[rank]).square().mean().backward()
        for parameter, gradient in zip(wrapped.parameters(), expected, strict=True):
            actual = parameter.grad
            actual = actual.full_tensor() if isinstance(actual, DTensor) else actual
            torch.testing.assert_close(actual, gradient, rtol=1e-4, atol=1e-5)
    finally:
        dist.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp2"])
def test_two_processes(wrapper):
    mp.spawn(worker, (wrapper, free_port()), nprocs=WORLD)
