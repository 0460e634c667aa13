"""Settings from a `.env` file."""

import os

import pytest

from novelo.errors import InvalidSpec
from novelo.models.env import load_environment, setting


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """A working folder of its own, and an environment that is put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return tmp_path


def test_a_file_above_the_working_folder_is_found(empty, monkeypatch):
    """A `.env` in the working folder or above it must be read, and named in return."""
    (empty / ".env").write_text("MODEL_NAME=pequeno\nOPENAI_API_KEY='k'\n")
    (empty / "inner").mkdir()
    monkeypatch.chdir(empty / "inner")
    assert load_environment() == empty / ".env"
    assert (setting("MODEL_NAME"), setting("OPENAI_API_KEY")) == ("pequeno", "k")


def test_what_is_set_already_wins(empty):
    """A variable that the environment has must not be overwritten by the file."""
    os.environ["MODEL_NAME"] = "meu"
    (empty / "other.env").write_text("MODEL_NAME=outro\nOPENAI_API_BASE=http://127.0.0.1:1/v1\n")
    load_environment(empty / "other.env")
    assert setting("MODEL_NAME") == "meu"
    assert setting("OPENAI_BASE_URL", "OPENAI_API_BASE") == "http://127.0.0.1:1/v1"


def test_no_file_is_no_error_but_a_wrong_name_is(empty):
    """Without any `.env` nothing happens; a file that was asked for by name and is missing or no text is refused."""
    assert load_environment() is None
    with pytest.raises(InvalidSpec, match="no such file"):
        load_environment(empty / "absent.env")
    (empty / "bad.env").write_bytes(b"A=\xff\xfe\n")
    with pytest.raises(InvalidSpec, match="not UTF-8"):
        load_environment(empty / "bad.env")


def test_blank_variables_say_nothing(empty):
    """A variable that is set to nothing must count as not set."""
    os.environ["OPENAI_BASE_URL"] = "  "
    assert setting("OPENAI_BASE_URL") is None
