"""DDP, FSDP2 and DTensor on two processes over gloo give the results of one process."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
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
        if wrapper == "dtensor":
            check_dtensor()
        else:
            check_data_parallel(wrapper, rank)
        dist.barrier()  # neither process hangs up while the other still reads
    finally:
        dist.destroy_process_group()
    # Gloo's threads may still drop Python objects while the interpreter shuts down, which aborts
    # the process now and then (seen once, with nothing printed). That is not what is tested here.
    os._exit(0)


def check_data_parallel(wrapper, rank):
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


def check_dtensor():
    """Sequence parallel: the input sharded over its second dimension, parameters replicated."""
    import fusednorm
    import fusednorm.distributed

    mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))
    generator = torch.Generator().manual_seed(5)
    x, dy = (torch.randn(3, 8, 16, generator=generator) for _ in range(2))
    w, b = (torch.randn(16, generator=generator) for _ in range(2))
    functions = [fusednorm.layer_norm, fusednorm.functional.memory_efficient_layer_norm]
    for function in functions:
        leaves = [t.clone().requires_grad_() for t in (x, w, b)]
        y = function(leaves[0], (16,), *leaves[1:])
        y.backward(dy)
        sharded = [
            distribute_tensor(t, mesh, [placement]).requires_grad_()
            for t, placement in ((x, Shard(1)), (w, Replicate()), (b, Replicate()))
        ]
        z = function(sharded[0], (16,), *sharded[1:])
        assert z.placements == (Shard(1),), "the rows stay where they are"
        assert torch.equal(z.full_tensor(), y)
        z.backward(distribute_tensor(dy, mesh, [Shard(1)]))
        for local, leaf in zip(leaves, sharded):
            torch.testing.assert_close(leaf.grad.full_tensor(), local.grad, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            assert torch.equal(function(sharded[0], (16,)).full_tensor(), function(x, (16,)))


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp2", "dtensor"])
def test_two_processes(wrapper, capsys):
    if wrapper == "fsdp2" and not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("fully_shard on the CPU needs torch.cpu.Stream.record_event, not in this torch")
    try:
        mp.spawn(worker, (wrapper, free_port()), nprocs=WORLD)
    except mp.ProcessExitedException as crash:
        # Wrong results raise another exception. A process that dies of a signal was seen once in
        # some fifty runs, in a process that had passed its checks; twice in a row is no accident.
        with capsys.disabled():
            print(f"\ntest_two_processes[{wrapper}]: {crash}; once more")
        mp.spawn(worker, (wrapper, free_port()), nprocs=WORLD)
