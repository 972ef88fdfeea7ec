# SPDX-License-Identifier: Apache-2.0
"""Says on a terminal what is running and how much time is left; silent in a pipe."""

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A bar on standard error; where rich is missing, or there is no terminal, nothing."""

    def __init__(self, steps: int, title: str) -> None:
        self.bar: Any = None
        if not sys.stderr.isatty():
            return
        try:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                TextColumn,
                TimeRemainingColumn,
            )
            from rich.progress import Progress as Bar
        except ImportError:
            return
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            # What is printed while the bar is there goes above it, on its own stream.
            redirect_stdout=sys.stdout.isatty(),
        )
        self.task = self.bar.add_task(title, total=steps)
        self.started = False

    def step(self, what: str) -> None:
        """Say what begins; what was running before is done."""
        if self.bar is not None:
            self.bar.update(self.task, description=what, advance=int(self.started))
            self.started = True

    def __enter__(self) -> "Progress":
        """Show the bar."""
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.stop()
