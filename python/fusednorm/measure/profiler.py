# SPDX-License-Identifier: Apache-2.0
"""The table of the request: torch.profiler's view of one contestant, operator by operator."""

from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from fusednorm.measure.quiet import stderr_closed
from fusednorm.measure.text import duration, percent
from fusednorm.measure.timing import Action

CALLS = 5
# Rows below this share of the whole are left out: they are the bookkeeping of the engine.
LEAST_SHARE = 0.01
MOST_ROWS = 12
# The engine wraps each node in a row of this name with the same times.
WRAPPER = "autograd::engine::evaluate_function: "


@dataclass
class Line:
    """An operator: seconds a call of the contestant, what it calls included in the totals."""

    name: str
    self_cpu: float
    cpu_total: float
    device_total: float
    calls: float
    share: float


def lines(action: Action, device: str) -> list[Line]:
    """Profile ``action``, and return its operators, the longest first."""
    cuda = device.startswith("cuda")
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * cuda
    action()
    with stderr_closed(), profile(activities=activities) as profiler:
        for _ in range(CALLS):
            action()
        if cuda:
            torch.cuda.synchronize(device)
    events = [e for e in profiler.key_averages() if not e.key.startswith(WRAPPER)]
    if cuda:
        whole = sum(e.self_device_time_total for e in events)
    else:
        whole = sum(e.self_cpu_time_total for e in events)
    found = []
    for e in events:
        total = e.device_time_total if cuda else e.cpu_time_total
        scale = 1e-6 / CALLS
        share = total / whole if whole else 0.0
        found.append(
            Line(
                e.key,
                e.self_cpu_time_total * scale,
                e.cpu_time_total * scale,
                e.device_time_total * scale,
                e.count / CALLS,
                share,
            )
        )
    found = [line for line in found if line.share >= LEAST_SHARE]
    return sorted(found, key=lambda line: -line.share)[:MOST_ROWS]


def as_cells(found: list[Line], cuda: bool) -> tuple[list[str], list[list[str]]]:
    """Return header and rows in the columns of the request."""
    header = ["name", "self CPU", "CPU total", *(["device total"] * cuda), "calls", "share"]
    rows = [
        [
            line.name if len(line.name) <= 48 else line.name[:45] + "...",
            duration(line.self_cpu),
            duration(line.cpu_total),
            *([duration(line.device_total)] * cuda),
            f"{line.calls:g}",
            percent(line.share),
        ]
        for line in found
    ]
    return header, rows


def compiled_kernels(found: list[Line]) -> int | None:
    """Count the kernels that torch.compile generated for the CPU, which it names ..._cpp_...."""
    calls = sum(line.calls for line in found if "_cpp_" in line.name)
    return round(calls) or None
