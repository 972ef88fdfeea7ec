# SPDX-License-Identifier: Apache-2.0
"""The contestants: every way to compute an operation, by its name."""

from fusednorm.measure.contestants import of_torch, ours, peers
from fusednorm.measure.contestants.contestant import EPS, Contestant, Norm, Way
from fusednorm.measure.mistakes import BadInput
from fusednorm.measure.problem import Case

__all__ = ["CONTESTANTS", "EPS", "Contestant", "Norm", "Way", "chosen", "present"]

CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        *(of_torch.composite_of_2019, of_torch.native, of_torch.compiled),
        *(peers.apex, peers.transformer_engine, peers.liger, peers.quack, peers.flash_attn),
        *(ours.unfused, ours.fused),
    )
}


def check_names(names: list[str] | None) -> None:
    """Raise BadInput where a name is no contestant's."""
    for name in names or []:
        if name not in CONTESTANTS:
            raise BadInput(f"--contestants {name}: expected some of {', '.join(CONTESTANTS)}")


def present(contestants: list[Contestant], case: Case) -> int:
    """Count those that will run ``case``: the others take no memory."""
    return sum(not contestant.absence(case) for contestant in contestants)


def chosen(names: list[str] | None, op: str) -> list[Contestant]:
    """Return the contestants of those names, in the order of the list.

    Where none is named: all that have ``op``, and the packages that have not, so that they are
    listed with the reason.
    """
    check_names(names)
    if names:
        return [c for c in CONTESTANTS.values() if c.name in names]
    return [c for c in CONTESTANTS.values() if op in c.ways or c.module]
