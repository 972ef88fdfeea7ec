# SPDX-License-Identifier: Apache-2.0
"""``fusednorm.explain``: every norm of a model, what it is or would become, and why."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook

from fusednorm.conversion import swap
from fusednorm.conversion.analysis import Analysis, Finding
from fusednorm.conversion.candidates import base_class
from fusednorm.conversion.recipes import DEVICES
from fusednorm.measure.quiet import stderr_closed
from fusednorm.measure.text import table

_COPIES = ("aten::copy_", "aten::clone", "aten::contiguous")
_ENCODER = (
    "nn.TransformerEncoderLayer takes a kernel of its own in eval mode without gradients, "
    "and does not call this module there"
)


@dataclass(frozen=True)
class Norm:
    """One line of :func:`explain`."""

    path: str
    class_name: str
    state: str  # fused, converted, convertible or left alone
    recipe: str  # empty where it is left alone
    reason: str
    call: str = ""  # with an example input: fused, own forward, or not called
    copied: bool | None = None  # with an example input: whether a copy of the input was made
    # memory_efficient only: how far xhat, taken from y, may be off for each dtype of y
    recomputation_error: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Explanation:
    """A table of every norm; ``print`` it, or read ``norms``."""

    norms: tuple[Norm, ...]

    def __str__(self) -> str:
        """Return the table as text; paths that differ in a number alone share a line."""
        if not self.norms:
            return "no module of this model looks like a norm"
        called = any(norm.call for norm in self.norms)
        header = ["count", "path", "class", "state", "recipe", "why"]
        header[5:5] = ["call", "copy"] if called else []
        rows = [[str(len(g)), *_cells(path, g[0], called)] for path, g in _groups(self.norms)]
        lines = [table(header, rows, words=len(header))]
        counts = {s: sum(n.state == s for n in self.norms) for s in _STATES}
        told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        lines.append(f"\n{len(self.norms)} norms: {told}")
        for path, group in _groups(self.norms):
            if (errors := group[0].recomputation_error) is not None:
                told = ", ".join(f"{value:.1g} in {name}" for name, value in errors.items())
                lines.append(f"{path}: memory_efficient, xhat from y is off by up to {told}")
        return "\n".join(lines)

    __repr__ = __str__

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """Draw the table where rich prints it."""
        from rich.table import Table

        called = any(norm.call for norm in self.norms)
        grid = Table(title=f"{len(self.norms)} norms", title_justify="left")
        titles = ["count", "path", "class", "state", "recipe", "why"]
        titles[5:5] = ["call", "copy"] if called else []
        for title in titles:
            grid.add_column(title, overflow="fold", justify="right" if title == "count" else "left")
        for path, group in _groups(self.norms):
            style = "yellow" if group[0].state == "left alone" else ""
            grid.add_row(str(len(group)), *_cells(path, group[0], called), style=style)
        yield grid


_STATES = ("fused", "converted", "convertible", "left alone")


def _cells(path: str, norm: Norm, called: bool) -> list[str]:
    copied = {None: "", True: "yes", False: "no"}[norm.copied]
    extra = [norm.call or "not called", copied] if called else []
    return [path or "(the model)", norm.class_name, norm.state, norm.recipe, *extra, norm.reason]


def _groups(norms: Iterable[Norm]) -> Iterator[tuple[str, list[Norm]]]:
    """Yield norms that differ in the numbers of their paths alone, with the path they share."""
    groups: dict[Any, list[Norm]] = {}
    for norm in norms:
        pattern = re.sub(r"\b\d+\b", "*", norm.path)
        errors = None if norm.recomputation_error is None else norm.path
        groups.setdefault(
            (pattern, replace(norm, path="", recomputation_error=None), errors), []
        ).append(norm)
    for (pattern, _, _), group in groups.items():
        yield (pattern if len(group) > 1 else group[0].path), group


def explain(
    model: Module, example_input: Any = None, *, classes: Iterable[type[Module]] = ()
) -> Explanation:
    """Return a table of every norm in ``model``, converted or not.

    Each line has the path and the class, what convert() made or would make of it, the recipe and
    the reason. With an example input (a tensor, a tuple of arguments or a dict of keyword
    arguments) the model is run once without gradients, and each line says whether the fused
    operator ran, and whether the input had to be copied first.

    >>> print(explain(torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.BatchNorm1d(8))))
    count  path  class        state        recipe               why
    ...
    2 norms: 1 convertible, 1 left alone
    """
    if not isinstance(model, Module):
        raise TypeError(
            f"explain takes a torch.nn.Module, not {type(model).__name__}; "
            "an exported or compiled program has no modules: explain the model before export"
        )
    findings = list(Analysis(classes=classes).findings(model))
    encoders = {
        id(child)
        for module in model.modules()
        if isinstance(module, torch.nn.TransformerEncoderLayer)
        for child in module.children()
    }
    calls = {} if example_input is None else _calls(model, findings, encoders, example_input)
    return Explanation(
        tuple(_norm(f, calls.get(id(f.module)), id(f.module) in encoders) for f in findings)
    )


def _norm(finding: Finding, call: tuple[str, bool | None] | None, in_encoder: bool) -> Norm:
    module, reason = finding.module, finding.reason
    recipe = "" if finding.recipe is None else str(finding.recipe)
    if finding.recipe is None and finding.state != "left alone" and finding.kind is not None:
        recipe = f"{finding.kind.__module__.split('.')[0]}.{finding.kind.__name__}"
    if in_encoder:
        reason += f"; {_ENCODER}"
    what, copied = call or ("", None)
    return Norm(
        finding.path,
        base_class(module).__name__,
        finding.state,
        recipe,
        reason,
        what,
        copied,
        recomputation_error(module) if getattr(module, "memory_efficient", False) else None,
    )


def recomputation_error(module: Module) -> dict[str, float] | None:
    """Return how far xhat, recomputed from y, may be off where ``memory_efficient`` is set.

    y is stored with a relative error of at most u, and xhat = (y - bias) / weight, so xhat is off
    by u |y / weight| <= u (|xhat| + |bias / weight|); |xhat| counts as 1, its root mean square.
    """
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if weight is not None and weight.is_meta:
        return None
    ratio = 0.0
    if bias is not None:
        scale = torch.ones_like(bias) if weight is None else weight.detach() + _offset(module)
        ratio = (bias.detach().double() / scale.double()).abs().max().item()
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    return {
        str(dtype).removeprefix("torch."): torch.finfo(dtype).eps / 2 * (1 + ratio)
        for dtype in dtypes
    }


def _offset(module: Module) -> float:
    return float(getattr(module, "offset", 0.0))


def _calls(
    model: Module, findings: list[Finding], encoders: set[int], example: Any
) -> dict[int, tuple[str, bool | None]]:
    """Run the model and return how each norm was called and whether its input was copied."""
    seen: dict[int, tuple[str, bool | None]] = {}
    modules = {id(f.module): f.module for f in findings if f.state != "left alone"}

    def watch(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if id(module) not in seen:
            seen[id(module)] = _call(module, args, kwargs)

    def watch_encoder(module: Module, args: tuple[Any, ...]) -> None:
        if id(module) in modules and id(module) in encoders:
            watch(module, args, {})

    # A hook on a module would keep nn.TransformerEncoderLayer from its own kernel.
    hooks = [register_module_forward_pre_hook(watch_encoder)]
    hooks += [
        module.register_forward_pre_hook(watch, with_kwargs=True)
        for key, module in modules.items()
        if key not in encoders
    ]
    try:
        with torch.no_grad():
            if isinstance(example, dict):
                model(**example)
            else:
                model(*example if isinstance(example, tuple) else (example,))
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, bool | None]:
    converted = swap.is_converted(module)
    if not converted and type(module).__module__.split(".")[0] != "fusednorm":
        return "own forward (not converted)", None
    if reason := swap.why_not_fused(module, args, kwargs):
        return f"own forward ({reason})", None
    input = args[0] if args else next(iter(kwargs.values()), None)
    if not isinstance(input, Tensor) or input.device.type not in DEVICES:
        return "own forward", None
    with stderr_closed(), torch.autograd.profiler.profile(use_kineto=False) as profile:
        type(module).forward(module, *args, **kwargs)
    return "fused", any(event.key in _COPIES for event in profile.key_averages())
