"""The owner's side of the wall: private records live here and nowhere else.

`mechanism` is the contract of every release, `ledger` charges the budget, and `publish` stores what
is released. What leaves is a Release.
"""
