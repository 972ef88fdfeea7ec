# SPDX-License-Identifier: Apache-2.0
"""GB/s and the share of a copy, from the times that are printed beside them: medians.

problems/rates.h is the same for the tools in C++; test_measure_agreement.py holds the two together.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rates:
    """What every table, picture, page and file says of a time; computed nowhere else."""

    seconds: float  # the median of the rounds
    minimal_bytes: int
    copy_seconds: float  # the median of the fastest copy, in the same rounds
    copy_bytes: int

    @property
    def gigabytes_per_second(self) -> float:
        """Minimal bytes over the time."""
        return self.minimal_bytes / self.seconds * 1e-9

    @property
    def copy_gigabytes_per_second(self) -> float:
        """Bytes that a copy reads and writes over its time."""
        return self.copy_bytes / self.copy_seconds * 1e-9

    @property
    def seconds_as_copy(self) -> float:
        """The time in which a copy moves the minimal bytes."""
        return self.minimal_bytes / self.copy_gigabytes_per_second * 1e-9

    @property
    def share_of_copy(self) -> float:
        """That time over the one that was measured."""
        return self.seconds_as_copy / self.seconds

    def as_row(self) -> dict[str, Any]:
        """Return all of it under the names of a result's row."""
        return {
            "median_seconds": self.seconds,
            "minimal_bytes": self.minimal_bytes,
            "copy_seconds": self.copy_seconds,
            "copy_bytes": self.copy_bytes,
            "gigabytes_per_second": self.gigabytes_per_second,
            "copy_gigabytes_per_second": self.copy_gigabytes_per_second,
            "share_of_copy": self.share_of_copy,
        }


def rates(row: dict[str, Any]) -> Rates:
    """Return the rates of a row, also of one that was read from a file."""
    names = ("median_seconds", "minimal_bytes", "copy_seconds", "copy_bytes")
    return Rates(*(row[name] for name in names))
