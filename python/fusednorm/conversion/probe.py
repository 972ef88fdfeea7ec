# SPDX-License-Identifier: Apache-2.0
"""Finds a module's recipe by running its own forward beside every recipe on small data."""

import inspect
import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from fusednorm.conversion.candidates import Parts, base_class, parts
from fusednorm.conversion.recipes import Pair, Recipe
from fusednorm.conversion.twin import Data, Float32List, Twin, make_data

# Two 16-bit results of one recipe are equal in all but about 0.1 % of the elements, where the order
# of a row's sum decides a rounding. Recipes differ from each other in 24 % and more.
EQUAL_SHARE = 0.995
OTHER_EPS = 0.25  # is seen in every element
ROUNDINGS = ("once", "via_x", "via_param")
OUTPUTS = ("input", "promoted", "weight")
F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
PAIRS = (
    *((F32, F32), (BF16, BF16), (F16, F16), (BF16, F32), (F16, F32), (F32, BF16), (F32, F16)),
    (F64, F64),
)
ULP = {F64: 2.0**-52, F32: 2.0**-23, F16: 2.0**-10, BF16: 2.0**-7}
NO_RECIPE = "it computes something else than a norm of our recipes"
USUAL_EPS = [digit * 10.0**-power for power in range(2, 17) for digit in (1, 2, 5)]
USUAL_EPS += [torch.finfo(F32).eps]


class _Unlike(Exception):
    """The module is none of our recipes; the text says what was seen."""


def probe(module: Module) -> Recipe | str:
    """Return the recipe that computes what the module does, or why there is none."""
    with _undisturbed():
        try:
            found = parts(module)
            return found if isinstance(found, str) else _Probe(module, found).recipe()
        except _Unlike as reason:
            return str(reason)
        except Exception as error:  # a stranger's code: convert() must not fail because of it
            return f"it cannot be probed ({_error_text(error)})"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Set aside what surrounds the call: modes, defaults, warnings and the random state."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        stack.enter_context(torch.device("cpu"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        yield


def close(ours: Tensor, theirs: Any, columns: int, narrowest: torch.dtype) -> bool:
    """Return whether two results are of one recipe.

    Each adds a row's elements in an order of its own, which for independent roundings is worth
    sqrt(columns) units of the compute type; eight more are for what is done with the sums. Where
    that crosses a rounding to 16 bits the results differ by an ulp, or three after two roundings.
    """
    if not isinstance(theirs, Tensor) or theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        return False
    ours, theirs = ours.detach().cpu().to(F64), theirs.detach().cpu().to(F64)
    unit = ULP[narrowest if narrowest == F64 else F32] / 2
    largest = torch.maximum(ours.abs(), theirs.abs())
    row = largest.amax(-1, keepdim=True)
    off = (ours - theirs).abs()
    same = off <= unit * (8 + math.sqrt(columns)) * row
    share = 1.0 if ULP[narrowest] <= ULP[F32] else EQUAL_SHARE
    within = same | (off <= 3 * ULP[narrowest] * largest)
    return bool(within.all()) and same.to(F64).mean().item() >= share


def _error_text(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:160].rstrip(": ")


