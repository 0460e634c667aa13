"""Providers' forms and ours: each file translates one of them both ways."""
