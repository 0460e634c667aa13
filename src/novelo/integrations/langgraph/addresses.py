"""Which thread, namespace and checkpoint a configuration of LangGraph speaks of."""

from __future__ import annotations

from typing import NamedTuple

from langchain_core.runnables import RunnableConfig


class Addressed(str):
    """The id of a checkpoint that the caller named: a run from there begins a branch, and knows it."""

    __slots__ = ()


class Place(NamedTuple):
    """Which thread and namespace a configuration speaks of."""

    key: bytes
    owner: str
    thread_id: str
    ns: str
    id: str | None


def config_of(place: Place, name: str, ns: str | None = None) -> RunnableConfig:
    """The configuration of a checkpoint."""
    found = {"thread_id": place.thread_id, "checkpoint_ns": place.ns if ns is None else ns, "checkpoint_id": name}
    return {"configurable": {**found, "owner": place.owner} if place.owner else found}
