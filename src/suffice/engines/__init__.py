"""Where sums run. Every statistic is a monoid over record batches, the same on every engine."""
