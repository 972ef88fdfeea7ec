# SPDX-License-Identifier: Apache-2.0
"""Changes the class of a module, and back.

The new class derives from the module's own. It is made when it is needed and found again among the
subclasses of that class, so nothing is registered anywhere.
"""

import types
from typing import Any, cast

import torch
from torch.nn import Module

from fusednorm.conversion.candidates import base_class
from fusednorm.conversion.recipes import ApexRecipe, Recipe

# Ordinary attributes of a converted module, so that they survive deepcopy and pickling, and no part
# of state_dict: the class that it had, and what its forward computes.
ORIGINAL = "_fusednorm_converted_from"
RECIPE = "_fusednorm_recipe"


class Fused(Module):
    """The front of a converted module: the recipe if it fits the input, else the class's own."""

    _fusednorm_recipe: Recipe | ApexRecipe
    __jit_ignored_attributes__ = (ORIGINAL, RECIPE)

    # torch.jit.script refuses the next line and shows it, so it says what to do.
    def forward(self, *args: Any, **kwargs: Any) -> Any:  # to script it: fusednorm.revert(model)
        """Normalise as the class does, on the fused operator where the input allows it."""
        recipe = self._fusednorm_recipe
        input = _input(recipe, args, kwargs)
        if input is not None and not recipe.refusal(self, input):
            return recipe(self, input)
        return super().forward(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle by the original class, which has a name: this one is made again."""
        reduced = list(cast(tuple[Any, ...], super().__reduce_ex__(protocol)))
        if type(self) is reduced[1][0]:
            reduced[:2] = rebuild, (vars(self)[ORIGINAL],)
        return tuple(reduced)


def _input(recipe: Recipe | ApexRecipe, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the input of a call that has no other argument, else None."""
    if len(args) == 1 and not kwargs:
        return args[0]
    return kwargs.get(recipe.argument) if not args and len(kwargs) == 1 else None


def why_not_fused(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return why a call of a converted module takes the class's own forward, empty if not."""
    recipe = vars(module).get(RECIPE)
    if recipe is None:
        return ""
    input = _input(recipe, args, kwargs)
    return "further arguments" if input is None else recipe.refusal(module, input)


def fused_class(original: type[Module]) -> type[Module]:
    """Return the fused class that derives from ``original``."""
    for kind in original.__subclasses__():
        if kind.__bases__ == (Fused, original) and kind.__name__ == original.__name__:
            return kind
    members = {
        "__module__": original.__module__,
        "__qualname__": f"{original.__qualname__} (fused)",
        "__doc__": original.__doc__,
    }
    return type(original.__name__, (Fused, original), members)


def rebuild(original: type[Module]) -> Module:
    """Return an empty module of the fused class: what unpickling begins with."""
    kind = fused_class(original)
    return cast(Module, kind.__new__(kind))


def own_forward(module: Module) -> str:
    """Return why a module whose forward lies on the instance is left alone, empty if it is not.

    Two such forwards are known for what they are: that of the class itself, which accelerate leaves
    behind when it removes a hook, and accelerate's hook, which calls ``_old_forward``.
    """
    forward = vars(module).get("forward")
    if forward is None or _is_of_class(module, forward):
        return ""
    if isinstance(module, torch.jit.ScriptModule):
        return "is a ScriptModule, which is compiled already: convert before torch.jit.script"
    if "_hf_hook" in vars(module) and _is_of_class(module, vars(module).get("_old_forward")):
        return ""
    return "has a forward of its own on the instance (patched or kernelised), which would be lost"


def _is_of_class(module: Module, method: Any) -> bool:
    return (
        isinstance(method, types.MethodType)
        and method.__self__ is module
        and method.__func__ is type(module).forward
    )


def change_class(module: Module, kind: type[Module]) -> None:
    """Give a module the class ``kind``, below what parametrize or FSDP2 have put in front of it.

    Bound methods of the old class on the instance become those of the new one.
    """
    bound = [n for n in ("forward", "_old_forward") if _is_of_class(module, vars(module).get(n))]
    front = type(module)
    base = base_class(module)
    if front is base:
        module.__class__ = kind
    else:
        members = {k: v for k, v in vars(front).items() if k not in ("__dict__", "__weakref__")}
        bases = tuple(kind if b is base else b for b in front.__bases__)
        module.__class__ = type(front.__name__, bases, members)
    for name in bound:
        vars(module)[name] = types.MethodType(type(module).forward, module)


def swap(module: Module, kind: type[Module], recipe: Recipe | ApexRecipe | None) -> None:
    """Convert one module."""
    vars(module)[ORIGINAL] = base_class(module)
    if recipe is not None:
        vars(module)[RECIPE] = recipe
    change_class(module, kind)


def restore(module: Module) -> None:
    """Undo :func:`swap`; does nothing to other modules."""
    original = vars(module).get(ORIGINAL)
    if original is None:
        return
    change_class(module, original)
    for name in (ORIGINAL, RECIPE):
        vars(module).pop(name, None)


def is_converted(module: Module) -> bool:
    """Return whether convert() changed this module."""
    return ORIGINAL in vars(module)


