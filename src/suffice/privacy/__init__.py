"""Numbers in, guarantees out. Nothing here knows what a table is.

`guarantee` says what is protected, `events` what happened once, `accounting` what several events
cost together, `calibrate` how much noise a promise takes; `noise`, `knorm` and `response` draw it
from `randomness`, and ``proofs/`` says why it is enough.
"""
