"""What a prefix that holds still saves: a low mark, and summaries, against a cut at every turn.

A long service conversation (synthetic, `_service_talk.py`) is replayed under each policy, and the billed input tokens
are laid against those of the per-turn slide: `budget:8000` of ours, and beside it LangChain's `trim_messages` with the
same 8,000 tokens and the same counter, where it is installed. Summary calls are in the bill, at the full price; the
offline model writes them.

    plain     turns of like length; a token that the request before began with costs a tenth
    tools     the same, with a look-up in every third turn, its result about as long as an answer
    long      the same, with a result as long as several turns in every fourth: there the slide, too, drops a long turn
              and then holds for a while, so that less is saved
    openai …  the plain conversation by the providers' own rules: least lengths, steps, lifetimes, premiums for writing

Demands, in the plain conversation: with the low mark at most 0.16 of the slide, with summaries at most 0.18. Exit
status 1 when one is not met.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from _service_talk import service_talk

import novelo
from novelo.caching import CacheRules
from novelo.context import Draft
from novelo.messages import Message
from novelo.tokens import count_message

SLIDE, PEER = "budget:8000", "trim_messages"
MOST = {"budget:8000,low=4000": 0.16, "summarize:8000tokens,keep=2000tokens": 0.18}
SHOWN = "summarize:8000tokens,keep=4000tokens"
PLAIN = CacheRules("plain", least=1, lifetime_s=None)
MODELS = {"openai": None, "anthropic": "claude-sonnet-4-5", "gemini": None, "deepseek": None}


def peer() -> Callable[[Draft], list[Message]] | None:
    """LangChain's `trim_messages` as a policy for one conversation, as its guide sets it; None if not installed."""
    try:
        from langchain_core import messages as theirs
    except ImportError:
        return None
    kinds: dict[str, Any] = {"system": theirs.SystemMessage, "user": theirs.HumanMessage}
    made: dict[int, tuple[Any, int]] = {}  # position -> their message and its tokens, by our counter

    def of(position: int, message: Message) -> Any:
        if position not in made:
            if message.role == "assistant":
                calls = [{"id": c.id, "name": c.name, "args": json.loads(c.arguments)} for c in message.tool_calls]
                one: Any = theirs.AIMessage(message.text, tool_calls=calls, id=str(position))
            elif message.role == "tool":
                one = theirs.ToolMessage(message.text, tool_call_id=message.tool_call_id, id=str(position))
            else:
                one = kinds[message.role](message.text, id=str(position))
            made[position] = one, count_message(message)
        return made[position][0]

    def trim_messages(draft: Draft) -> list[Message]:
        entries = [*draft.opening, *(e for turn in draft.in_order() for e in turn.entries)]
        kept = theirs.trim_messages(
            [of(e.position, e.message) for e in entries],
            max_tokens=8000,
            strategy="last",
            token_counter=lambda found: sum(made[int(m.id)][1] for m in found),
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )
        ours = {str(e.position): e.message for e in entries}
        return [ours[m.id] for m in kept]

    return trim_messages


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    messages, times = zip(*service_talk(given.turns), strict=True)
    talks = {
        "plain": messages,
        "tools": [message for message, _ in service_talk(given.turns, looked_up=3, scans=4)],
        "long": [message for message, _ in service_talk(given.turns, looked_up=4)],
    }
    policies = [SLIDE, *MOST, SHOWN]
    reports = {}
    for name, talk in talks.items():
        theirs = peer()
        asked = policies if theirs is None else [*policies, theirs]
        reports[name] = novelo.backtest(talk, asked, cache=PLAIN, facts=None)
    for name, model in MODELS.items():
        reports[name] = novelo.backtest(messages, policies, cache=name, model=model, times=times, facts=None)
    ratios = {
        name: {row.policy: row.billed / report[SLIDE].billed for row in report.rows} for name, report in reports.items()
    }
    if given.json:
        print(json.dumps(ratios))
    else:
        _print(reports)
    return int(any(ratios["plain"][policy] > most for policy, most in MOST.items()))


def _print(reports: dict[str, Any]) -> None:
    """A line for each conversation and policy."""
    for name, report in reports.items():
        slides = {row.policy: row for row in report.rows if row.policy in (SLIDE, PEER)}
        for row in report.rows:
            told = f"{row.billed:11,.0f} billed tokens, {row.stable:4.0%} of prefixes held"
            told += f", {row.summary_calls} summary calls" if row.summary_calls else ""
            told += "" if row.valid else f", {row.refused + row.invalid} requests not valid"
            against = "  ".join(f"{row.billed / slide.billed:6.3f} of {slide.policy}" for slide in slides.values())
            demand = f"  (at most {MOST[row.policy]} of {SLIDE})" if name == "plain" and row.policy in MOST else ""
            print(f"{name:10} {row.policy:37} {told}\n{'':10} {against}{demand}")


if __name__ == "__main__":
    sys.exit(main())
