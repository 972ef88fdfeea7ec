# SPDX-License-Identifier: Apache-2.0
"""How time is taken: contestants in turns, round after round, so that a busy machine slows all."""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Action = Callable[[], object]

# A measurement lasts at least this long, so that the clock and a cold start do not count: as in
# the C++ bench.
LEAST_SECONDS = 1e-3
LEAST_ROUNDS = 5
MOST_REPEATS = 100_000


class Clock(Protocol):
    """Times calls on a device."""

    def time(self, action: Action, repeats: int) -> float:
        """Return the seconds of one of ``repeats`` calls."""
        ...


class HostClock:
    """The processor's clock, for work that is done when the call returns."""

    def time(self, action: Action, repeats: int) -> float:
        """Return the seconds of one of ``repeats`` calls."""
        begin = time.perf_counter()
        for _ in range(repeats):
            action()
        return (time.perf_counter() - begin) / repeats


class PreparingClock:
    """The processor's clock, stopped while each call is prepared for."""

    def __init__(self, prepare: Action) -> None:
        self.prepare = prepare

    def time(self, action: Action, repeats: int) -> float:
        """Return the mean seconds of ``repeats`` calls, what prepares them not counted."""
        total = 0.0
        for _ in range(repeats):
            self.prepare()
            begin = time.perf_counter()
            action()
            total += time.perf_counter() - begin
        return total / repeats


@dataclass
class Samples:
    """Seconds a call, one sample a round."""

    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The shortest sample."""
        return min(self.seconds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, relative to the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def take_turns(
    actions: Mapping[str, Action],
    clock: Clock,
    seconds: float,
    now: Callable[[], float] = time.perf_counter,
) -> dict[str, Samples]:
    """Time every action once a round, in an order of chance, for ``seconds``.

    In a fixed order an action would always follow the same other one, and find in the cache what
    that one left there: arrays of 16 to 32 MB were up to 25 % faster behind a copy than behind
    torch's RMSNorm.
    """
    repeats = {}
    for name, action in actions.items():
        clock.time(action, 1)  # warm-up: caches, thread pools, lazy initialisation
        once = max(clock.time(action, 1), 1e-7)
        repeats[name] = int(min(max(LEAST_SECONDS / once, 1), MOST_REPEATS))
    samples = {name: Samples() for name in actions}
    order = list(actions)
    chance = random.Random(len(order))  # the same each time
    end = now() + seconds
    rounds = 0
    while rounds < LEAST_ROUNDS or now() < end:
        chance.shuffle(order)
        for name in order:
            samples[name].seconds.append(clock.time(actions[name], repeats[name]))
        rounds += 1
    return samples
