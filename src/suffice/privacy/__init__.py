"""From numbers to guarantees. Nothing in this package knows what a table is.

`guarantee` says what is protected, also in sentences, and what it means for a reader's belief.
`events` holds privacy losses, `accounting` adds them up, and `calibrate` computes how much noise a
guarantee needs. `noise`, `knorm` and `response` draw noise from `randomness`, and ``proofs/`` shows
why it is enough.
"""
