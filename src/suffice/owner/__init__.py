"""The owner's side of the wall: private records live here and nowhere else.

`mean_operator` computes, `ledger` pays, `publish` lets go. What leaves is a Release.
"""
