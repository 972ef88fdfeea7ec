# SPDX-License-Identifier: Apache-2.0
"""A BERT block and a Llama block in plain PyTorch.

Both take the output of the part before and the residual stream, and return the same of their own,
so that a block has what a layer inside a model has: two residual adds and two norms.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention, silu

from fusednorm.measure.blocks.sizes import Size

EPS = 1e-5


class Rotation(nn.Module):
    """Rotary position embedding: pairs of a head's elements turn with the position."""

    cos: Tensor
    sin: Tensor

    def __init__(self, tokens: int, head: int) -> None:
        super().__init__()
        speeds = 10000.0 ** (-torch.arange(0, head, 2) / head)
        angles = torch.outer(torch.arange(tokens), speeds)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, x: Tensor) -> Tensor:
        """Turn the heads of ``x``: batch, heads, tokens, width."""
        first, second = x.chunk(2, -1)
        turned = (first * self.cos - second * self.sin, second * self.cos + first * self.sin)
        return torch.cat(turned, -1)


class Attention(nn.Module):
    """Self-attention; causal, with rotation and grouped keys, for Llama."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size, llama = size, size.kind == "llama"
        self.query = nn.Linear(size.hidden, size.hidden, bias=not llama)
        self.key = nn.Linear(size.hidden, size.kv_heads * size.head, bias=not llama)
        self.value = nn.Linear(size.hidden, size.kv_heads * size.head, bias=not llama)
        self.output = nn.Linear(size.hidden, size.hidden, bias=not llama)
        self.turn = Rotation(size.tokens, size.head) if llama else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Attend: batch, tokens, hidden."""

        def heads(t: Tensor) -> Tensor:
            return t.unflatten(-1, (-1, self.size.head)).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        llama, grouped = self.size.kind == "llama", self.size.kv_heads < self.size.heads
        attended = scaled_dot_product_attention(
            self.turn(q), self.turn(k), v, is_causal=llama, enable_gqa=grouped
        )
        return self.output(attended.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    """Two linear layers with GELU between them, or Llama's gated three."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.hidden, size.mlp, bias=False) if size.kind == "llama" else None
        self.up = nn.Linear(size.hidden, size.mlp, bias=size.kind == "bert")
        self.down = nn.Linear(size.mlp, size.hidden, bias=size.kind == "bert")

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        if self.gate is None:
            return self.down(gelu(self.up(x)))
        return self.down(silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """What both blocks share: an add and a norm, unfused or as one call of the norm."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        layer = nn.LayerNorm if size.kind == "bert" else nn.RMSNorm
        self.attention, self.mlp = Attention(size), Mlp(size)
        self.first_norm: nn.Module = layer(size.hidden, eps=EPS)
        self.second_norm: nn.Module = layer(size.hidden, eps=EPS)
        self.fused_add = False

    def add_norm(self, norm: nn.Module, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norm of the sum, and the sum."""
        if self.fused_add:
            return norm(x, residual)
        total = x + residual
        return norm(total), total


class BertBlock(Block):
    """The norm of each sum is what goes on."""

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Add and norm what the MLP before made, attend, add and norm, MLP."""
        h, _ = self.add_norm(self.first_norm, x, residual)
        h, _ = self.add_norm(self.second_norm, self.attention(h), h)
        return self.mlp(h), h


class LlamaBlock(Block):
    """The sums are the residual stream; the norms feed the parts."""

    def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Add and norm what the MLP before made, attend, add and norm, MLP."""
        h, stream = self.add_norm(self.first_norm, x, residual)
        h, stream = self.add_norm(self.second_norm, self.attention(h), stream)
        return self.mlp(h), stream


def build(size: Size) -> Block:
    """Return a block with random weights, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2019)
        return BertBlock(size) if size.kind == "bert" else LlamaBlock(size)
