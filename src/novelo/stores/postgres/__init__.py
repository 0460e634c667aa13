"""The store for several machines: one PostgreSQL database, many processes."""
