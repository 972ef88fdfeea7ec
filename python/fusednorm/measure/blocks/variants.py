# SPDX-License-Identifier: Apache-2.0
"""The same block with other norms: none, native, converted, and with the residual add fused in.

All share one set of parameters, so that a large block fits once.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import fusednorm
from fusednorm.measure.blocks.modules import Block


class NotConverted(Exception):
    """Why a block is not what its variant says."""


def sharing_copy(block: Block) -> Block:
    """Copy the modules, not the parameters."""
    return copy.deepcopy(block, {id(p): p for p in block.parameters()})


def _none(block: Block) -> None:
    block.first_norm, block.second_norm = nn.Identity(), nn.Identity()


def _native(block: Block) -> None:
    pass


def _converted(block: Block) -> None:
    fusednorm.convert(block)
    for norm in (block.first_norm, block.second_norm):
        if type(norm) in (nn.LayerNorm, nn.RMSNorm):
            raise NotConverted(f"fusednorm.convert left {type(norm).__name__} alone")


def _ours(native: nn.Module) -> nn.Module:
    """Return a norm of this library with the parameters of a native one."""
    assert isinstance(native, nn.LayerNorm | nn.RMSNorm)
    norm: nn.Module
    if isinstance(native, nn.LayerNorm):
        norm = fusednorm.LayerNorm(native.normalized_shape, native.eps, device="meta")
        norm.bias = native.bias
    else:
        norm = fusednorm.RMSNorm(native.normalized_shape, native.eps, device="meta")
    norm.weight = native.weight
    return norm


def _fused_add(block: Block) -> None:
    block.first_norm, block.second_norm = _ours(block.first_norm), _ours(block.second_norm)
    block.fused_add = True


# In the order of the table. "none" keeps the residual adds: what it lacks are the norms alone.
VARIANTS: dict[str, Callable[[Block], None]] = {
    "none": _none,
    "native": _native,
    "converted": _converted,
    "fused add": _fused_add,
}


@dataclass(frozen=True)
class Step:
    """A block with its inputs: the calls that are timed."""

    block: Callable[..., tuple[Tensor, Tensor]]
    parameters: tuple[Tensor, ...]
    inputs: tuple[Tensor, Tensor]
    starts: tuple[Tensor, Tensor]  # gradients of the two outputs

    def forward(self) -> tuple[Tensor, ...]:
        """Run without recording, as in inference."""
        with torch.no_grad():
            return self.block(*self.inputs)

    def both(self) -> tuple[Tensor, ...]:
        """Run forward and backward; return outputs, then gradients of inputs and parameters."""
        outputs = self.block(*self.inputs)
        wanted = (*self.inputs, *self.parameters)
        return (*outputs, *torch.autograd.grad(outputs, wanted, self.starts))


def random_inputs(block: Block, device: str, dtype: torch.dtype) -> tuple[tuple[Tensor, ...], ...]:
    """Return the inputs of a block, and gradients of its outputs; the same each time."""
    size = block.attention.size
    generator = torch.Generator().manual_seed(2019)
    made = torch.randn(4, size.batch, size.tokens, size.hidden, generator=generator)
    x, residual, *starts = made.to(dtype).to(device).unbind()
    return (x.clone().requires_grad_(), residual.clone().requires_grad_()), tuple(starts)


def step_of(block: Block, mode: str, inputs: tuple[tuple[Tensor, ...], ...]) -> Step:
    """Return the calls of a block, eager or compiled."""
    run: Callable[..., tuple[Tensor, Tensor]] = block
    if mode == "compiled":
        run = torch.compile(block, fullgraph=True, dynamic=False)
    (x, residual), (dy, ds) = inputs
    return Step(run, tuple(block.parameters()), (x, residual), (dy, ds))
