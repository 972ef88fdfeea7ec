# SPDX-License-Identifier: Apache-2.0
"""Results on disk: JSON, CSV, and the file that lets a sweep go on where it stopped."""

import csv
import json
from pathlib import Path
from typing import Any

from fusednorm.measure import environment
from fusednorm.measure.mistakes import BadInput

Row = dict[str, Any]


def check_writable(option: str, path: str | None) -> None:
    """Raise BadInput where a result could not be written: before the time to measure is spent."""
    if path is None:
        return
    there = Path(path).exists()
    try:
        with Path(path).open("a"):
            pass
        if not there:
            Path(path).unlink()
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be written ({error.strerror})") from error


def make_directory(option: str, path: str | None) -> None:
    """Create a directory, or raise BadInput."""
    if path is None:
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be created ({error.strerror})") from error


def write_whole(path: str, text: str) -> None:
    """Write a file that is complete or not there, whatever happens meanwhile."""
    if Path(path).exists() and not Path(path).is_file():  # a pipe or a terminal
        Path(path).write_text(text, encoding="utf-8")
        return
    part = Path(f"{path}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write a document for machines."""
    write_whole(path, json.dumps(document, indent=1) + "\n")


def read_json(option: str, path: str, kind: str) -> dict[str, Any]:
    """Read what ``write_json`` wrote of a ``kind``."""
    try:
        document = json.loads(Path(path).read_text())
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise BadInput(f"{option} {path}: is not JSON ({error})") from error
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise BadInput(f"{option} {path}: expected what `python -m fusednorm {kind} --json` writes")
    return document


def write_csv(path: str, rows: list[Row]) -> None:
    """Write one line a measurement; the errors each in a column of their own."""
    flat = [
        {k: v for k, v in row.items() if k != "errors"}
        | {f"error_{name}": error for name, error in row["errors"].items()}
        for row in rows
    ]
    names = list(dict.fromkeys(name for row in flat for name in row))  # operations differ
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, names or ["op"])
        writer.writeheader()
        writer.writerows(flat)


class Resume:
    """A file of finished cases, one a line, behind a line that says where they were measured."""

    def __init__(self, path: str | None, facts: dict[str, str]) -> None:
        self.path = Path(path) if path else None
        self.done: dict[str, dict[str, Any]] = {}
        if self.path is None:
            return
        check_writable("--resume", path)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        if not lines:
            self._append({"environment": facts})
            return
        try:
            then = json.loads(lines[0])["environment"]
            # A last line that was cut short by a crash is measured again.
            complete = [json.loads(line) for line in lines[1:] if line.endswith("}")]
            self.done = {record["key"]: record for record in complete}
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"--resume {path}: is not a file of this command") from error
        for fact in environment.SAME:
            if fact != "threads" and then.get(fact) != facts.get(fact):
                raise BadInput(
                    f"--resume {path}: was measured with {fact} {then.get(fact)!r}, "
                    f"this is {facts.get(fact)!r}; name a new file"
                )

    def _append(self, record: dict[str, Any]) -> None:
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(record) + "\n")

    def add(self, key: str, rows: list[Row], absent: dict[str, str]) -> None:
        """Keep a finished case."""
        self._append({"key": key, "rows": rows, "absent": absent})
