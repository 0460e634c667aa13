"""The reference store: threads in dicts, for tests and for reading."""

from novelo.stores.reference.store import ReferenceStore

__all__ = ["ReferenceStore"]
