"""Values that show themselves without what was said: their reprs land in logs and tracebacks."""

from __future__ import annotations

from typing import Any


class Quiet:
    """For a struct: its repr leaves out the fields that hold content, and says how long they are."""

    __slots__ = ()
    SAID = frozenset[str]()

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({', '.join(shown)})"

    def __rich_repr__(self) -> Any:
        """The same for rich, which shows tracebacks with their values."""
        for name in getattr(self, "__struct_fields__", ()):
            value = getattr(self, name)
            yield name, _Size(value) if name in self.SAID and value else value


class _Size:
    """Stands for something that is not shown."""

    def __init__(self, value: Any) -> None:
        self._size = len(value) if hasattr(value, "__len__") else 1

    def __repr__(self) -> str:
        return f"<{self._size}>"
