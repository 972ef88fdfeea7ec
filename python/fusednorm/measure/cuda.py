# SPDX-License-Identifier: Apache-2.0
"""Time on a CUDA device: events around calls over a flushed L2, and replays of a captured graph.

The device is reached through ``Device``, so that the logic runs in tests without one.
"""

from typing import Any, Protocol

import torch

from fusednorm.measure.timing import Action

# Below this many bytes a launch takes longer than the kernel: time a graph of calls as well.
GRAPH_BYTES = 8 << 20
CALLS_IN_GRAPH = 20
# Events of that many calls are in flight before the host waits: enough to keep the device busy.
CALLS_IN_FLIGHT = 32


class Device(Protocol):
    """What a clock asks of a device."""

    def event(self) -> Any:
        """Return an event with ``record()`` and ``elapsed_time(later)`` in milliseconds."""
        ...

    def synchronize(self) -> None:
        """Wait until all work is done."""
        ...

    def flush(self) -> None:
        """Put other data into the L2 cache, in the order of the stream."""
        ...


class CudaDevice:
    """The device of torch, and a buffer twice the size of its L2."""

    def __init__(self, name: str) -> None:
        self.name = torch.device(name)
        size = torch.cuda.get_device_properties(self.name).L2_cache_size
        self.ballast = torch.empty(2 * size, dtype=torch.uint8, device=self.name)

    def event(self) -> Any:
        """Return a timing event."""
        return torch.cuda.Event(enable_timing=True)

    def synchronize(self) -> None:
        """Wait until all work is done."""
        torch.cuda.synchronize(self.name)

    def flush(self) -> None:
        """Write the ballast."""
        self.ballast.zero_()


class EventClock:
    """Times each call between two events; with ``flush`` what it reads is not in the L2."""

    def __init__(self, device: Device, flush: bool) -> None:
        self.device = device
        self.flush = flush

    def time(self, action: Action, repeats: int) -> float:
        """Return the mean seconds of ``repeats`` calls, flushes not counted."""
        total = 0.0
        for start in range(0, repeats, CALLS_IN_FLIGHT):
            pairs = []
            for _ in range(min(CALLS_IN_FLIGHT, repeats - start)):
                if self.flush:
                    self.device.flush()
                begin, end = self.device.event(), self.device.event()
                begin.record()
                action()
                end.record()
                pairs.append((begin, end))
            self.device.synchronize()
            total += sum(begin.elapsed_time(end) for begin, end in pairs) * 1e-3
        return total / repeats


class GraphClock:
    """Times replays of a graph of ``CALLS_IN_GRAPH`` calls: the kernels without their launches."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def time(self, action: Action, repeats: int) -> float:
        """Return the seconds of one call inside ``repeats`` replays; ``action`` is a replay."""
        begin, end = self.device.event(), self.device.event()
        begin.record()
        for _ in range(repeats):
            action()
        end.record()
        self.device.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3 / repeats / CALLS_IN_GRAPH


def captured(action: Action) -> Action:
    """Return the replay of a graph of ``CALLS_IN_GRAPH`` calls of ``action``."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # lazy initialisation must not be captured
        for _ in range(3):
            action()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS_IN_GRAPH):
            action()
    return graph.replay
