# SPDX-License-Identifier: Apache-2.0
"""Which modules of a model look like a norm, by their structure and not by a list of classes."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils import parametrize

# Norms whose statistics are not those of a row.
_OTHER_NORMS = (
    torch.nn.modules.batchnorm._NormBase,
    torch.nn.GroupNorm,
    torch.nn.LocalResponseNorm,
    torch.nn.CrossMapLRN2d,
)
_BIAS_NAMES = ("bias", "beta", "shift")
_CALLS = {"rsqrt", "rms_norm", "layer_norm"}  # what the forward of a norm calls


def base_class(module: Module) -> type[Module]:
    """Return the class of a module below the ones that parametrize and FSDP2 put in front."""
    kind = type(module)
    if parametrize.is_parametrized(module):
        return kind.__bases__[0]
    if kind.__name__.startswith("FSDP") and kind.__bases__[0].__name__ == "FSDPModule":
        return kind.__bases__[1]
    return kind


def looks_like_norm(module: Module, named: Iterable[type] = ()) -> bool:
    """Return whether a module is worth a probe or, failing that, a line in explain()."""
    kind = base_class(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "norm" in str(getattr(module, "original_name", "")).lower()
    if isinstance(module, tuple(named)):
        return True
    if _children(module):
        return False
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.RMSNorm, *_OTHER_NORMS)):
        return True
    if any("norm" in base.__name__.lower() for base in kind.__mro__):
        return True
    code = getattr(kind.forward, "__code__", None)
    return code is not None and bool(_CALLS & set(code.co_names))


def _children(module: Module) -> list[str]:
    return [name for name, _ in module.named_children() if name != "parametrizations"]


@dataclass(frozen=True)
class Parts:
    """The attributes from which a norm computes."""

    weight: str | None
    bias: str | None
    shape: tuple[int, ...] | None  # of the parameters; None where there are none
    eps_names: tuple[str, ...]


def parts(module: Module) -> Parts | str:
    """Name a module's parameters and its eps, or say why it can be none of our recipes."""
    if isinstance(module, _OTHER_NORMS):
        return "normalises over other elements than those of a row"
    if names := _children(module):
        return f"has modules inside ({', '.join(names)})"
    if any(buffer is not None for buffer in module._buffers.values()):
        return f"computes with buffers ({', '.join(module._buffers)})"
    found = tensors(module)
    if any(torch.nn.parameter.is_lazy(tensor) for tensor in found.values()):
        return "has parameters without a shape as yet: run the model once, then convert"
    shapes = {tuple(tensor.shape) for tensor in found.values()}
    if len(found) > 2 or len(shapes) > 1:
        told = ", ".join(f"{name} {tuple(t.shape)}" for name, t in found.items())
        return f"has other parameters than a weight and a bias: {told}"
    if len({tensor.dtype for tensor in found.values()}) > 1:
        return "has a weight and a bias of different dtypes"
    biases = [name for name in found if name in _BIAS_NAMES]
    weights = [name for name in found if name not in biases]
    if len(weights) > 1 or len(biases) > 1:
        return f"has other parameters than a weight and a bias: {', '.join(found)}"
    return Parts(
        weights[0] if weights else None,
        biases[0] if biases else None,
        next(iter(shapes), None),
        tuple(_eps_names(module)),
    )


def tensors(module: Module) -> dict[str, Tensor]:
    """Return the parameters by name: ordinary ones, parametrized ones, and plain attributes."""
    found: dict[str, Tensor] = {n: p for n, p in module._parameters.items() if p is not None}
    if parametrize.is_parametrized(module):
        found |= {str(name): getattr(module, str(name)) for name in module.parametrizations}
    return found | {n: v for n, v in vars(module).items() if isinstance(v, Tensor)}


def _eps_names(module: Module) -> Iterable[str]:
    """Return the attributes that may hold eps; which one does is found out by changing it."""
    for name, value in vars(module).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if "eps" in name.lower() and (number or value is None):
            yield name
