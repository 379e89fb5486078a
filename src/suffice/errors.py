"""Every error that suffice raises on purpose, as one tree.

::

    SufficeError                      exit 1   500
    ├── UsageError                    exit 2   400   the call itself is wrong (also a ValueError)
    │   ├── ParameterError                           a parameter outside its domain
    │   │   ├── InvalidParameterError                of an estimator (learner/sklearn_names.py)
    │   │   └── MissingFigureError                   a figure that a model lacks (learner/base.py)
    │   └── TableError                               rows that cannot be used as asked
    │       ├── MissingValuesError                   no rule says what missing values become
    │       └── StrangeLabelsError                   labels of no class (tables/labels.py)
    ├── ReleaseError                  exit 3   422   a file that must not be trusted
    │   ├── CorruptFileError                         bytes altered, cut off or malformed
    │   ├── UnsupportedFileError                     written by another version, or of another kind
    │   ├── SignatureError                           not signed by the key that was given
    │   ├── ForeignRowsError                         these are not the rows it was computed on
    │   └── ForeignAnswerError                       it answers another proposal than this one
    ├── PrivacyError                  exit 4   403   it would break a promise
    │   ├── UnitError                                units of protection do not match
    │   ├── UnprotectedError                         no guarantee, and nobody said so aloud
    │   └── BudgetError                              the budget does not allow it
    ├── LedgerError                   exit 5   409   the ledger cannot answer
    │   ├── RequestConflictError                     one request name, two different requests
    │   ├── BurntRequestError                        paid for, but its output was lost
    │   ├── PendingRequestError                      paid for, and its output is still being made
    │   └── DataChangedError                         other data under the same name
    ├── StorageError                  exit 6   507   the disk refused; nothing was half written
    ├── OptimisationError             exit 7   500   a solver stopped short of its certificate
    └── EngineError                   exit 10  503   a cluster or its workers failed; try again

``exit_code`` is for shells, ``http_status`` for services; 8 and 9 are no errors but how ``suffice
grant`` ends when its answer is a counter or a refusal. A message says what to change.
It may name a column, a count or a public parameter; it never contains a record's value.
"""

from typing import ClassVar

__all__ = [
    "BudgetError",
    "BurntRequestError",
    "CorruptFileError",
    "DataChangedError",
    "EngineError",
    "ForeignAnswerError",
    "ForeignRowsError",
    "LedgerError",
    "MissingValuesError",
    "OptimisationError",
    "ParameterError",
    "PendingRequestError",
    "PrivacyError",
    "ReleaseError",
    "RequestConflictError",
    "SignatureError",
    "StorageError",
    "SufficeError",
    "TableError",
    "UnitError",
    "UnprotectedError",
    "UnsupportedFileError",
    "UsageError",
]


class SufficeError(Exception):
    """The root: everything that suffice raises on purpose."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500


class UsageError(SufficeError, ValueError):
    """The call is wrong and the caller can mend it."""

    exit_code = 2
    http_status = 400


class ParameterError(UsageError):
    """A parameter is outside its domain."""


class TableError(UsageError):
    """The rows cannot be used as asked: a column, a type, a missing value, a class."""


class MissingValuesError(TableError):
    """A column has missing values, and no rule says what they become."""


class ReleaseError(SufficeError):
    """A file from elsewhere cannot be trusted as it is."""

    exit_code = 3
    http_status = 422


class CorruptFileError(ReleaseError):
    """The bytes were altered, cut off or are malformed."""


class UnsupportedFileError(ReleaseError):
    """The file is well formed but of a version or kind that this library does not read."""


class SignatureError(ReleaseError):
    """The file is not signed by the key that was given."""


class ForeignRowsError(ReleaseError):
    """The rows are not those that the release was computed on."""


class ForeignAnswerError(ReleaseError):
    """The answer, or the release that it brought, belongs to another proposal."""


class PrivacyError(SufficeError):
    """Going on would break a promise."""

    exit_code = 4
    http_status = 403


class UnitError(PrivacyError):
    """Guarantees for different units of protection do not mix silently."""


class UnprotectedError(PrivacyError):
    """The release is not differentially private as a whole, and nobody accepted that aloud."""


class BudgetError(PrivacyError):
    """The privacy budget does not allow the request."""


class LedgerError(SufficeError):
    """The ledger cannot be read, or cannot answer."""

    exit_code = 5
    http_status = 409


class RequestConflictError(LedgerError):
    """One request name was used for two different requests."""


class BurntRequestError(LedgerError):
    """The request was paid for, but its output was lost; it is never drawn again."""


class PendingRequestError(LedgerError):
    """The request was paid for, and its output is still being made."""


class DataChangedError(LedgerError):
    """Other data were given under a name that the ledger knows."""


class StorageError(SufficeError):
    """The disk refused to read or write; nothing was half written."""

    exit_code = 6
    http_status = 507


class OptimisationError(SufficeError):
    """A solver stopped before it reached its certificate."""

    exit_code = 7


class EngineError(SufficeError):
    """A cluster, its workers or the way to them failed while they read rows."""

    exit_code = 10
    http_status = 503
