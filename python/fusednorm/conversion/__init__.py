# SPDX-License-Identifier: Apache-2.0
"""Swaps the norms of a finished model for fused ones, in place, and back.

``docs/convert.md`` has the recipes, the rules and what is left alone.
"""

import warnings
from collections.abc import Iterable
from typing import Literal, TypeVar

import torch
from torch.nn import Module

from fusednorm.conversion import swap
from fusednorm.conversion.analysis import Analysis
from fusednorm.conversion.explain import Explanation, explain

__all__ = ["Explanation", "convert", "explain", "revert"]

Model = TypeVar("Model", bound=Module)


def convert(
    model: Model,
    *,
    numerics: Literal["model", "once"] = "model",
    classes: Iterable[type[Module]] = (),
) -> Model:
    """Make every norm in ``model`` that computes one of our recipes a fused one.

    A norm is found by its structure and recognised by running it: its own forward is compared with
    each recipe on small data, in every pair of dtypes, with its gradients. Anything else is left
    alone; :func:`fusednorm.explain` says which and why. Inputs for which a class was not found to
    compute the same go on taking its own forward.

    The modules change in place and stay the same objects: parameters, buffers, hooks, training
    mode, names and every reference to them are kept; their new class derives from the old one.

    ``numerics="model"`` keeps the rounding of each class bit for bit, ``"once"`` rounds once, at
    the end. ``classes`` names further classes to look at, whatever they look like. Returns
    ``model``.

    >>> model = torch.nn.Sequential(torch.nn.LayerNorm(4))
    >>> convert(model) is model, type(model[0]).__module__
    (True, 'fusednorm.module')
    """
    if not isinstance(model, Module):
        raise TypeError(
            f"convert takes a torch.nn.Module, not {type(model).__name__}; "
            "an exported or compiled program cannot be converted: convert the model before export"
        )
    if numerics not in ("model", "once"):
        raise ValueError(f"numerics is {numerics!r}: expected 'model' or 'once'")
    findings = list(Analysis(numerics, classes).findings(model))
    for finding in findings:
        if finding.state == "convertible" and finding.kind is not None:
            swap.swap(finding.module, finding.kind, finding.recipe)
    if all(finding.state == "left alone" for finding in findings):
        count = len(findings)
        warnings.warn(
            f"fusednorm.convert changed nothing: of {count} modules that look like a norm none is "
            "one of its recipes; print(fusednorm.explain(model)) says why",
            stacklevel=2,
        )
    return model


def revert(model: Model) -> Model:
    """Undo :func:`convert`: every module that it changed gets its own class back.

    >>> model = convert(torch.nn.Sequential(torch.nn.LayerNorm(4)))
    >>> type(revert(model)[0]) is torch.nn.LayerNorm
    True
    """
    for module in model.modules():
        swap.restore(module)
    return model
