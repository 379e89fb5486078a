"""The service: proposals and grants over HTTP, with a ledger that several servers can share.

`settings` says what is served, `desk` keeps proposals and tokens, `jobs` opens private tables in
worker processes, `app` answers requests. No other module of the package needs FastAPI.
"""
