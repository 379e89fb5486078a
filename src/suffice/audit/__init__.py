"""The auditor's side: what leaves is attacked, and what attacks find is measured.

`auditor` holds mechanisms, and broken twins of each, against their own claims: a lower bound on
epsilon from outputs alone. `rado_attacks` and `rado_joint` hold what Rademacher observations give
away. Nothing here is ever part of a release.
"""
