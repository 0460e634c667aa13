"""LangGraph's own suite for checkpointers: every capability is found, and passes whole."""

from __future__ import annotations

import asyncio

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES

from fix_stores import encrypt
from novelo.integrations.langgraph import NoveloSaver


@pytest.fixture(scope="module", params=["sqlite", "postgres", "encrypted"])
def report(request, tmp_path_factory):
    """The outcome of the whole suite on a file, on a server, and on an encrypted file."""
    folder = tmp_path_factory.mktemp("conformance")
    if request.param == "postgres":
        url = f"{request.getfixturevalue('postgres')}?schema=conformance"
    else:
        url = f"sqlite:///{folder / 'a.db'}"

    @checkpointer_test(name="NoveloSaver")
    async def factory():
        async with NoveloSaver.from_conn_string(url) as saver:
            yield saver

    with pytest.MonkeyPatch.context() as patched:
        if request.param == "encrypted":
            encrypt(url, folder, patched)
        return asyncio.run(validate(factory))


@pytest.mark.parametrize("capability", sorted(c.value for c in ALL_CAPABILITIES))
def test_capability(report, capability):
    """A capability is there, and none of its tests fails or is skipped."""
    result = report.results[capability]
    assert result.detected
    assert not result.failures
    assert result.tests_passed > 0
    assert result.tests_failed == result.tests_skipped == 0
