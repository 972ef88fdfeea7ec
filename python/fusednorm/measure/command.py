# SPDX-License-Identifier: Apache-2.0
"""The command line: ``profile``, ``bench``, ``report`` and ``blocks``."""

import argparse
import os
import sys
from typing import Any

import torch

import fusednorm
from fusednorm import _build
from fusednorm.measure import bench, profile, store
from fusednorm.measure.arguments import Parser, at_least_one, names, one_of, remark, seconds
from fusednorm.measure.arguments import device as device_of
from fusednorm.measure.blocks import command as blocks
from fusednorm.measure.buffers import BUFFERS, can_choose
from fusednorm.measure.contestants import CONTESTANTS, check_names
from fusednorm.measure.grammar import parse_shape
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.operations import OPERATIONS, check_operations
from fusednorm.measure.problem import DTYPES, PASSES, Case, of_text
from fusednorm.measure.shapes import grid_shapes, listed_shapes
from fusednorm.measure.summary import summary

INTERRUPTED = 130
CLOSED_PIPE = 141  # as a shell has it for a process that SIGPIPE ended
DEFAULT_SHAPE = "bert-base"  # of a profile


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = Parser(prog="python -m fusednorm", description=__doc__)
    built = f"built for torch {_build.TORCH_VERSION}, {'with' if _build.WITH_CUDA else 'no'} CUDA"
    top.add_argument("--version", action="version", version=f"{fusednorm.__version__}, {built}")
    commands = top.add_subparsers(dest="command", required=True, parser_class=Parser)
    one = commands.add_parser("profile", help="one shape, operator by operator, side by side")
    sweep = commands.add_parser("bench", help="the sweep over shapes")
    page = commands.add_parser("report", help="one HTML page of both")
    blocks.add_options(commands.add_parser("blocks", help="the norms' share of a model's block"))

    for command in (one, sweep):
        command.add_argument("--rows", type=at_least_one)
        command.add_argument("--cols", type=at_least_one)
        command.add_argument("--param-dtype", help="of gamma and beta; default the dtype")
        command.add_argument("--contestants", type=names, help=", ".join(CONTESTANTS))
        command.add_argument("--seconds", type=seconds, help="of rounds for each pass")
        command.add_argument("--json", metavar="FILE")
        command.add_argument("--csv", metavar="FILE")
        command.add_argument("--plot", metavar="DIR", help="draw pictures into it")
    of_all = ", ".join(OPERATIONS)
    profiled = ",".join(profile.OPERATIONS_PROFILED)
    for command, default in ((one, profiled), (sweep, "layer_norm"), (page, profiled)):
        command.add_argument("--op", type=names, help=f"some of {of_all}; default {default}")
        command.add_argument("--device", help="cpu or cuda; default cuda where there is one")

    problem = "as in backward:bf16/f32:8192x1024; problems/problem.h has the grammar"
    one.add_argument("problem", nargs="?", metavar="PROBLEM", help=problem)
    sweep.add_argument("problems", nargs="*", metavar="PROBLEM", help=problem)

    one.add_argument("--shape", help="ROWSxCOLS or a name of problems/shapes.csv")
    one.add_argument("--dtype", help="f64, f32, f16 or bf16; default f32")
    one.add_argument("--threads", type=at_least_one)
    group = one.add_mutually_exclusive_group()
    group.add_argument("--backward-only", action="store_true")
    group.add_argument("--forward-only", action="store_true")

    sweep.add_argument("--shape", action="append", help="ROWSxCOLS or a name; may be repeated")
    sweep.add_argument("--grid", action="store_true", help="rows x columns for the heat map")
    sweep.add_argument("--dtype", action="append", help="may be repeated; default f32 and bf16")
    sweep.add_argument("--pass", dest="passes", action="append", help="forward, backward or both")
    sweep.add_argument("--buffers", action="append", help="warm or fresh; default both")
    sweep.add_argument("--threads", type=at_least_one, action="append", help="may be repeated")
    sweep.add_argument("--quick", action="store_true", help="two minutes instead of twenty")
    sweep.add_argument("--resume", metavar="FILE", help="keep finished cases there; go on from it")

    page.add_argument("--profile", metavar="FILE", help="of `profile --json`; default: measure")
    page.add_argument("--bench", metavar="FILE", action="append", help="of `bench --json`")
    page.add_argument("--output", metavar="FILE", default="fusednorm-report.html")
    return top


