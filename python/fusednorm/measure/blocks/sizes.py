# SPDX-License-Identifier: Apache-2.0
"""The sizes of the blocks that are measured."""

from dataclasses import dataclass, replace
from typing import Any

from fusednorm.measure.mistakes import BadInput


@dataclass(frozen=True)
class Size:
    """One block of a model, and how many tokens go through it."""

    name: str
    kind: str  # bert: LayerNorm after the residual add; llama: RMSNorm before each part
    hidden: int
    heads: int
    kv_heads: int
    mlp: int
    batch: int
    tokens: int

    @property
    def head(self) -> int:
        """The width of a head."""
        return self.hidden // self.heads

    def check(self) -> None:
        """Raise BadInput where the numbers do not fit each other."""
        if self.hidden % self.heads or self.heads % self.kv_heads or self.head % 2:
            raise BadInput(
                f"{self.name}: expected heads of an even width, and as many query heads for each "
                f"key head, but hidden is {self.hidden}, heads {self.heads} and key heads "
                f"{self.kv_heads}"
            )

    def __str__(self) -> str:
        shape = f"hidden {self.hidden}, MLP {self.mlp}, {self.heads} heads"
        return f"{self.name} ({shape}, {self.batch} x {self.tokens} tokens)"


SIZES = {
    size.name: size
    for size in (
        Size("bert-base", "bert", 768, 12, 12, 3072, batch=4, tokens=128),
        Size("bert-large", "bert", 1024, 16, 16, 4096, batch=16, tokens=512),
        Size("llama-1b", "llama", 2048, 32, 8, 8192, batch=1, tokens=256),
        Size("llama-8b", "llama", 4096, 32, 8, 14336, batch=2, tokens=2048),
    )
}
# A step of some seconds at most: two cores do about 100 GFLOP/s, a GPU a thousand times that.
DEFAULTS = {"cpu": ["bert-base", "llama-1b"], "cuda": ["bert-large", "llama-8b"]}


def sizes(names: list[str] | None, device: str, changes: dict[str, int | None]) -> list[Size]:
    """Return the sizes of those names, or of the device; each with the numbers that were given."""
    found = []
    for name in names or DEFAULTS[device.partition(":")[0]]:
        if name not in SIZES:
            raise BadInput(f"--block {name}: expected some of {', '.join(SIZES)}")
        given: dict[str, Any] = {k: v for k, v in changes.items() if v is not None}
        if "heads" in given and "kv_heads" not in given:
            given["kv_heads"] = given["heads"]
        size = replace(SIZES[name], **given)
        size.check()
        found.append(size)
    return found
