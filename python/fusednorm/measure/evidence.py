# SPDX-License-Identifier: Apache-2.0
"""How we know: each guarantee with the tests that hold it, and what has run on what.

The one home of these lists: ``report`` prints them, docs/how-we-know.md repeats them, and a test
compares the two and sees that every named test exists.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A promise, and the tests that would fail without it, as ``file: name``."""

    name: str
    meaning: str
    tests: tuple[str, ...]


CLAIMS = (
    Claim(
        "correct",
        "every output is the formula's value, within a derived error, rounded once",
        (
            "tests/problems_test.cc: AgreesWithTheFormula",
            "tests/random_test.cc: Sweep",
            "python/tests/test_eager.py: test_values_and_gradients",
        ),
    ),
    Claim(
        "tight tests",
        "kernels with mistakes that real ones have made are rejected by the same tests",
        ("tests/mutations_test.cc: EveryMistakeIsRejected",),
    ),
    Claim(
        "run_to_run",
        "the same call gives the same bits; no floating-point atomics",
        (
            "tests/cpu_guarantees_test.cc: TheSameBitsEveryTime",
            "tests/cuda/runtime_test.cc: BatchInvariantAcrossKernelsAndRunToRun",
        ),
    ),
    Claim(
        "batch_invariant",
        "a row's results do not depend on how many other rows there are, nor on what is in them",
        (
            "tests/cpu_guarantees_test.cc: ARowAloneAmongOthersAndOnOtherMachines",
            "tests/cuda/runtime_test.cc: BatchInvariantAcrossKernelsAndRunToRun",
            "python/tests/test_eager.py: test_batch_invariance",
        ),
    ),
    Claim(
        "thread_invariant",
        "CPU: no result depends on the number of threads, dgamma and dbeta included",
        (
            "tests/cpu_guarantees_test.cc: AllOutputsOnAnyMachine",
            "python/tests/test_threads.py: test_results_do_not_depend_on_the_number_of_threads",
        ),
    ),
    Claim(
        "no global state",
        "no mutable static or thread-local data, no allocation; any thread, stream or capture",
        (
            "python/tests/test_no_global_state.py: test_the_library_holds_no_mutable_data_of_ours",
            "tests/cpu_allocation_test.cc: NoneInPlanAndRun",
            "tests/cpu_concurrency_test.cc: OnePlanForManyThreads",
            "tests/cuda/runtime_test.cc: ARunCanBeCapturedAndReplayed",
        ),
    ),
    Claim(
        "errors before effects",
        "bad input gives one sentence, and outputs are untouched",
        (
            "tests/cpu_errors_test.cc: ForwardProblem",
            "tests/cuda/runtime_test.cc: NullPointersAndBadStridesTouchNothing",
            "python/tests/test_errors.py: test_errors_are_those_of_native",
        ),
    ),
    Claim(
        "nothing outside",
        "no byte outside the outputs and the workspace is written",
        (
            "tests/outputs_test.cc: WhatIsNotAskedForIsNotTouched",
            "tests/problems_test.cc: AgreesWithTheFormula",
        ),
    ),
    Claim(
        "derivatives",
        "first, second and third derivatives and forward mode agree with finite differences",
        (
            "python/tests/test_gradients.py: test_first_derivatives",
            "python/tests/test_gradients.py: test_second_derivatives",
            "python/tests/test_gradients.py: test_third_derivative",
        ),
    ),
    Claim(
        "any problem",
        "any problem for any device is planned or refused: fuzzed, under sanitizers",
        ("fuzz/plan_cpu.cc: planned twice", "fuzz/plan_cuda.cc: refused without a reason"),
    ),
)

# What, where, how far.
HAS_RUN = (
    ("CPU kernels, x86-64: SSE4, AVX2, AVX-512 and scalar", "real hardware", "every test"),
    ("CPU kernels, arm64: NEON, SVE, SVE2", "qemu, release 0.1.0", "4080 problems of the table"),
    ("CUDA kernels, sm_75, sm_90, sm_100", "emulated device", "every test, random schedules"),
    ("CUDA kernels, sm_75 to sm_120", "ptxas", "compiled; no register spill"),
    ("PyTorch operators, CPU", "real hardware", "every test"),
    ("PyTorch operators, CUDA", "PyTorch's CUDA build on the emulated device", "every test but 17"),
    ("CPU speed", "two Zen 3 cores, AVX2, of a shared host", "docs/cpu.md"),
    ("CUDA bytes and instructions", "counted on the emulated device", "tests/cuda/costs.csv"),
)

HAS_NOT_RUN = (
    ("any GPU", "no machine of ours has one; make test-gpu runs the CUDA suites on yours"),
    ("CUDA speed in seconds", "counts bound it, a GPU decides"),
    ("arm64 hardware", "qemu knows no speed, and its memory model is stronger"),
    ("17 Python tests on CUDA", "they need kernels of PyTorch's own, which hold no PTX"),
    ("macOS, Windows", "Linux only so far"),
)
