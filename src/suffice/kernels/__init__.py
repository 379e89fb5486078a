"""Compiled inner loops: arrays in, arrays out. They see rows and keep none of them.

Rows come as ``columns``, a C-ordered array of shape (width, rows) in which one feature is
contiguous, as Arrow delivers it; the inner loop runs along a feature and is vectorised. Work on a
tile of TILE rows stays inside the processor's cache. Each kernel has a numpy twin in the tests.

Sums are exact: x is put on a lattice as rint(x / step), at most LARGEST_CODE in size, and weights
are small integers. Integers below 2^53 add exactly in a float64, so sums run at the speed of
floats, in any order and in any split, and the result does not depend on either.

A kernel and everything it is compiled from stand in one file: numba dates its cache by that file.
"""
