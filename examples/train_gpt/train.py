# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT on a text, once with native norms and once with fused ones.

Both start from the same weights and see the same batches, so the two loss curves lie on each other
until roundings have grown; the largest distance is printed. The text is the licence of this
project, or any file.

    python examples/train_gpt/train.py --plot curves.png
    python examples/train_gpt/train.py --norm rms --steps 500 --text book.txt
"""

import argparse
import copy
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import fusednorm

LICENCE = Path(__file__).parents[2] / "LICENSE"
# f32 roundings of a step are about 1e-7 of the loss and grow by some percent a step; the curves of
# a wrong gradient part within ten steps.
MOST_APART = 0.02


class Block(nn.Module):
    """Attention and a feed-forward layer, each behind a norm."""

    def __init__(self, width: int, heads: int, norm: type[nn.Module]) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = norm(width), norm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, time, width] to the same."""
        batch, steps, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, steps, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, steps, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Characters in, logits of the next character out."""

    def __init__(
        self, vocabulary: int, context: int, width: int, layers: int, norm: type[nn.Module]
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, 4, norm) for _ in range(layers)))
        self.norm, self.head = norm(width), nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [batch, time, vocabulary]."""
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def train(model: nn.Module, data: Tensor, steps: int, context: int) -> tuple[list[float], float]:
    """Return the loss of each step, and the seconds taken."""
    batches = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    begin = time.perf_counter()
    for _ in range(steps):
        starts = torch.randint(len(data) - context - 1, (16,), generator=batches)
        window = data[starts[:, None] + torch.arange(context + 1)]
        logits = model(window[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - begin


def draw(path: str, curves: dict[str, list[float]]) -> None:
    """Draw both curves, and their distance below."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7, 5), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    for (name, losses), style in zip(curves.items(), ("-", "--"), strict=True):
        above.plot(losses, style, label=name)
    above.set_ylabel("loss")
    above.legend()
    native, fused = curves.values()
    below.semilogy([abs(a - b) + 1e-9 for a, b in zip(native, fused, strict=True)], color="gray")
    below.set_ylabel("distance")
    below.set_xlabel("step")
    figure.savefig(path, dpi=120)


def main() -> int:
    """Train twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--norm", choices=["layer", "rms"], default="layer")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--text", type=Path, default=LICENCE)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args()

    text = arguments.text.read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    norm = nn.LayerNorm if arguments.norm == "layer" else nn.RMSNorm
    torch.manual_seed(0)
    shape = (arguments.context, arguments.width, arguments.layers)
    native = GPT(len(letters), *shape, norm)
    fused = fusednorm.convert(copy.deepcopy(native))
    pairs = zip(native.modules(), fused.modules(), strict=True)
    converted = sum(type(ours) is not type(theirs) for theirs, ours in pairs)
    wanted = 2 * arguments.layers + 1
    if converted != wanted:
        print(f"converted {converted} of {wanted} norms", file=sys.stderr)
        return 1

    curves = {}
    for name, model in (("native", native), ("fusednorm", fused)):
        curves[name], seconds = train(model, data, arguments.steps, arguments.context)
        first, last = curves[name][0], curves[name][-1]
        print(f"{name:10} loss {first:.4f} -> {last:.4f}   {seconds:.1f} s")
    apart = max(abs(a - b) for a, b in zip(*curves.values(), strict=True))
    print(f"the curves are at most {apart:.1e} apart over {arguments.steps} steps")
    if arguments.plot:
        draw(arguments.plot, curves)
        print(f"drawn: {arguments.plot}")
    return 0 if apart < MOST_APART else 1


if __name__ == "__main__":
    sys.exit(main())
