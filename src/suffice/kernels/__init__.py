"""Compiled inner loops: arrays in, arrays out. They see rows and keep none of them.

Rows come as ``columns``, a C-ordered array of shape (width, rows) in which one feature is
contiguous, as Arrow delivers it; the inner loop runs along a feature and is vectorised. Work on a
tile of TILE rows stays inside the processor's cache. Each kernel has a numpy twin in the tests.
"""

TILE = 256
