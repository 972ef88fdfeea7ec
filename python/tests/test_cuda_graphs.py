# SPDX-License-Identifier: Apache-2.0
"""Capture into a torch.cuda.CUDAGraph, and replay."""

import pytest
import torch

import cuda_device
import fusednorm
from cuda_problem import OnDevice, Problem

pytestmark = [*cuda_device.marks, pytest.mark.filterwarnings("error:The CUDA Graph is empty")]
OPS = torch.ops.fusednorm


def capture(work, **options):
    """Return the graph of work(), and its outputs in the graph's private pool."""
    work()  # what a first call sets up is not part of the graph
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        outputs = work()
    return graph, outputs


def fill(there: OnDevice, problem: Problem) -> None:
    """Put new data into the memory that a graph reads."""
    with torch.no_grad():
        for target, source in zip((there.x, there.w, there.b, there.dy), problem.arguments):
            target.copy_(source)


@pytest.mark.parametrize("rows", [40, 3000], ids=["one kernel", "with a workspace"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_forward_and_backward_are_captured_and_replayed(rows, dtype):
    problems = [Problem(rows, 64, dtype) for _ in range(3)]
    there = problems[0].on("cuda")
    graph, outputs = capture(there.run)
    for problem in problems[::-1]:
        fill(there, problem)
        graph.replay()
        torch.cuda.synchronize()
        problem.check(outputs)
        eager = there.run()
        assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(outputs, eager))


def test_captured_work_does_not_run():
    x = torch.randn(8, 32).to("cuda")
    y = torch.randn(8, 32).to("cuda")
    before = y.cpu()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.copy_(fusednorm.layer_norm(x, (32,)))
    assert torch.equal(y.cpu(), before)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), fusednorm.layer_norm(x, (32,)).cpu())


def test_memory_efficient_form_in_a_graph():
    x, dy = (torch.randn(50, 96).to("cuda") for _ in range(2))
    w = torch.rand(96).add(0.5).to("cuda")

    def work():
        y, rstd = OPS.layer_norm_memory_efficient_forward(x, (96,), w, None)
        return [
            y,
            *OPS.layer_norm_memory_efficient_backward(
                dy, y, (96,), rstd, w, None, [True, True, False]
            )[:2],
        ]

    graph, outputs = capture(work)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(outputs, work()))


def test_two_graphs_share_a_pool():
    """In the order of their capture, the second over memory that the first one's workspace had."""
    problems = [Problem(rows=2000, cols=cols) for cols in (64, 96)]
    there = [problem.on("cuda") for problem in problems]
    pool = torch.cuda.graph_pool_handle()
    graphs, outputs = zip(*(capture(one.run, pool=pool) for one in there))
    for graph in graphs:
        graph.replay()
    torch.cuda.synchronize()
    for problem, results in zip(problems, outputs):
        problem.check(results)


def test_a_capture_over_two_streams():
    """A fork and its join become edges of the graph."""
    problems = [Problem(rows=300, cols=cols) for cols in (64, 96)]
    there = [problem.on("cuda") for problem in problems]
    side = torch.cuda.Stream()

    def work():
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            second = there[1].run()
        first = there[0].run()
        main.wait_stream(side)
        return first, second

    graph, outputs = capture(work)
    graph.replay()
    torch.cuda.synchronize()
    for problem, results in zip(problems, outputs):
        problem.check(results)


@pytest.mark.skipif(not cuda_device.HAS_TWO, reason=cuda_device.NO_TWO)
def test_capture_on_the_second_device():
    problem = Problem(rows=100)
    there = problem.on("cuda:1")
    with torch.cuda.device(1):
        graph, outputs = capture(there.run, stream=torch.cuda.Stream())
        graph.replay()
        torch.cuda.synchronize()
    problem.check(outputs)


def test_a_launch_that_fails_is_an_exception_with_our_sentence():
    """A capture that is broken already refuses the launch, on any device."""
    x = torch.randn(8, 32).to("cuda")
    fusednorm.layer_norm(x, (32,))
    torch.cuda.synchronize()

    def broken():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            with pytest.raises(RuntimeError, match="captur"):
                torch.cuda.synchronize()
            with pytest.raises(
                RuntimeError, match=r"layer_norm: .*cudaErrorStreamCaptureInvalidated \("
            ):
                fusednorm.layer_norm(x, (32,))

    with pytest.raises(RuntimeError, match="captur"):
        broken()
    # The error was that call's alone.
    y = fusednorm.layer_norm(x, (32,))
    torch.testing.assert_close(y.cpu(), torch.nn.functional.layer_norm(x.cpu(), (32,)))
