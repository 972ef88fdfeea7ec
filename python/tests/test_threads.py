# SPDX-License-Identifier: Apache-2.0
"""Many threads at once, and any number of threads inside: the same bits."""

import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import fusednorm

SHAPES = [(2, 4), (300, 768), (5, 40000), (4000, 64)]


def run(shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    x, dy = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    w, b = (torch.randn(shape[-1], generator=generator) for _ in range(2))
    leaves = [t.requires_grad_() for t in (x, w, b)]
    y = fusednorm.layer_norm(x, shape[-1:], w, b)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def test_eight_threads_calling_at_once():
    expected = {shape: run(shape) for shape in SHAPES}
    jobs = [SHAPES[i % len(SHAPES)] for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        for shape, result in zip(jobs, pool.map(run, jobs)):
            assert all(torch.equal(a, b) for a, b in zip(result, expected[shape]))


def test_results_do_not_depend_on_the_number_of_threads():
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            results.append([run(s, d) for s in SHAPES for d in (torch.float32, torch.bfloat16)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for left, right in zip(results[0], other):
            assert all(torch.equal(a, b) for a, b in zip(left, right))


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="a Python with the GIL; make test-free-threaded runs it",
)
def test_the_gil_stays_off():
    """An extension module that does not say it can do without switches it on for all.

    Packages of other tests do so: in a process of its own.
    """
    code = "import torch, fusednorm, sys; sys.exit(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
