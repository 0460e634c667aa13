"""What a low mark saves on a server that caches prefixes: llama.cpp, `budget:1000` against `budget:1000,low=400`.

Sixty turns of about 100 tokens each are taken in real threads: a question of 20, a reply of 70 (as long to each other
as in our other measurements), and the marks around them. The plain budget moves the beginning of the context at every
turn, and the server evaluates everything behind it again; with a low mark the cut is deep, then holds still, and only
what is new is evaluated. Counted is prompt less cached tokens, as the server tells in `usage`, and the seconds it took
for the prompts; writing the replies costs the same on both sides and is left out.

Replies are the model's own, whatever it says, as in any chat: the server has them in its cache from writing them. With
`--scripted` they are written beforehand, the same for both policies, and must be evaluated when they come back in the
next prompt: that is the least that a cache can save, and its figures are only shown.

Tokens are Gemma's throughout: budgets are counted by the server's own tokenizer, to which the template adds some marks.
Our estimate, which budgets count by unless told otherwise, gave 0.8 of these counts for such Portuguese and 0.65 for
what this model says. Each policy has a server of its own, with one slot and a cold cache, on one thread of the
processor: with two, any other load makes small prompts several times slower. The turns of both alternate, so that such
load meets both. Demand: at most 0.15 of the tokens and of the seconds. Exit status 1 when it is not met. Needs the
extras `local` and `openai`; no network.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass

import openai
from store_cost import sentences

import novelo
from novelo.models.local import LocalServer

CTX = 4096
POLICIES = ("budget:1000", "budget:1000,low=400")
REPLY = 70  # tokens that the model writes; nobody reads them
MOST = 0.15


@dataclass
class Spent:
    """What one policy cost over all turns; `said` are the tokens of the whole thread."""

    prompt: int = 0
    evaluated: int = 0
    said: int = 0
    seconds: float = 0.0
    with_replies: float = 0.0


def question_of(k: int) -> str:
    """About 20 tokens."""
    rng = random.Random(k)
    return f"Pedido {rng.randrange(10**5, 10**6)}: {sentences(rng, 20)}"


def scripted_reply(k: int) -> str:
    """About 70 tokens."""
    return sentences(random.Random(-k), 330)


def tokenizer(server: LocalServer):
    """The server's own: text -> tokens."""
    address = server.base_url.removesuffix("/v1") + "/tokenize"

    def gemma(text: str) -> int:
        body = json.dumps({"content": text}).encode()
        asked = urllib.request.Request(address, body, {"content-type": "application/json"})
        with urllib.request.urlopen(asked) as answer:
            return len(json.load(answer)["tokens"])

    return gemma


def arm(policy: str, turns: int, scripted: bool) -> Iterator[Spent]:
    """Take all turns under one policy, on a server that has seen nothing; what was spent so far, turn by turn."""
    spent = Spent()
    with ExitStack() as opened:
        server = opened.enter_context(LocalServer(ctx=CTX, threads=1))
        memory = opened.enter_context(novelo.open("sqlite://", policy=policy, counter=tokenizer(server)))
        client = opened.enter_context(openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0))
        thread = memory.thread("t")
        for k in range(turns):
            with thread.turn(question_of(k)) as turn:
                messages = turn.messages()
                started = time.perf_counter()
                answer = client.chat.completions.create(
                    model="local",
                    messages=messages,
                    max_tokens=1 if scripted else REPLY,
                    temperature=0.8,
                    seed=k,
                    extra_body={"ignore_eos": True},
                )
                spent.with_replies += time.perf_counter() - started
                turn.reply(scripted_reply(k) if scripted else answer.choices[0].message.content)
            cached = answer.usage.prompt_tokens_details.cached_tokens
            if k == 0 and cached:
                raise SystemExit(f"the cache was not cold: {cached} tokens of the first prompt were there")
            spent.prompt += answer.usage.prompt_tokens
            spent.evaluated += answer.usage.prompt_tokens - cached
            spent.seconds += answer.model_dump()["timings"]["prompt_ms"] / 1000
            spent.said = thread.row.running
            yield spent


def main() -> int:
    """Measure, print, and say whether the demands are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--scripted", action="store_true", help="replies that are written beforehand")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    *_, arms = zip(*(arm(policy, given.turns, given.scripted) for policy in POLICIES), strict=True)
    slide, held = arms
    ratios = {"tokens": held.evaluated / slide.evaluated, "seconds": held.seconds / slide.seconds}
    missed = int(not given.scripted and max(ratios.values()) > MOST)
    if given.json:
        print(json.dumps({"arms": dict(zip(POLICIES, map(asdict, arms), strict=True)), "ratios": ratios}))
        return missed
    print(f"{given.turns} turns, a context of {CTX} at the server")
    heads = ("prompts", 8), ("evaluated", 10), ("seconds", 8), ("with replies", 13), ("a turn", 7)
    print(f"{'policy':22}", *(f"{name:>{width}}" for name, width in heads))
    for policy, spent in zip(POLICIES, arms, strict=True):
        print(
            f"{policy:22} {spent.prompt:8,} {spent.evaluated:10,} {spent.seconds:8.1f} {spent.with_replies:13.1f}"
            f" {spent.said / given.turns:7.0f}"
        )
    for name, ratio in ratios.items():
        print(f"ratio of {name:14} {ratio:7.3f}  ({'shown only' if given.scripted else f'at most {MOST}'})")
    return missed


if __name__ == "__main__":
    sys.exit(main())
