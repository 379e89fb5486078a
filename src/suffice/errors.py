"""Every error that suffice raises on purpose, as one tree.

::

    SufficeError                      exit 1   500
    ├── UsageError                    exit 2   400   the call is wrong (also a ValueError)
    │   ├── ParameterError                           a parameter outside its domain
    │   │   ├── InvalidParameterError                of an estimator (learner/sklearn_names.py)
    │   │   └── MissingFigureError                   a figure that a model lacks (learner/base.py)
    │   ├── MissingPackageError                      a part that is not installed
    │   └── TableError                               rows that cannot be used
    │       ├── MissingValuesError                   missing values, and no rule for them
    │       └── StrangeLabelsError                   labels of no class (tables/columns.py)
    ├── ReleaseError                  exit 3   422   a file that must not be trusted
    │   ├── CorruptFileError                         bytes altered, cut off or malformed
    │   ├── UnsupportedFileError                     written by another version, or of another kind
    │   ├── SignatureError                           not signed with this key
    │   ├── ForeignRowsError                         these are not the rows it was computed on
    │   └── ForeignAnswerError                       it answers another proposal than this one
    ├── PrivacyError                  exit 4   403   it would break a guarantee
    │   ├── UnitError                                units do not match
    │   ├── UnprotectedError                         no guarantee, and unprotected not set
    │   └── BudgetError                              the budget does not allow it
    ├── LedgerError                   exit 5   409   the ledger cannot serve the request
    │   ├── RequestConflictError                     one request name, two different requests
    │   ├── ArchivedRequestError                     charged, and its output is in an archive
    │   ├── BurntRequestError                        charged, but its output was lost
    │   ├── PendingRequestError                      charged; its output is being computed
    │   └── LostEntriesError                         put back from a copy (owner/ledger/)
    ├── StorageError                  exit 6   507   the disk refused; no partial file
    ├── OptimisationError             exit 7   500   a solver stopped too early
    ├── EngineError                   exit 10  503   a cluster or its workers failed; try again
    └── ServiceError                  exit 11  502   a service was not reached, or refused

``exit_code`` is for shells, ``http_status`` for services; 8 and 9 are no errors but how ``suffice
grant`` ends when its answer is a counter or a refusal. A message says what to change.
It may name a column, a count or a public parameter; it never contains a record's value.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

# Which extra brings a package. Those of `tables` come with either role.
_ROLES = "learner]' to learn, or 'suffice[owner"
_EXTRAS = {
    "dp_accounting": "owner", "matplotlib": "plot", "mpmath": "owner", "numba": _ROLES,
    "onnx": "onnx", "opendp": "owner", "pyarrow": _ROLES, "scipy": _ROLES, "sklearn": "learner",
    "threadpoolctl": _ROLES,
}  # fmt: skip


class SufficeError(Exception):
    """Every error that suffice raises on purpose is one of these."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


class UsageError(SufficeError, ValueError):
    """The call is wrong. The caller can correct it."""

    exit_code = 2
    http_status = 400


class ParameterError(UsageError):
    """A parameter is outside its domain."""


class MissingPackageError(UsageError, ImportError):
    """A package is not installed that this needs. The message names the extra that brings it."""


def missing_package(error: ModuleNotFoundError) -> ImportError:
    """Return the error that says which extra brings a package; of others the error itself."""
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        return error
    return MissingPackageError(
        f"This needs {package}, which is not installed. Run pip install"
        f" 'suffice[{_EXTRAS[package]}]'."
    )


@contextmanager
def missing_packages() -> Iterator[None]:
    """Say which extra to install where an import inside fails for want of it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package(error) from None


class TableError(UsageError):
    """The rows cannot be used: a column, a type, a missing value or a class is wrong."""


class MissingValuesError(TableError):
    """A column has missing values, and no rule says how to replace them."""


class ReleaseError(SufficeError):
    """A file cannot be trusted or read."""

    exit_code = 3
    http_status = 422


class CorruptFileError(ReleaseError):
    """The file was altered, is cut off or is malformed."""


class UnsupportedFileError(ReleaseError):
    """The file has a version or kind that this version of suffice does not read."""


class SignatureError(ReleaseError):
    """The file is not signed with this key."""


class ForeignRowsError(ReleaseError):
    """The rows are not those that the release was computed on."""


class ForeignAnswerError(ReleaseError):
    """The answer, or its release, belongs to another proposal."""


class PrivacyError(SufficeError):
    """The operation would break a guarantee."""

    exit_code = 4
    http_status = 403


class UnitError(PrivacyError):
    """Guarantees about different units cannot be combined."""


class UnprotectedError(PrivacyError):
    """The release is not differentially private, and ``unprotected=True`` was not set."""


class BudgetError(PrivacyError):
    """The privacy budget does not allow the request."""


class LedgerError(SufficeError):
    """The ledger cannot be read, or cannot serve the request."""

    exit_code = 5
    http_status = 409


class RequestConflictError(LedgerError):
    """One request name was used for two different requests."""


class BurntRequestError(LedgerError):
    """The request was charged, but its output was lost. It is never drawn again."""


class ArchivedRequestError(LedgerError):
    """The request was charged, and its output was moved to an archive. It is never drawn again."""


class PendingRequestError(LedgerError):
    """The request was charged, and its output is still being computed."""


class StorageError(SufficeError):
    """The disk refused to read or write. No file was written in part."""

    exit_code = 6
    http_status = 507


class OptimisationError(SufficeError):
    """A solver stopped before its result was accurate enough."""

    exit_code = 7


class EngineError(SufficeError):
    """A cluster, its workers or the connection to them failed while they read rows."""

    exit_code = 10
    http_status = 503


class ServiceError(SufficeError):
    """A service was not reached, refused the request, or has no answer yet."""

    exit_code = 11
    http_status = 502
