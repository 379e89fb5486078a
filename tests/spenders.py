"""What processes that spend from a ledger have loaded before they begin."""

__all__ = ["PRELOADED"]

PRELOADED = ["suffice.owner.ledger", "suffice.owner.ledger.postgres", "suffice.privacy.accounting"]
