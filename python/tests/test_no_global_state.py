"""No global state: nothing of ours in the library can be written to once it is loaded."""

import re
import shutil
import subprocess

import pytest
import torch

import fusednorm
import fusednorm._load

# Mutable symbols that may be there, and why each is no state of a computation.
ALLOWED = {
    r"guard variable for .*": "set once, when the constant it guards is built",
    r".*_handle\(\)::handle": "const: the dispatcher's entry of an operator, found once",
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
    """Problems for machines of one and of eight threads, and fake GPUs, in turns: same bits."""
    x = torch.randn(2000, 300)
    w = torch.randn(300)
    before = torch.get_num_threads()
    results = []
    try:
        for _ in range(3):
            for threads in (1, 8):
                torch.set_num_threads(threads)
                results.append(torch.ops.fusednorm.layer_norm_forward(x, (300,), w))
            meta = torch.ops.fusednorm.layer_norm_forward(x.to("meta"), (300,), w.to("meta"))
            assert meta[0].device.type == "meta"
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_gpus_at_once():
    inputs = [torch.randn(512, 768, device=f"cuda:{i}") for i in (0, 1)]
    with torch.cuda.device(0):  # the tensor's device counts, not the current one
        outputs = [fusednorm.layer_norm(x, (768,)) for x in inputs]
    for x, y in zip(inputs, outputs):
        assert y.device == x.device
        torch.testing.assert_close(y, torch.nn.functional.layer_norm(x, (768,)))
