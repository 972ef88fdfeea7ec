# SPDX-License-Identifier: Apache-2.0
"""Devices, streams and threads: where the kernels run and whose memory they use."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import cuda_device
import fusednorm
from cuda_problem import Problem

pytestmark = cuda_device.marks
two_devices = pytest.mark.skipif(not cuda_device.HAS_TWO, reason=cuda_device.NO_TWO)
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("current", "tensors"), [(0, 0), (0, 1), (1, 0)])
@two_devices
def test_the_device_of_the_tensors_counts(current, tensors, dtype):
    """And the current device of the thread is the same afterwards."""
    problem = Problem(rows=40, dtype=dtype)
    with torch.cuda.device(current):
        results = problem.on(f"cuda:{tensors}").run()
        assert torch.cuda.current_device() == current
    assert {t.device.index for t in results} == {tensors}
    problem.check(results)


@two_devices
def test_two_devices_at_once():
    problems = [Problem(rows=200, cols=cols) for cols in (129, 768)]

    def work(index):
        return [problems[index].on(f"cuda:{index}").run() for _ in range(3)]

    with ThreadPoolExecutor(2) as pool:
        for problem, results in zip(problems, pool.map(work, range(2))):
            for one in results:
                problem.check(one)


@two_devices
def test_arguments_on_two_devices_are_refused():
    x, w = torch.randn(4, 8).to("cuda:0"), torch.randn(8).to("cuda:1")
    with pytest.raises(RuntimeError, match=r"weight.*cuda:0.*cuda:1"):
        fusednorm.layer_norm(x, (8,), w)


@two_devices
def test_a_module_moves_between_devices():
    norm = fusednorm.LayerNorm(48)
    x, dy = torch.randn(7, 48), torch.randn(7, 48)
    norm(x).backward(dy)
    expected = [norm(x).detach(), norm.weight.grad, norm.bias.grad]
    for device in ("cuda:1", "cuda:0"):
        norm.zero_grad()
        norm.to(device)
        y = norm(x.to(device))
        y.backward(dy.to(device))
        for ours, cpu in zip((y.detach(), norm.weight.grad, norm.bias.grad), expected):
            assert ours.device == torch.device(device)
            torch.testing.assert_close(ours.cpu(), cpu)


def test_a_stream_that_is_not_the_default():
    problem = Problem()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        results = problem.on("cuda").run()
    stream.synchronize()
    problem.check(results)


def test_two_streams_at_once():
    """Enqueued alternately by one thread, then by two: neither waits, neither disturbs."""
    problems = [Problem(rows=500, cols=cols) for cols in (96, 1000)]
    streams = [torch.cuda.Stream() for _ in problems]
    there = [problem.on("cuda") for problem in problems]
    torch.cuda.synchronize()

    def work(index):
        with torch.cuda.stream(streams[index]):
            return there[index].run()

    alternately = [(index, work(index)) for _ in range(2) for index in range(2)]
    with ThreadPoolExecutor(2) as pool:
        together = list(enumerate(pool.map(work, range(2))))
    torch.cuda.synchronize()
    for index, results in alternately + together:
        problems[index].check(results)


def test_backward_runs_on_the_device_thread_of_autograd():
    """There it has the stream of the forward pass, as PyTorch's own operators do."""
    problem = Problem(rows=33)
    there = problem.on("cuda")
    seen = []
    there.x.register_hook(
        lambda dx: seen.append((threading.get_ident(), torch.cuda.current_stream(), dx))
    )
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = fusednorm.layer_norm(there.x, (257,), there.w, there.b)
    torch.cuda.current_stream().wait_stream(stream)
    y.backward(there.dy)
    torch.cuda.synchronize()
    ((thread, current, dx),) = seen
    assert thread != threading.get_ident()
    assert current == stream
    problem.check([y.detach(), dx, there.w.grad, there.b.grad])


def allocations(work):
    """Return what the caching allocator gave to work(): (address, bytes, stream) each."""
    torch.cuda.memory._record_memory_history(max_entries=10000, context=None)
    try:
        work()
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    return [(e["addr"], e["size"], e["stream"]) for e in trace if e["action"] == "alloc"]


def test_the_workspace_belongs_to_the_stream_of_the_call():
    """A block that one stream gave back may still be in use there: another must not get it.

    The allocator keeps a pool a stream, so all rests on the workspace being asked for on the stream
    that the kernels run on. Outputs live on; what the second stream gets must not overlap with
    anything that the first has used and given back meanwhile.
    """
    problem = Problem(rows=3000, cols=64)  # long columns: partial sums in a workspace
    there = problem.on("cuda")
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(2)]
    results, used = [], []
    for stream in streams:

        def work(stream=stream):
            with torch.cuda.stream(stream):
                results.append(there.run())

        used.append(allocations(work))
    for stream, blocks in zip(streams, used):
        assert len(blocks) > len(results[0]) + 2, "no workspace: this problem tests nothing"
        assert {owner for _, _, owner in blocks} == {stream.cuda_stream}
    for begin, size, _ in used[0]:
        assert all(begin + size <= b or b + s <= begin for b, s, _ in used[1])
    torch.cuda.synchronize()
    for one in results:
        problem.check(one)
