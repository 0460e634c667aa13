"""What lies apart from a database, and what a database does that has it: begin with `base.py`."""
