"""What dates, times and durations are counted in."""

__all__ = ["TEMPORAL_UNITS"]

TEMPORAL_UNITS = ("days since 1970-01-01", "days since midnight", "days")
