"""The owner's side of the wall: private records live here and nowhere else.

`mechanism` is the contract of every release, `ledger` pays, `publish` lets go. What leaves is a
Release.
"""
