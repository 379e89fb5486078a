"""Compiled inner loops: arrays in, arrays out. They see rows and keep none of them.

Matrices of rows are Fortran-ordered blocks (a column is contiguous, as Arrow delivers it), so the
inner loop runs down a column and is vectorised. Each kernel has a plain numpy twin in the tests.
"""
