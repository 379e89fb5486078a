"""The privacy ledger: a budget for each data set, and a record of everything that was charged.

`ledger` says in which order things happen, `rules` what may be charged, `log` how entries are
chained, and `store` keeps all of it in a file, `postgres` in a database.
"""

from suffice.owner.ledger.ledger import Ledger
from suffice.owner.ledger.rules import Balance, DatasetCharge, Entry, Made, Request

__all__ = ["Balance", "DatasetCharge", "Entry", "Ledger", "Made", "Request"]
