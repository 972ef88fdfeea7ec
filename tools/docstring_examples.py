# SPDX-License-Identifier: Apache-2.0
"""For the Python reference (mkdocs.yml): doctest lines of a docstring become code blocks."""

import re
from typing import Any

import griffe


def as_markdown(text: str) -> str:
    """Put a fence around each paragraph that begins with ``>>>``; drop Sphinx's roles."""
    text = re.sub(r":(?:func|class|meth|mod|attr):`", "`", text)
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```pycon\n{paragraph}\n```" if paragraph.lstrip().startswith(">>>") else paragraph
        for paragraph in paragraphs
    )


class DocstringExamples(griffe.Extension):
    """Rewrites every docstring of the package once it is read."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Walk the package."""
        waiting: list[Any] = [pkg]
        while waiting:
            thing = waiting.pop()
            if thing.is_alias:
                continue
            if thing.docstring is not None:
                thing.docstring.value = as_markdown(thing.docstring.value)
            waiting += thing.members.values()
