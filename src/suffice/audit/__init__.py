"""The auditor's side: what leaves is attacked, and what attacks find is measured.

`registry` lists the cases, by family of mechanisms; `case` says what one is. `auditor` holds
mechanisms, and broken copies of each, against their own claims: a lower bound on epsilon from
outputs alone. Nothing here is ever part of a release.
"""
