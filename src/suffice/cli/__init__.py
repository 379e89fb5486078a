"""The command line: one file per role, thin; every rule lives in the library."""
