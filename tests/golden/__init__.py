"""Golden files: everything that the package publishes, as it was when the files were made."""
