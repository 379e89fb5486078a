"""The service: proposals and grants over HTTP, with a ledger that several servers can share.

`settings` says what is served, `records` keeps proposals and tokens, `workers` opens private tables
in processes of their own, `app` answers requests. No other module of the package needs FastAPI.
"""
