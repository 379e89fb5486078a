"""Whether anything but the noise depends on a secret: neighbouring data through real releases.

`exercise` says how each mechanism is exercised, `neighbours` makes tables that differ in one unit,
`forms` hands them over as arrays and files, `shown` is what others see of a release, and `checking`
compares it pair by pair. `histories` compares several releases of data that change.
"""
