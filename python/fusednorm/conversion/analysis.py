# SPDX-License-Identifier: Apache-2.0
"""What each norm of a model is and would become: the part that convert and explain share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import Module

from fusednorm import apex
from fusednorm import module as norms
from fusednorm.conversion import swap
from fusednorm.conversion.candidates import base_class, looks_like_norm, tensors
from fusednorm.conversion.probe import probe
from fusednorm.conversion.recipes import ApexRecipe, Recipe
from fusednorm.conversion.twin import settings

OURS = (norms.LayerNorm, norms.RMSNorm, apex.FusedLayerNorm, apex.FusedRMSNorm)


@dataclass(frozen=True)
class Finding:
    """What was found out about one module."""

    path: str
    module: Module
    state: str  # fused (ours from the start), converted, convertible or left alone
    kind: type[Module] | None  # the class that it has or would get
    recipe: Recipe | ApexRecipe | None
    reason: str  # why this recipe, or why the module is left alone


class Analysis:
    """Looks at the norms of a model; a class with the same settings is probed once."""

    def __init__(self, numerics: str = "model", classes: Iterable[type[Module]] = ()) -> None:
        self.numerics, self.classes = numerics, tuple(classes)
        self.known: dict[Any, Recipe | str] = {}

    def findings(self, model: Module) -> Iterator[Finding]:
        """Yield a finding for every module that looks like a norm."""
        for path, module in list(model.named_modules()):
            if isinstance(module, torch.fx.GraphModule):
                yield from _of_graph(path, module)
            elif looks_like_norm(module, self.classes):
                yield self._finding(path, module)

    def _finding(self, path: str, module: Module) -> Finding:
        kind = type(module)
        recipe = vars(module).get(swap.RECIPE)
        if swap.is_converted(module):
            return Finding(path, module, "converted", kind, recipe, _told(recipe))
        if isinstance(module, OURS):
            return Finding(path, module, "fused", kind, None, "is fusednorm's own class")
        if reason := swap.own_forward(module):
            return Finding(path, module, "left alone", None, None, reason)
        original = base_class(module)
        if original is torch.nn.LayerNorm:
            return Finding(
                path, module, "convertible", norms.LayerNorm, None, "is native's own class"
            )
        found = _apex_recipe(original) or self._recipe(original, module)
        if isinstance(found, str):
            return Finding(path, module, "left alone", None, None, found)
        if reason := _other_rounding(module, found):
            return Finding(path, module, "left alone", None, None, reason)
        if self.numerics == "once":
            found = found.with_rounding("once")
        fused = swap.fused_class(original)
        return Finding(path, module, "convertible", fused, found, _told(found))

    def _recipe(self, original: type[Module], module: Module) -> Recipe | str:
        key = (original, _fingerprint(module))
        if key not in self.known:
            self.known[key] = probe(module)
        return self.known[key]


# Settings whose repr says all about them.
_PRINTED = (int, float, str, tuple, list, torch.dtype, type(None))


def _fingerprint(module: Module) -> Any:
    """Return all that a probe's result depends on, as something that compares."""
    plain = tuple(
        (name, repr(value) if isinstance(value, _PRINTED) else id(value))
        for name, value in settings(module).items()
    )
    shapes = tuple((name, tuple(t.shape), t.device.type) for name, t in tensors(module).items())
    return plain, shapes, tuple(module._parameters), tuple(module._buffers)


def _other_rounding(module: Module, recipe: Recipe | ApexRecipe) -> str:
    """Return why a recipe that holds in other dtypes is of no use here; empty if it is."""
    if not isinstance(recipe, Recipe) or (parameter := recipe.parameter(module)) is None:
        return ""
    if (parameter.dtype, parameter.dtype) in recipe.pairs:
        return ""
    return f"with parameters in {parameter.dtype} it rounds as none of our recipes does"


def _apex_recipe(original: type[Module]) -> ApexRecipe | None:
    names = ("FusedLayerNorm", "MixedFusedLayerNorm", "FusedRMSNorm", "MixedFusedRMSNorm")
    if original.__module__.split(".")[0] != "apex" or original.__name__ not in names:
        return None
    return ApexRecipe(original.__name__)


def _told(recipe: Recipe | ApexRecipe | None) -> str:
    if not isinstance(recipe, Recipe):
        return "is native's own class" if recipe is None else "is apex's class, by its name"
    dtypes = sorted({str(x).removeprefix("torch.") for x, _ in recipe.pairs})
    return f"same result in {', '.join(dtypes)}"


def _of_graph(path: str, module: torch.fx.GraphModule) -> Iterator[Finding]:
    """Yield the calls of a traced graph: there is no module left to convert."""
    calls = [n for n in module.graph.nodes if "layer_norm" in str(n.target) and n.op != "get_attr"]
    calls += [n for n in module.graph.nodes if "rms_norm" in str(n.target) and n.op != "get_attr"]
    for node in calls:
        if node.op == "call_function" and "fusednorm" not in str(node.target):
            where = f"{path}.{node.name}" if path else str(node.name)
            reason = f"is a call of {node.target} in a traced graph: convert before export or trace"
            yield Finding(where, module, "left alone", None, None, reason)
