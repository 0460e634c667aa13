"""What a cut that holds still saves: `budget:8000,low=4000` against the per-turn slide of `budget:8000`.

A long service conversation (synthetic, `_service_talk.py`) is replayed under both. Where the prompt cache is a plain
one, a token that the request before began with costs a tenth; shown beside it are the providers' own rules: least
lengths, steps, lifetimes by the moments of the messages, premiums for writing. "uneven" is the plain cache again, where
every fourth turn looks an order up, with a result as long as several turns: there the slide, too, drops a long turn and
then holds for a while, so that less is saved. Demand: with the low mark the billed input tokens are at most 0.16 of
those of the slide, in the plain cache over even turns. Exit status 1 when it is not met.
"""

from __future__ import annotations

import argparse
import json
import sys

from _service_talk import service_talk

import novelo
from novelo.caching import CacheRules

SLIDE, HOLD, MOST = "budget:8000", "budget:8000,low=4000", 0.16
PLAIN = CacheRules("plain", least=1, lifetime_s=None)
MODELS = {"openai": None, "anthropic": "claude-sonnet-4-5", "gemini": None, "deepseek": None}


def main() -> int:
    """Measure, print, and say whether the demand is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    messages, times = zip(*service_talk(given.turns), strict=True)
    reports = {"plain": novelo.backtest(messages, [SLIDE, HOLD], cache=PLAIN)}
    for name, model in MODELS.items():
        reports[name] = novelo.backtest(messages, [SLIDE, HOLD], cache=name, model=model, times=times)
    uneven = [message for message, _ in service_talk(given.turns, looked_up=4)]
    reports["uneven"] = novelo.backtest(uneven, [SLIDE, HOLD], cache=PLAIN)
    ratios = {name: report[HOLD].billed / report[SLIDE].billed for name, report in reports.items()}
    if given.json:
        print(json.dumps(ratios))
    else:
        for name, ratio in ratios.items():
            slide, hold = reports[name][SLIDE], reports[name][HOLD]
            told = f"{slide.billed:11,.0f} and {hold.billed:9,.0f} billed tokens, {hold.stable:.2f} of prefixes held"
            print(f"{name:10} {ratio:.3f} times  {told}" + (f"  (at most {MOST})" if name == "plain" else ""))
    return int(ratios["plain"] > MOST)


if __name__ == "__main__":
    sys.exit(main())
