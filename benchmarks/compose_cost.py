"""What composing costs, against LangChain's `trim_messages`: a list of 10,000 messages and a budget of 8,000 tokens.

Both take the newest turns that fit, behind the system message, each by exact o200k counts and by the estimate that it
comes with (`count_tokens_approximately` of theirs). Their list is converted beforehand, ours is converted as far as it
is read. Medians of CPU, in turns. Demands: at least 20 times faster by exact counts, 5 times by estimate. Exit status 1
when one is not met, 2 where langchain-core or the exact counter is not installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from _service_talk import service_talk

import novelo
from novelo.errors import MissingExtra
from novelo.tokens import counter

LEAST = {"o200k": 20.0, "estimate": 5.0}


def timed(action: Callable[[], Any]) -> float:
    """CPU seconds."""
    started = time.process_time()
    action()
    return time.process_time() - started


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--laps", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        from langchain_core.messages import convert_to_messages, trim_messages
        from langchain_core.messages.utils import count_tokens_approximately

        exact = counter("o200k").of_text
    except (ImportError, MissingExtra) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    talk = service_talk(given.messages // 2 + 1)
    messages = [message for (message, _), _ in zip(talk, range(given.messages), strict=False)]
    theirs = convert_to_messages(messages)
    counters = {"o200k": lambda found: sum(4 + exact(m.text) for m in found), "estimate": count_tokens_approximately}
    ratios = {}
    for name, count in counters.items():

        def trim(count: Any = count) -> Any:
            return trim_messages(
                theirs, max_tokens=8000, strategy="last", token_counter=count, start_on="human", include_system=True
            )

        def compose(name: str = name) -> Any:
            return novelo.compose(messages, "budget:8000", counter=name).messages()

        laps = [(timed(compose), timed(trim)) for _ in range(given.laps)]
        ours, peer = (statistics.median(lap[i] for lap in laps) for i in (0, 1))
        ratios[name] = peer / ours
        if not given.json:
            told = f"{1000 * ours:6.1f} ms against {1000 * peer:6.1f} ms"
            print(f"{name:10} {told}  {ratios[name]:6.1f} times faster  (at least {LEAST[name]:g})")
    if given.json:
        print(json.dumps(ratios))
    return int(any(ratios[name] < least for name, least in LEAST.items()))


if __name__ == "__main__":
    sys.exit(main())