class _Probe:
    """The steps, in order; each raises _Unlike where it finds what no recipe has."""

    def __init__(self, module: Module, found: Parts) -> None:
        self.found, self.twin = found, Twin(module)
        self.names = [name for name in (found.weight, found.bias) if name is not None]
        self.kind = base_class(module)
        shape, self.shape_name = found.shape, None
        if shape is None:
            given = getattr(module, "normalized_shape", None)
            if isinstance(given, tuple | list) and given:
                shape, self.shape_name = tuple(given), "normalized_shape"
            else:
                shape = (64,)
        self.data: Data = make_data(self.names, shape, self.twin.device)
        self.columns = math.prod(shape)

    def recipe(self) -> Recipe:
        argument = self._argument()
        x, parameters = self.data.input(F32), self.data.cast(F32)
        y = self._run(x, parameters)
        if not isinstance(y, Tensor) or y.shape != x.shape or y.dtype != F32:
            raise _Unlike("its forward returns something else than a tensor like its input")
        if not torch.equal(y, self.twin(x, parameters, training=False)):
            raise _Unlike("its forward differs between training and evaluation")
        found = self._in_float32(argument, x, parameters, y)
        found = self._in_every_dtype(found)
        self._check_gradients(found)
        found = replace(found, ranks=frozenset(self._ranks(found)))
        return replace(found, autocast=self._autocast(found))

    def _argument(self) -> str:
        arguments = list(inspect.signature(self.kind.forward).parameters.values())[1:]
        if not arguments or any(
            p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            for p in arguments[1:]
        ):
            told = ", ".join(p.name for p in arguments)
            raise _Unlike(f"its forward takes other arguments than an input ({told})")
        return arguments[0].name

    def _run(self, x: Tensor, parameters: dict[str, Tensor], **changed: Any) -> Any:
        try:
            return self.twin(x, parameters, **changed)
        except Exception as error:
            if self._takes_channels_first(parameters):
                reason = "it normalises the channels of images, (N, C, H, W), which are no rows"
            else:
                reason = f"its forward does not take rows of {list(self.data.shape)} elements"
                reason += f" ({_error_text(error)})"
            raise _Unlike(reason) from error

    def _takes_channels_first(self, parameters: dict[str, Tensor]) -> bool:
        image = torch.ones(1, *self.data.shape, 3, 3, device=self.data.device)
        try:
            return bool(self.twin(image, parameters).shape == image.shape)
        except Exception:
            return False

    def _in_float32(
        self, argument: str, x: Tensor, parameters: dict[str, Tensor], y: Tensor
    ) -> Recipe:
        """Tell the operations and offsets apart, and find eps."""
        eps_name = self._eps_name(x, parameters, y)
        eps = None if eps_name is not None else self._measured_eps()
        at = OTHER_EPS if eps_name is not None else eps
        changed = {} if eps_name is None else {eps_name: OTHER_EPS}
        target = self._run(x, parameters, **changed)
        per_head = [False, True] if len(self.data.shape) == 2 else [False]
        for operation in ("layer_norm", "rms_norm"):
            for offset in (0.0, 1.0) if self.found.weight is not None else (0.0,):
                for heads in per_head:
                    recipe = Recipe(
                        operation=operation,
                        rounding="once",
                        offset=offset,
                        output="input",
                        weight=self.found.weight,
                        bias=self.found.bias,
                        eps_name=eps_name,
                        eps=eps,
                        shape_name=self.shape_name,
                        per_head=heads,
                        argument=argument,
                        pairs=frozenset(),
                        ranks=frozenset(),
                        autocast="own",
                    )
                    ours = self._ours(recipe, x, parameters, at)
                    if ours is not None and close(ours, target, self.columns, F32):
                        return recipe
        raise _Unlike(NO_RECIPE)

    def _eps_name(self, x: Tensor, parameters: dict[str, Tensor], y: Tensor) -> str | None:
        used = []
        for name in self.found.eps_names:
            try:
                changed = self.twin(x, parameters, **{name: OTHER_EPS})
            except Exception:
                continue
            if not torch.equal(changed, y):
                used.append(name)
        if len(used) > 1:
            raise _Unlike(f"its result depends on several settings: {', '.join(used)}")
        return used[0] if used else None

    def _measured_eps(self) -> float:
        """Return the eps that a class has as a constant, from the result for a tiny row.

        For a row of +-c, xhat is c / sqrt(c^2 + eps); a large c gives the factor of the weight.
        """
        signs = torch.ones_like(self.data.rows)
        signs[:, 1::2] = -1
        if self.columns % 2:
            signs[:, -1] = 0
        spread = signs.square().mean(-1)[0].item()
        small = 1e-4
        plain = replace(self.data, rows=signs)
        parameters = {n: torch.zeros_like(p) for n, p in plain.cast(F32).items()}
        if self.found.weight is not None:
            parameters[self.found.weight] += 1
        large = self._run(plain.input(F32) * 1e3, parameters)
        tiny = self._run(plain.input(F32) * small, parameters)
        ratio = (tiny.to(F64).abs().amax() / large.to(F64).abs().amax()).item()
        eps = spread * small**2 * (ratio**-2 - 1) if 0 < ratio <= 1.0 + 1e-6 else math.inf
        if eps > 0.1:  # no norm: the result follows the size of the row
            raise _Unlike(NO_RECIPE)
        if eps < 1e-13:
            return 0.0
        usual = min(USUAL_EPS, key=lambda value: abs(value / eps - 1))
        if abs(usual / eps - 1) > 0.02:
            raise _Unlike(f"its eps is no attribute, and about {eps:.2g} in effect")
        return usual

    def _ours(
        self, recipe: Recipe, x: Tensor, parameters: dict[str, Tensor], eps: float | None
    ) -> Tensor | None:
        shape = self.data.shape[-1:] if recipe.per_head else self.data.shape
        weight = None if recipe.weight is None else parameters[recipe.weight]
        bias = None if recipe.bias is None else parameters[recipe.bias]
        try:
            return recipe.apply(x, shape, weight, bias, eps)
        except (RuntimeError, TypeError):
            return None  # a pair of dtypes that the operators do not take

    def _eps_now(self, recipe: Recipe) -> float | None:
        name = recipe.eps_name
        return recipe.eps if name is None else self.twin.settings[name]

    def _in_every_dtype(self, recipe: Recipe) -> Recipe:
        """Tell roundings and dtypes of the result apart: the most pairs of dtypes win."""
        best = recipe
        for rounding in ROUNDINGS:
            for output in OUTPUTS:
                candidate = replace(recipe, rounding=rounding, output=output)
                pairs = frozenset(self._equal_pairs(candidate))
                if len(pairs) > len(best.pairs):
                    best = replace(candidate, pairs=pairs)
        if (F32, F32 if self.names else None) not in best.pairs:
            raise _Unlike(NO_RECIPE)
        return best

    def _equal_pairs(self, recipe: Recipe) -> Iterator[Pair]:
        eps = self._eps_now(recipe)
        for of_x, of_parameters in PAIRS:
            if not self.names and of_x != of_parameters:
                continue
            x, parameters = self.data.input(of_x), self.data.cast(of_parameters)
            narrowest = max(of_x, of_parameters, key=lambda dtype: ULP[dtype])
            theirs = self._result(x, parameters, of_x, of_parameters)
            if theirs is None:
                continue
            ours = self._ours(recipe, x, parameters, eps)
            if ours is not None and close(ours, theirs, self.columns, narrowest):
                yield of_x, of_parameters if self.names else None

    def _result(
        self, x: Tensor, parameters: dict[str, Tensor], of_x: torch.dtype, of_p: torch.dtype
    ) -> Any:
        """Return the module's result for a pair of dtypes, computed once; None if it has none."""
        known = self.__dict__.setdefault("results", {})
        if (of_x, of_p) not in known:
            try:
                known[of_x, of_p] = self.twin(x, parameters)
            except Exception:
                known[of_x, of_p] = None
        return known[of_x, of_p]

    def _check_gradients(self, recipe: Recipe) -> None:
        """Compare gradients in float32: a forward with a stopped gradient has others."""
        x, parameters = self.data.input(F32), self.data.cast(F32)
        leaves = [x, *parameters.values()]
        generator = torch.Generator().manual_seed(3)
        dy = torch.randn(x.shape, generator=generator).to(x.device)
        gradients = []
        with torch.enable_grad():
            for leaf in leaves:
                leaf.requires_grad_()
            for y in (
                self._run(x, parameters),
                self._ours(recipe, x, parameters, self._eps_now(recipe)),
            ):
                if y is None or not y.requires_grad:
                    raise _Unlike("its gradient is not that of the formula")
                gradients.append(torch.autograd.grad(y, leaves, dy, allow_unused=True))
        # A gradient sums rows or columns, fewer than all elements: the bound of close() for those.
        bound = ULP[F32] / 2 * (32 + math.sqrt(x.numel()))
        for theirs, ours in zip(*gradients, strict=True):
            if theirs is None or ours is None:
                raise _Unlike("its gradient is not that of the formula")
            if (ours - theirs).abs().max() > bound * theirs.abs().max():
                raise _Unlike("its gradient is not that of the formula")

    def _ranks(self, recipe: Recipe) -> Iterator[int]:
        """Yield the numbers of dimensions for which the recipe holds."""
        parameters, eps = self.data.cast(F32), self._eps_now(recipe)
        for leading in range(5):
            x = self.data.input(F32, leading)
            try:
                theirs = self.twin(x, parameters)
            except Exception:
                continue
            ours = self._ours(recipe, x, parameters, eps)
            if ours is not None and close(ours, theirs, self.columns, F32):
                yield x.dim()

    def _autocast(self, recipe: Recipe) -> str:
        """Find out what autocast does to the module: on CUDA by its rule, on the CPU by running."""
        eps, seen = self._eps_now(recipe), set()
        for of_x, of_parameters in recipe.pairs:
            if of_x not in (BF16, F16):
                continue
            x, parameters = self.data.input(of_x), self.data.cast(of_parameters or of_x)
            plain = self._ours(recipe, x, parameters, eps)
            cast = self._ours(
                recipe, x.float(), {name: p.float() for name, p in parameters.items()}, eps
            )
            with Float32List():
                on_cuda = self._run(x, parameters)
            with torch.autocast("cpu", dtype=BF16):
                on_cpu = self._run(x, parameters)
            if plain is None or not close(plain, on_cpu, self.columns, of_x):
                return "own"
            if close(plain, on_cuda, self.columns, of_x):
                seen.add("keep")
            elif cast is not None and close(cast, on_cuda, self.columns, F32):
                seen.add("cast")
            else:
                return "own"
        return seen.pop() if len(seen) == 1 else "own"
