# SPDX-License-Identifier: Apache-2.0
"""Modules that stand in for packages which need a GPU."""

import sys
from types import ModuleType


def install(monkeypatch, modules):
    """Make each module, by its dotted name, with its contents, and the packages above it."""
    for name, contents in modules.items():
        made = ModuleType(name)
        vars(made).update(contents)
        parts = name.split(".")
        for i in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
        monkeypatch.setitem(sys.modules, name, made)
