"""Novelo: the memory of a conversation. Everything is kept, little is sent, and what is sent is always valid."""

__all__: list[str] = []
