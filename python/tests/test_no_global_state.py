# SPDX-License-Identifier: Apache-2.0
"""No global state: nothing of ours in the library can be written to once it is loaded."""

import re
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import cuda_device
import fusednorm
import fusednorm._load
import reference

# Mutable symbols that may be there, and why each is no state of a computation.
ALLOWED = {
    r"guard variable for .*": "set once, when the constant it guards is built",
    r".*handle<.*>\(\)::handle": "const: the dispatcher's entry of an operator, found once",
    r".*machine\(\)::device": "const: caches and instruction set of this machine, asked for once",
    r".*TORCH_LIBRARY.*static_init.*": "registration with PyTorch, done when the library is loaded",
    r"std::.*": "of the C++ library's headers",
    r"(c10|at|torch|caffe2|nlohmann|fmt)::.*": "of PyTorch's headers",
    r"typeinfo .*|vtable .*|VTT .*|construction vtable.*": "written by the loader alone",
    r"DW\.ref\..*|.*_array_entry": "exceptions and start-up: the compiler's own",
    r"__device_stub__.*::__(handle|tmp)": "nvcc's own: a kernel's entry in the runtime, set once",
    r"__cudaFatCubinHandle|__fatDeviceText": "nvcc's own: registration when the library is loaded",
    r"__dso_handle|_edata|_end|__bss_start|completed\.0|__TMC_END__": "the linker's own",
    r"hwy::.*": "Highway's table of instruction sets, found once",
}
STATE = re.compile(r"^[0-9a-f]+ (?:[0-9a-f]+ )?([bBdDuvVgGsS]) (.*)$")


def mutable_symbols(library):
    """Names in .data, .bss and their thread-local kin; constants and code are left out."""
    listing = subprocess.run(
        ["nm", "-C", library], capture_output=True, text=True, check=True
    ).stdout
    sections = sections_of(library)
    for line in listing.splitlines():
        match = STATE.match(line)
        if match and section_at(sections, int(line.split()[0], 16)) in (
            ".data",
            ".bss",
            ".tbss",
            ".tdata",
        ):
            yield match[2]


def sections_of(library):
    text = subprocess.run(
        ["readelf", "-SW", library], capture_output=True, text=True, check=True
    ).stdout
    rows = re.findall(r"\] (\.\S+)\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", text)
    return [(name, int(start, 16), int(size, 16)) for name, start, size in rows]


def section_at(sections, address):
    for name, start, size in sections:
        if start <= address < start + max(size, 1) and start:
            return name
    return ""


def library_with_symbols():
    library = str(fusednorm._load.LIBRARY)
    listing = subprocess.run(["nm", library], capture_output=True, text=True).stdout
    if not listing.strip():
        pytest.skip("the library is stripped; build with install.strip=false to see its symbols")
    return library


def test_the_library_holds_no_mutable_data_of_ours():
    assert shutil.which("nm"), "this test reads symbols: it needs binutils"
    found = set(mutable_symbols(library_with_symbols()))
    assert any("handle" in name for name in found), "the scan must see what is known to be there"
    unexplained = sorted(n for n in found if not any(re.fullmatch(p, n) for p in ALLOWED))
    assert unexplained == []


def test_no_thread_local_data_of_ours():
    listing = subprocess.run(
        ["readelf", "-sWC", library_with_symbols()], capture_output=True, text=True, check=True
    ).stdout
    defined = [line for line in listing.splitlines() if " TLS " in line and " UND " not in line]
    local = {line.split(maxsplit=7)[7] for line in defined}
    # PyTorch's headers bring one flag, "this thread has set its number of threads"
    assert all(re.match(r"(at|c10)::", name) for name in local), local


def test_two_devices_worth_of_plans_at_once():
    """Plans for machines of one and of eight threads, in flight together: bits as if alone."""
    operators = torch.ops.fusednorm
    problems = [
        (torch.randn(rows, cols), torch.randn(cols)) for rows, cols in [(2000, 300), (3, 90000)]
    ]

    def results_of(x, weight):
        shape = tuple(weight.shape)
        y, mean, rstd = operators.layer_norm_forward(x, shape, weight)
        mask = (True, True, False)
        gradients = operators.layer_norm_backward(y, x, shape, mean, rstd, weight, None, mask)
        fake = operators.layer_norm_forward(x.to("meta"), shape, weight.to("meta"))
        assert fake[0].device.type == "meta"
        return [y, mean, rstd, *gradients[:2]]

    alone = [results_of(*problem) for problem in problems]
    start = threading.Barrier(4)
    before = torch.get_num_threads()

    def work(index):
        problem, expected = problems[index % 2], alone[index % 2]
        start.wait()
        for turn in range(10):
            torch.set_num_threads((1, 8)[(index // 2 + turn) % 2])
            results = results_of(*problem)
            assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))

    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    finally:
        torch.set_num_threads(before)


@pytest.mark.cuda
@pytest.mark.skipif(not cuda_device.HAS_TWO, reason=cuda_device.NO_TWO)
def test_two_gpus_at_once():
    inputs = [torch.randn(512, 768).to(f"cuda:{i}") for i in (0, 1)]
    with torch.cuda.device(0):  # the tensor's device counts, not the current one
        outputs = [fusednorm.layer_norm(x, (768,)) for x in inputs]
    for x, y in zip(inputs, outputs):
        assert y.device == x.device
        reference.forward(x, 1, None, None, 1e-5).check(y, "y")
