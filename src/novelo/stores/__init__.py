"""Where threads are kept: `base.py` says what a store promises, one package an engine keeps it."""
