# SPDX-License-Identifier: Apache-2.0
"""What a number was measured on: machine, versions, date."""

import datetime
import os
import platform
from pathlib import Path

import torch

import fusednorm


def processor() -> str:
    """Return the processor's name as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe(device: str) -> dict[str, str]:
    """Return the facts in the order in which they are printed."""
    facts = {
        "machine": f"{processor()}, {os.cpu_count()} logical cores, {platform.system()}",
        "threads": str(torch.get_num_threads()),
        "device": device,
        "fusednorm": fusednorm.__version__,
        "torch": str(torch.__version__),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }
    if device.startswith("cuda"):
        facts["device"] = f"{device}: {torch.cuda.get_device_name(device)}"
        facts["cuda"] = str(torch.version.cuda)
    return facts


def busy() -> str:
    """Warn of other work on this machine, or return an empty string."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < cores / 2:
        return ""
    return f"this machine is busy (load {load:.1f} on {cores} cores): expect wide spreads"


def caption(facts: dict[str, str]) -> str:
    """Return one line for below a picture."""
    where = facts["machine"] if facts["device"] == "cpu" else facts["device"]
    return (
        f"{where}, {facts['threads']} threads; fusednorm {facts['fusednorm']}, "
        f"torch {facts['torch']}, {facts['date']}"
    )


# What must be the same for two runs to be one measurement.
SAME = ("machine", "threads", "device", "fusednorm", "torch")
