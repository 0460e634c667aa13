"""Novelo inside other things; each module needs the extra of its name."""
