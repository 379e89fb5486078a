"""The decorator of every kernel: compiled once, kept beside the source where that is possible.

numba refuses to import a kernel that has no place to keep what it compiled. A system user without a
home on a read-only file system has none. Then a kernel reads what was kept beside it before
(`deploy/Containerfile` makes one release while the image is built), and compiles what is missing
anew in each process. A full disk costs time, and no release.
"""

from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator


class _Ignored(suppress, ContextDecorator):
    """Ignores errors of a function that it decorates."""


class _Beside(InTreeCacheLocator):
    """Finds what is kept beside the source, also where nothing can be written."""

    def ensure_cache_path(self) -> None:
        """Ask for nothing: what is not there is compiled."""


class _Places(CompileResultCacheImpl):
    _locator_classes = (*CompileResultCacheImpl._locator_classes, _Beside)  # noqa: SLF001  # no public way


class _Cache(FunctionCache):
    _impl_class = _Places
    save_overload = _Ignored(OSError)(FunctionCache.save_overload)


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function, without the interpreter's lock.

    ``options`` are further ones of ``numba.njit``.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(nogil=True, boundscheck=False, **options)(function)
        dispatcher._cache = _Cache(function)  # noqa: SLF001  # as `cache=True` sets it
        return dispatcher

    return compiled
