# SPDX-License-Identifier: Apache-2.0
"""Measures the operator against native layer_norm and torch.compile of it, in turns.

    python python/tests/measure_speed.py              # fresh outputs: page faults count
    python python/tests/measure_speed.py --warm       # outputs reuse memory that is mapped already
    python python/tests/measure_speed.py --overhead   # a 2x4 tensor: the cost of a call

Prints the median over rounds of native's time divided by ours, so that a busy machine slows both;
--one-thread takes CPU time on one thread, which other processes disturb least. For calls, our CPU
time over native's, on one thread.
"""

import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import fusednorm

SHAPES = [(16384, 768), (4096, 4096), (65536, 256), (512, 32768)]
OPS = torch.ops.fusednorm
# glibc: never give memory back and never map it apart, so that a freed output is the next one.
WARM = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": "0"}
# Its threshold for mapping grows with what is freed, up to 32 MiB, as much as some of our outputs
# take: then one contestant has new pages and the other has not. A given threshold stays.
FRESH = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}


def seconds(function: Callable[[], object], clock: Callable[[], float], calls: int) -> float:
    start = clock()
    for _ in range(calls):
        function()
    return (clock() - start) / calls


def in_turns(
    functions: dict[str, Callable[[], object]], rounds: int, calls: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 1):
        for name, function in functions.items():
            elapsed = seconds(function, clock, calls)
            if turn:  # the first round warms up
                times[name].append(elapsed)
    return times


def ratio(times: dict[str, list[float]], above: str, below: str) -> float:
    return statistics.median(a / b for a, b in zip(times[above], times[below], strict=True))


def forward_and_backward(rounds: int, with_compile: bool, one_thread: bool) -> None:
    torch.set_num_threads(1 if one_thread else 2)
    clock = time.process_time if one_thread else time.perf_counter
    print(
        f"{'shape':>14} {'dtype':>9} {'pass':>9} {'ours ms':>9} {'x native':>9} {'x compiled':>11}"
    )
    for shape in SHAPES:
        cols = shape[-1:]
        for dtype in (torch.float32, torch.bfloat16):
            x, dy = torch.randn(shape, dtype=dtype), torch.randn(shape, dtype=dtype)
            w, b = torch.randn(cols, dtype=dtype), torch.randn(cols, dtype=dtype)
            statistics_ = torch.native_layer_norm(x, cols, w, b, 1e-5)[1:]
            ours_statistics = OPS.layer_norm_forward(x, cols, w, b)[1:]
            mask = [True] * 3

            def native_backward(dy, x, w, b, mean, rstd, cols=cols, mask=mask):  # type: ignore[no-untyped-def]
                return torch.ops.aten.native_layer_norm_backward(
                    dy, x, cols, mean, rstd, w, b, mask
                )

            def native_forward(x, w, b, cols=cols):  # type: ignore[no-untyped-def]
                return F.layer_norm(x, cols, w, b)

            passes: dict[str, dict[str, Callable[[], object]]] = {
                "forward": {
                    "ours": lambda: fusednorm.layer_norm(x, cols, w, b),
                    "native": lambda: native_forward(x, w, b),
                },
                "backward": {
                    "ours": lambda: OPS.layer_norm_backward(
                        dy, x, cols, *ours_statistics, w, b, mask
                    ),
                    "native": lambda: native_backward(dy, x, w, b, *statistics_),
                },
            }
            if with_compile:
                torch._dynamo.reset()
                forward = torch.compile(native_forward, dynamic=False)
                backward = torch.compile(native_backward, dynamic=False)
                passes["forward"]["compiled"] = lambda f=forward: f(x, w, b)
                passes["backward"]["compiled"] = lambda f=backward: f(dy, x, w, b, *statistics_)
            for name, functions in passes.items():
                times = in_turns(functions, rounds, 1, clock)
                compiled = f"{ratio(times, 'compiled', 'ours'):.2f}" if with_compile else "-"
                print(
                    f"{'x'.join(map(str, shape)):>14} {str(dtype)[6:]:>9} {name:>9} "
                    f"{1e3 * min(times['ours']):>9.2f} {ratio(times, 'native', 'ours'):>9.2f} "
                    f"{compiled:>11}",
                    flush=True,
                )


def overhead(rounds: int) -> None:
    torch.set_num_threads(1)
    gc.disable()
    x, gy = torch.randn(2, 4), torch.ones(2, 4)
    w, b = torch.ones(4), torch.zeros(4)
    xg, wg, bg = (t.clone().requires_grad_() for t in (x, w, b))
    native, ours = torch.nn.LayerNorm(4), fusednorm.LayerNorm(4)
    cases: dict[str, dict[str, Callable[[], object]]] = {
        "forward": {
            "native": lambda: F.layer_norm(x, (4,), w, b),
            "ours": lambda: fusednorm.layer_norm(x, (4,), w, b),
        },
        "forward, recording": {
            "native": lambda: F.layer_norm(xg, (4,), wg, bg),
            "ours": lambda: fusednorm.layer_norm(xg, (4,), wg, bg),
        },
        "forward+backward": {
            "native": lambda: F.layer_norm(xg, (4,), wg, bg).backward(gy),
            "ours": lambda: fusednorm.layer_norm(xg, (4,), wg, bg).backward(gy),
        },
        "module forward": {"native": lambda: native(xg), "ours": lambda: ours(xg)},
    }
    for name, functions in cases.items():
        times = in_turns(functions, rounds, 1000, time.process_time)
        print(
            f"{name:>20}: native {1e6 * min(times['native']):6.2f} us, "
            f"ours {1e6 * min(times['ours']):6.2f} us, ratio {ratio(times, 'ours', 'native'):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--compile", action="store_true", help="also against torch.compile(native)")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    wanted = WARM if arguments.warm else FRESH
    if not wanted.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)
    if arguments.overhead:
        overhead(arguments.rounds)
    else:
        forward_and_backward(arguments.rounds, arguments.compile, arguments.one_thread)


if __name__ == "__main__":
    main()
