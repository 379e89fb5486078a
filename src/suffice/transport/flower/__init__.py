"""Many parties over Flower: one server app, one client app (extra ``[flower]``; docs/parties.md).

Flower carries the bytes of ``*.part`` files and nothing else. The aggregator sees every one of
them: this is transport, not secure aggregation.
"""
