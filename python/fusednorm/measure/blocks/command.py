# SPDX-License-Identifier: Apache-2.0
"""The options of ``python -m fusednorm blocks``."""

import argparse
import sys

import torch

from fusednorm.measure import arguments as read
from fusednorm.measure import store
from fusednorm.measure.blocks import run as measurement
from fusednorm.measure.blocks.sizes import DEFAULTS, SIZES, sizes
from fusednorm.measure.blocks.table import summary

DTYPES = ("f32", "bf16", "f16")
NUMBERS = ("hidden", "heads", "kv_heads", "mlp", "batch", "tokens")
INTERRUPTED = 130


def add_options(command: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    here = "; ".join(f"default on {device} {','.join(names)}" for device, names in DEFAULTS.items())
    command.add_argument("--block", type=read.names, help=f"some of {', '.join(SIZES)}; {here}")
    for name in NUMBERS:
        option = "--" + name.replace("_", "-")
        command.add_argument(option, type=read.at_least_one, help="of every block that is named")
    command.add_argument("--mode", type=read.names, help="eager, compiled; default both")
    command.add_argument("--dtype", help="f32, bf16 or f16; default f32, on CUDA bf16")
    command.add_argument("--device", help="cpu or cuda; default cuda where there is one")
    command.add_argument("--threads", type=read.at_least_one)
    command.add_argument("--seconds", type=read.seconds, help="of rounds for each block and pass")
    command.add_argument("--json", metavar="FILE")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print the table. Returns the exit code."""
    device = read.device(arguments.device)
    dtype = arguments.dtype or ("bf16" if device.startswith("cuda") else "f32")
    modes = arguments.mode or list(measurement.MODES)
    plan = measurement.Plan(
        sizes(arguments.block, device, {name: getattr(arguments, name) for name in NUMBERS}),
        [read.one_of("--mode", mode, measurement.MODES) for mode in modes],
        read.one_of("--dtype", dtype, DTYPES),
        device,
        arguments.seconds or measurement.SECONDS,
    )
    store.check_writable("--json", arguments.json)
    read.remark([arguments.threads] if arguments.threads else [])
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    result = measurement.run(plan)
    print(summary(result))
    if arguments.json:
        store.write_json(arguments.json, result.as_dict())
    if result.interrupted:
        print("interrupted: the above is what had been measured", file=sys.stderr)
        return INTERRUPTED
    return 0
