"""Learning from noisy second moments alone: no row is needed.

`estimates` cleans the numbers of a release, `directions` finds the weights of coordinates and how
far to trust them, `quality` says what to expect of them, `intervals` how the noise has moved them.
"""
