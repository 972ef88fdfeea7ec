"""Swaps the LayerNorms of a model for fused ones, in place, and back."""

from typing import TypeVar

import torch
from torch.nn import Module
from torch.nn.utils import parametrize

from fusednorm import apex
from fusednorm.module import LayerNorm

Model = TypeVar("Model", bound=Module)

# Where a converted module notes the class it had. An ordinary attribute, so that it survives
# deepcopy and pickling, and no part of state_dict.
_ORIGINAL = "_fusednorm_converted_from"

_APEX: dict[str, type[Module]] = {
    "FusedLayerNorm": apex.FusedLayerNorm,
    "MixedFusedLayerNorm": apex.MixedFusedLayerNorm,
}


def _fused_class(kind: type[Module]) -> type[Module] | None:
    """Return the class that takes the place of exactly this one, None if there is none.

    Subclasses are left alone: their forward may do something else.
    """
    if kind is torch.nn.LayerNorm:
        return LayerNorm
    if kind.__module__.split(".")[0] == "apex":
        return _APEX.get(kind.__name__)
    return None


def _swap(module: Module, base: type[Module]) -> None:
    """Give the module the class ``base``; parametrize has put a class of its own in between."""
    if parametrize.is_parametrized(module):
        between = type(module)
        members = {k: v for k, v in vars(between).items() if k not in ("__dict__", "__weakref__")}
        module.__class__ = type(between.__name__, (base,), members)
    else:
        module.__class__ = base


def _base(module: Module) -> type[Module]:
    return type(module).__bases__[0] if parametrize.is_parametrized(module) else type(module)


def convert(model: Model) -> Model:
    """Make every ``torch.nn.LayerNorm`` and apex ``FusedLayerNorm`` in ``model`` a fused one.

    The modules change in place and stay the same objects: parameters, buffers, hooks, training
    mode, names and every reference to them are kept; optimisers need not know. Returns ``model``.

    >>> model = torch.nn.Sequential(torch.nn.LayerNorm(4))
    >>> convert(model) is model, type(model[0]).__module__
    (True, 'fusednorm.module')
    """
    for module in model.modules():
        kind = _base(module)
        fused = _fused_class(kind)
        # A forward set on the instance would go on hiding that of the class.
        if fused is not None and "forward" not in vars(module):
            setattr(module, _ORIGINAL, kind)
            _swap(module, fused)
    return model


def revert(model: Model) -> Model:
    """Undo :func:`convert`: every module that it changed gets its own class back.

    >>> model = convert(torch.nn.Sequential(torch.nn.LayerNorm(4)))
    >>> type(revert(model)[0]) is torch.nn.LayerNorm
    True
    """
    for module in model.modules():
        original = vars(module).get(_ORIGINAL)
        if original is not None:
            delattr(module, _ORIGINAL)
            _swap(module, original)
    return model