def _shapes(arguments: argparse.Namespace, named: list[str]) -> list[tuple[int, int]]:
    if (arguments.rows is None) != (arguments.cols is None):
        raise BadInput("--rows and --cols: expected both or neither")
    shapes = [parse_shape("--shape", text) for text in named]
    return shapes + ([(arguments.rows, arguments.cols)] if arguments.rows is not None else [])


def _check_spelled_once(problem: str, options: list[object]) -> None:
    if any(options):
        raise BadInput(f"{problem}: expected a problem, or --shape and its like, not both")


def _check_outputs(arguments: argparse.Namespace) -> None:
    store.make_directory("--plot", arguments.plot)
    store.check_writable("--json", arguments.json)
    store.check_writable("--csv", arguments.csv)
    if arguments.plot:
        from fusednorm.measure import plots

        plots.check_matplotlib()


def _keep(arguments: argparse.Namespace, result: profile.Profile | bench.Sweep) -> int:
    """Write what was asked for. Returns the exit code."""
    if arguments.json:
        store.write_json(arguments.json, result.as_dict())
    if arguments.csv:
        store.write_csv(arguments.csv, result.rows)
    if arguments.plot and result.rows:
        from fusednorm.measure import plots

        of_profile = isinstance(result, profile.Profile)
        draw = plots.draw_profile if of_profile else plots.draw_bench
        print("\npictures:", *draw(result.as_dict(), arguments.plot))
    return _leave(result.interrupted)


def run_profile(arguments: argparse.Namespace) -> int:
    """Run ``profile``."""
    device = device_of(arguments.device)
    one_pass = arguments.backward_only or arguments.forward_only
    if arguments.problem:
        options = [arguments.shape, arguments.rows, arguments.dtype, arguments.param_dtype]
        _check_spelled_once(arguments.problem, [*options, arguments.op, one_pass])
        case, which = of_text(arguments.problem, device)
        cases, passes = [case], [which]
    else:
        dtype = one_of("--dtype", arguments.dtype or "f32", tuple(DTYPES))
        params = one_of("--param-dtype", arguments.param_dtype or dtype, (dtype, "f32"))
        named = [arguments.shape] if arguments.shape else []
        shapes = _shapes(arguments, named) or [parse_shape("--shape", DEFAULT_SHAPE)]
        if len(shapes) > 1:
            raise BadInput("--shape, --rows and --cols: expected one shape")
        ops = check_operations(arguments.op or profile.OPERATIONS_PROFILED)
        cases = [Case(*shapes[0], dtype, params, device, op) for op in ops]
        passes = ["forward", "backward"]
        if one_pass:
            passes = ["backward" if arguments.backward_only else "forward"]
    check_names(arguments.contestants)
    _check_outputs(arguments)
    remark([arguments.threads] if arguments.threads else [])
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    limit = arguments.seconds or profile.SECONDS
    result = profile.run(cases, arguments.contestants, passes, limit)
    print(summary(result))
    return _keep(arguments, result)


def _problems(arguments: argparse.Namespace, device: str) -> list[tuple[Case, list[str]]]:
    """Return the cases and passes of a sweep, spelled as problems or by --shape and its like."""
    if arguments.problems:
        options = [arguments.shape, arguments.rows, arguments.dtype, arguments.param_dtype]
        options += [arguments.op, arguments.passes, arguments.grid]
        _check_spelled_once(arguments.problems[0], options)
        found: dict[Case, list[str]] = {}
        for case, which in (of_text(text, device) for text in arguments.problems):
            found.setdefault(case, []).append(which)
        return list(found.items())
    ops = check_operations(arguments.op or ["layer_norm"])
    dtypes = arguments.dtype or ["f32", "bf16"]
    for dtype in dtypes:
        one_of("--dtype", dtype, tuple(DTYPES))
        one_of("--param-dtype", arguments.param_dtype or dtype, (dtype, "f32"))
    passes = arguments.passes or (["forward", "backward"] if arguments.quick else list(PASSES))
    for which in passes:
        one_of("--pass", which, PASSES)
    shapes = _shapes(arguments, arguments.shape or [])
    if arguments.grid:
        shapes += [(shape.rows, shape.cols) for shape in grid_shapes()]
    listed = listed_shapes("quick" if arguments.quick else "bench")
    shapes = shapes or [(shape.rows, shape.cols) for shape in listed]
    return [
        (Case(*shape, dtype, arguments.param_dtype or dtype, device, op), passes)
        for op in ops
        for dtype in dtypes
        for shape in shapes
    ]


