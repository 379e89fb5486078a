"""The auditor's side: attacks on what leaves, each with a success rate that is measured.

`rado_attacks` and `rado_joint` hold what Rademacher observations give away.
"""
