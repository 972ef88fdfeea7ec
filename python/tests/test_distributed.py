# SPDX-License-Identifier: Apache-2.0
"""DDP, FSDP2 and DTensor on two processes over gloo give the results of one process."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import torch_features

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
        elif wrapper == "dtensor of the family":
            check_dtensor_of_the_family()
        elif wrapper == "dtensor in place":
            check_dtensor_in_place()
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


def check_sharded(function, tensors, placements, gradients, expected):
    """Hold function(*tensors) and its gradients on DTensors against those of one process.

    ``expected`` is how the gradient of each tensor is placed.
    """
    mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))
    leaves = [t.clone().requires_grad_() for t in tensors]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.autograd.backward(outputs[: len(gradients)], gradients)
    sharded = [
        distribute_tensor(t, mesh, [p]).requires_grad_()
        for t, p in zip(tensors, placements, strict=True)
    ]
    results = function(*sharded)
    results = results if isinstance(results, tuple) else (results,)
    for result, output in zip(results, outputs, strict=True):
        assert result.placements == (placements[0],), "the rows stay where they are"
        assert torch.equal(result.full_tensor(), output)
    torch.autograd.backward(
        results[: len(gradients)],
        [distribute_tensor(g, mesh, [placements[0]]) for g in gradients],
    )
    for local, leaf, placement in zip(leaves, sharded, expected, strict=True):
        assert leaf.grad.placements == (placement,), leaf.grad.placements
        torch.testing.assert_close(leaf.grad.full_tensor(), local.grad, rtol=1e-4, atol=1e-5)


def check_dtensor_of_the_family():
    """Sequence parallel with residuals, and heads sharded with their parameters."""
    import fusednorm
    import fusednorm.distributed

    generator = torch.Generator().manual_seed(5)

    def make(*shape):
        return torch.randn(shape, generator=generator)

    rows, whole, total = Shard(1), Replicate(), Partial()
    x, r, dy, ds = (make(3, 8, 16) for _ in range(4))
    w, b = make(16).add(3), make(16)
    for norm in (
        lambda x, w, b: fusednorm.rms_norm(x, (16,), w, 1e-5, bias=b, offset=1.0),
        lambda x, w, b: fusednorm.layer_norm(x, (16,), w, b, offset=1.0),
        lambda x, w, b: fusednorm.functional.memory_efficient_rms_norm(x, (16,), w, 1e-5, bias=b),
    ):
        check_sharded(norm, (x, w, b), (rows, whole, whole), (dy,), (rows, total, total))
    for add in (
        lambda x, r, w, b: fusednorm.add_rms_norm(x, r, (16,), w, 1e-5, bias=b),
        lambda x, r, w, b: fusednorm.add_layer_norm(x, r, (16,), w, b),
    ):
        for gradients in ((dy,), (dy, ds)):
            check_sharded(
                add, (x, r, w, b), (rows, rows, whole, whole), gradients, (rows, rows, total, total)
            )
    # Of the sum alone: the parameters have no gradient. Of an f32 residual beside bf16.
    mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))
    wide, narrow = (distribute_tensor(t, mesh, [rows]).requires_grad_() for t in (r, x.bfloat16()))
    y, s = fusednorm.add_rms_norm(narrow, wide, (16,))
    torch.autograd.backward(
        (y, s), [distribute_tensor(t, mesh, [rows]) for t in (dy.bfloat16(), ds)]
    )
    assert (narrow.grad.dtype, wide.grad.dtype) == (torch.bfloat16, torch.float32)
    # Heads of tensor parallelism: rows of a head never meet those of another.
    q, dq, table = make(5, 4, 16), make(5, 4, 16), make(4, 16)
    heads = Shard(1)
    for norm in (
        lambda x, w: fusednorm.rms_norm(x, (16,), w, 1e-5),
        lambda x, w: fusednorm.layer_norm(x, (16,), w),
    ):
        check_sharded(norm, (q, table), (heads, Shard(0)), (dq,), (heads, Shard(0)))
        check_sharded(norm, (q, table), (Shard(0), whole), (dq,), (Shard(0), total))
    # A mesh of two dimensions, with every subset of the gradients.
    plane = dist.device_mesh.init_device_mesh("cpu", (WORLD, 1))
    for wanted in range(1, 16):
        both, none = [Shard(0), Shard(1)], [Replicate(), Replicate()]
        tensors = (make(4, 8, 16), make(4, 8, 16), w, b)
        leaves = [
            distribute_tensor(t, plane, place).requires_grad_(bool(wanted >> i & 1))
            for i, (t, place) in enumerate(zip(tensors, (both, both, none, none)))
        ]
        y, _ = fusednorm.add_layer_norm(leaves[0], leaves[1], (16,), *leaves[2:])
        y.backward(distribute_tensor(tensors[0], plane, both))
        assert [leaf.grad is not None for leaf in leaves] == [
            bool(wanted >> i & 1) for i in range(4)
        ]


def check_dtensor_in_place():
    import fusednorm
    import fusednorm.distributed

    generator = torch.Generator().manual_seed(5)
    x, r, w = (torch.randn(shape, generator=generator) for shape in ((3, 8, 16), (3, 8, 16), (16,)))
    mesh = dist.device_mesh.init_device_mesh("cpu", (WORLD,))
    with torch.no_grad():
        y, s = fusednorm.add_rms_norm(x, r, (16,), w)
        first, second = (distribute_tensor(t.clone(), mesh, [Shard(1)]) for t in (x, r))
        fusednorm.add_rms_norm_(first, second, (16,), distribute_tensor(w, mesh, [Replicate()]))
        assert torch.equal(first.full_tensor(), y)
        assert torch.equal(second.full_tensor(), s)


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize(
    "wrapper", ["ddp", "fsdp2", "dtensor", "dtensor of the family", "dtensor in place"]
)
def test_two_processes(wrapper, capsys):
    if wrapper == "fsdp2":
        torch_features.needs_events_of_cpu_streams()
    if wrapper == "dtensor in place":
        torch_features.needs_dtensor_for_operators_without_results()
    try:
        mp.spawn(worker, (wrapper, free_port()), nprocs=WORLD)
    except mp.ProcessExitedException as crash:
        # Wrong results raise another exception. A process that dies of a signal was seen once in
        # some fifty runs, in a process that had passed its checks; twice in a row is no accident.
        with capsys.disabled():
            print(f"\ntest_two_processes[{wrapper}]: {crash}; once more")
        mp.spawn(worker, (wrapper, free_port()), nprocs=WORLD)
