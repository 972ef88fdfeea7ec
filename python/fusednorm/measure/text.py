# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text: the same on a terminal and in a pipe."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Lay out a table whose first ``words`` columns are text and the rest numbers.

    >>> print(table(["name", "time"], [["native", "9 ms"], ["fused", "10 ms"]]))
    name     time
    -------------
    native   9 ms
    fused   10 ms
    """
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        line = [text.ljust(width) for text, width in zip(row[:words], widths, strict=False)]
        line += [t.rjust(w) for t, w in zip(row[words:], widths[words:], strict=True)]
        lines.append("  ".join(line).rstrip())
    lines.insert(1, "-" * (sum(widths) + 2 * (len(widths) - 1)))
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Write a time with three digits.

    >>> duration(0.0123456), duration(4.2e-6), duration(2.5)
    ('12.3 ms', '4.20 us', '2.50 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale or unit == "us":
            value = seconds / scale
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {unit}"
    raise AssertionError("unreachable")


def size(count: float) -> str:
    """Write a number of bytes with four digits.

    >>> size(100663296), size(24960), size(12)
    ('100.7 MB', '24.96 kB', '12 bytes')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return f"{count:g} bytes"


def times(ratio: float | None) -> str:
    """Write a ratio.

    >>> times(2.46), times(13.2), times(None)
    ('2.5x', '13x', '-')
    """
    if ratio is None:
        return "-"
    return f"{ratio:.2f}x" if ratio < 1 else f"{ratio:.1f}x" if ratio < 10 else f"{ratio:.0f}x"


def percent(share: float) -> str:
    """Write a share.

    >>> percent(0.934), percent(0.002)
    ('93 %', '0.2 %')
    """
    return f"{share * 100:.1f} %" if share < 0.01 else f"{share * 100:.0f} %"
