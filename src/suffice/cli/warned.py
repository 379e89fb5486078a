"""What the owner alone may read: a line on the terminal that nothing else depends on."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from suffice.cli.output import say

__all__ = ["owner_warnings"]


@contextmanager
def owner_warnings() -> Iterator[None]:
    """Print warnings about shared rows on stderr, a line each, whatever Python was told of them."""
    from suffice.owner.overlap import SharedRowsWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", SharedRowsWarning)
        usual = warnings.showwarning

        def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
            if category is SharedRowsWarning:
                say(f"suffice: warning: {message}", error=True)
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        yield
