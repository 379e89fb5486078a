"""Which release an owner should make: compared by public information alone."""
