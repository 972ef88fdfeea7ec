# SPDX-License-Identifier: Apache-2.0
"""How time is taken: turns, statistics, and the CUDA clocks on a device made of numbers."""

import itertools
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from fusednorm.measure import buffers, cuda, timing


class FakeClock:
    """Runs the action, and lets it last what it returns."""

    def __init__(self):
        self.now = 0.0
        self.turns = []

    def time(self, action, repeats):
        name, seconds = action()
        self.turns.append((name, repeats))
        self.now += seconds * repeats
        return seconds


def test_every_action_has_one_turn_a_round_and_follows_every_other():
    clock = FakeClock()
    actions = {n: (lambda n=n: (n, 0.01)) for n in "abc"}
    samples = timing.take_turns(actions, clock, seconds=0.3, now=lambda: clock.now)
    turns = [name for name, _ in clock.turns[6:]]  # behind two warm-up calls each
    rounds = [turns[i : i + 3] for i in range(0, len(turns), 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    followed = set(itertools.pairwise(turns))
    assert {(a, b) for a in "abc" for b in "abc" if a != b} <= followed
    assert len(rounds) == 10, "0.3 s of rounds that last 0.03 s"
    assert all(len(s.seconds) == 10 for s in samples.values())


def test_slow_actions_have_the_least_rounds_and_fast_ones_are_repeated():
    clock = FakeClock()
    actions = {"slow": lambda: ("slow", 9.0), "fast": lambda: ("fast", 1e-5)}
    samples = timing.take_turns(actions, clock, seconds=0.1, now=lambda: clock.now)
    assert len(samples["slow"].seconds) == timing.LEAST_ROUNDS
    assert dict(clock.turns[4:]) == {"slow": 1, "fast": 100}  # a turn of a millisecond


def test_one_outlier_moves_neither_median_nor_spread():
    quiet = timing.Samples([1.0, 1.1, 0.9, 1.0, 1.0])
    noisy = timing.Samples([1.0, 1.1, 0.9, 1.0, 50.0])
    assert quiet.median == noisy.median == 1.0
    assert noisy.spread == pytest.approx(0.05)
    assert noisy.best == 0.9


def test_preparation_is_not_timed():
    def prepare():
        time.sleep(0.02)

    assert timing.PreparingClock(prepare).time(lambda: None, 3) < 0.02


@pytest.mark.skipif(not buffers.can_choose(), reason="this C library has no mallopt; glibc has")
def count_faults() -> None:
    pages = (64 << 20) // resource.getpagesize()

    def faults(kind, clock):
        with buffers.outputs("warm"):  # leaves a hole that the next output would fit
            hole = [torch.ones(16 << 20), torch.ones(1 << 10)]
            del hole[0]
        with buffers.outputs(kind, reserve=512 << 20):
            clock.time(lambda: torch.ones(16 << 20), 2)  # as take_turns warms up
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            clock.time(lambda: torch.ones(16 << 20), 6)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        return (after - before) / 6

    assert faults("warm", timing.HostClock()) < 0.1 * pages
    assert faults("fresh", timing.PreparingClock(buffers.release)) > 0.9 * pages
    assert faults("warm", timing.HostClock()) < 0.1 * pages


def test_fresh_outputs_fault_and_warm_ones_do_not():
    # A process of its own: memory that other tests asked huge pages for faults 512 pages at once.
    code = "import test_measure_timing; test_measure_timing.count_faults()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


class FakeEvent:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.at = self.device.now

    def elapsed_time(self, later):
        assert self.device.synchronized, "an event was read before the device had finished"
        return (later.at - self.at) * 1e3


class FakeDevice:
    """A stream whose time is a number: flushes and kernels advance it."""

    def __init__(self):
        self.now = 0.0
        self.flushes = 0
        self.synchronized = False

    def event(self):
        return FakeEvent(self)

    def synchronize(self):
        self.synchronized = True

    def flush(self):
        self.flushes += 1
        self.now += 7.0

    def kernel(self):
        self.synchronized = False
        self.now += 0.25


@pytest.mark.parametrize("flush", [True, False])
def test_events_leave_the_flushes_out(flush):
    device = FakeDevice()
    clock = cuda.EventClock(device, flush)
    assert clock.time(device.kernel, 70) == pytest.approx(0.25)
    assert device.flushes == (70 if flush else 0)


def test_a_replay_is_divided_among_its_calls():
    device = FakeDevice()

    def replay():
        for _ in range(cuda.CALLS_IN_GRAPH):
            device.kernel()

    assert cuda.GraphClock(device).time(replay, 3) == pytest.approx(0.25)
