"""One BLAS thread for solvers, whose many small products are slower with two.

On two idle cores a fit of 20,000 rows of 60 numbers took three times as long with two threads as
with one, and on a busy machine, where they wait for each other, thirteen times.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let linear algebra use one thread; ``@one_blas_thread()`` does so for a function."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the libraries' switches; to look for them takes milliseconds."""
    return ThreadpoolController()
