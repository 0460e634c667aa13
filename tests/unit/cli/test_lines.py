"""Answers on a terminal: words stay whole however they come in, and nothing is lost."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as some

from novelo.cli.lines import Lines


def shown(pieces, width=None):
    """What stands on the terminal at the end."""
    out = io.StringIO()
    lines = Lines(out, width)
    for piece in pieces:
        lines.write(piece)
    lines.end()
    return out.getvalue()


def test_words_stay_whole():
    """A line ends between words, whatever the pieces; without a terminal nothing is broken."""
    text = "Olá! Sou o respondedor offline do Novelo: não sou um modelo."
    assert shown([text], 24) == "Olá! Sou o respondedor\noffline do Novelo: não\nsou um modelo."
    assert shown(list(text), 24) == shown([text], 24)
    assert shown([text]) == text


def test_signs_of_two_places_break_anywhere():
    """Chinese has no blanks: a line ends between signs, and none begins with a full stop."""
    assert shown(["咖啡机的保修期是 24 个月。谢谢"], 8) == "咖啡机的\n保修期是\n24 个\n月。谢谢"
    assert shown(["保修期是。"], 8) == "保修期\n是。"


@given(some.lists(some.text("ab é中。\n ", max_size=12)), some.integers(2, 20))
def test_nothing_is_lost(pieces, width):
    """All signs but the blanks at a break come out, in order, and the pieces make no difference."""
    whole = "".join(pieces)
    assert shown(pieces, width) == shown([whole], width)
    assert "".join(shown(pieces, width).split()) == "".join(whole.split())
