# SPDX-License-Identifier: Apache-2.0
"""What the command line says in one line, with exit code 2, instead of a traceback."""


class BadInput(Exception):
    """Something that was asked for cannot be done; the text names it and what would do."""