def _plan(arguments: argparse.Namespace, device: str) -> bench.Plan:
    quick = arguments.quick
    for kind in arguments.buffers or []:
        one_of("--buffers", kind, BUFFERS)
    problems = _problems(arguments, device)
    check_names(arguments.contestants)
    if quick and not arguments.contestants:
        print("compile: left out by --quick, as it compiles every shape; --contestants names it")
    kinds = arguments.buffers or (["warm"] if quick else list(BUFFERS))
    if device == "cpu" and not can_choose():
        kinds = ["warm"]
        print("fresh and warm buffers are not told apart: this C library has no mallopt")
    return bench.Plan(
        problems,
        kinds,
        arguments.threads or [torch.get_num_threads()],
        arguments.contestants,
        ("compile",) if quick else (),
        device,
        arguments.seconds or (bench.QUICK_SECONDS if quick else bench.FULL_SECONDS),
        listed=not (arguments.problems or arguments.shape or arguments.rows or arguments.grid),
    )


def run_bench(arguments: argparse.Namespace) -> int:
    """Run ``bench``."""
    plan = _plan(arguments, device_of(arguments.device))
    _check_outputs(arguments)
    remark(plan.threads)
    return _keep(arguments, bench.run(plan, arguments.resume))


def run_report(arguments: argparse.Namespace) -> int:
    """Run ``report``: from files where they are named, else measuring first."""
    from fusednorm.measure import page

    store.check_writable("--output", arguments.output)
    sweeps = [store.read_json("--bench", path, "bench") for path in arguments.bench or []]
    if arguments.profile:
        measured = store.read_json("--profile", arguments.profile, "profile")
    else:
        ops = check_operations(arguments.op or profile.OPERATIONS_PROFILED)
        measured, measured_sweeps = _measure(device_of(arguments.device), ops, bool(sweeps))
        sweeps += measured_sweeps
        if any(document["interrupted"] for document in (measured, *measured_sweeps)):
            print("interrupted: no report was written", file=sys.stderr)
            return INTERRUPTED
    page.write(arguments.output, measured, sweeps)
    print(f"report: {arguments.output}")
    return 0


def _measure(
    device: str, ops: list[str], with_sweep: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Measure what a report shows: a profile and, unless one is given, a sweep."""
    remark([])
    shape = parse_shape("--shape", DEFAULT_SHAPE)
    cases = [Case(*shape, device=device, op=op) for op in ops]
    result = profile.run(cases, None, ["forward", "backward"], profile.SECONDS)
    print(summary(result))
    if with_sweep or result.interrupted:
        return result.as_dict(), []
    words = ["bench", "--quick", "--device", device, "--op", ",".join(ops)]
    quick = parser().parse_args(words)
    return result.as_dict(), [bench.run(_plan(quick, device), None).as_dict()]


def _leave(interrupted: bool) -> int:
    if interrupted:
        print("interrupted: the above is what had been measured", file=sys.stderr)
        return INTERRUPTED
    return 0


def main(words: list[str]) -> int:
    """Run a command and return its exit code; bad input is one line and 2."""
    commands = {
        "profile": run_profile,
        "bench": run_bench,
        "report": run_report,
        "blocks": blocks.run,
    }
    try:
        arguments = parser().parse_args(words)
        code = commands[arguments.command](arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the pipe has left. Python flushes once more at exit: to /dev/null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except BadInput as mistake:
        print(f"fusednorm: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before anything was measured", file=sys.stderr)
        return INTERRUPTED
