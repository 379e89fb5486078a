"""Lines for whoever runs a program: what was found in a table, what was left out, what looks odd.

They go to the logger ``suffice``: the command line prints them, a program is silent unless it
listens. A note is about what is public, or about what the caller may see: others can read the
terminal.
"""

import logging

__all__ = ["LOGGER", "note"]

LOGGER = logging.getLogger("suffice")


def note(line: str) -> None:
    """Hand a line to whoever listens."""
    LOGGER.info(line)
