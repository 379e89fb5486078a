"""How PostgreSQL, SQLite and DuckDB are read: in one snapshot, and never written to."""
