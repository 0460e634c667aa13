"""Is every context valid? Real conversations, cut at every place where a model was called, by every policy.

The judges are not ours: mistral-common's validator, and the oracle given by --oracle (a Python file with
`violations(messages, dialect, level=..., as_request=...)`). A context is unfit if a judge refuses it, or if the newest
user message is not in it. Sizes 1 to 20 in messages and turns, budgets 200 to 8,000 tokens, five dialects; where the
least context alone is larger than a budget, `ContextTooSmall` is the answer and is counted apart.

--data is a folder of *.jsonl.gz files with one {"messages": [...]} a line; those with tool calls are taken.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import multiprocessing
import random
import sys
from collections import Counter
from pathlib import Path

import novelo

DIALECTS = {
    "openai": ("openai-chat",),
    "anthropic": ("anthropic",),
    "gemini": ("gemini",),
    "mistral": ("mistral",),
    "strict": ("strict-template", "alternating-tools"),
}
SPECS = [
    *(f"window:{n}{unit}" for n in range(1, 21) for unit in ("messages", "turns")),
    *(f"window:{n}turns,slack={max(1, n // 2)}" for n in (2, 5, 10, 20)),
    *(f"budget:{n}" for n in (200, 400, 800, 1500, 3000, 5000, 8000)),
    *(f"budget:{n},low={n // 2}" for n in (400, 1000, 3000, 8000)),
    *(f"ends:first=1,last={n}" for n in (1, 3, 5, 10, 20)),
    *(f"drop_oldest:{n}messages" for n in (1, 2, 5, 20)),
    *(f"clear_tools:keep={n}" for n in (0, 1, 3, 10)),
    "buffer",
    "strip_media + clear_tools:keep=3 + budget:2000",
    *(f"window:{n}turns + recall:{n}" for n in (1, 3, 6)),
    *(f"recall:6,share=50% + budget:{n}" for n in (400, 1500, 4000)),
    "ends:first=1,last=3 + recall:2 + budget:1500,low=800",
]
FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")
RECORDS: list[tuple[str, list[dict]]] = []
ORACLE = None


def conversations(folder: Path) -> list[tuple[str, list[dict]]]:
    """Those with tool calls: a name and the chat fields of each message."""
    out = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                record = json.loads(line)
                messages = record.get("messages") or []
                if any(m.get("tool_calls") for m in messages):
                    chat = [{k: m[k] for k in FIELDS if m.get(k) is not None or k == "content"} for m in messages]
                    out.append((f"{record.get('source')}:{record.get('id')}", chat))
    return out


def call_points(messages: list[dict]) -> list[int]:
    """Places where a model was called: before an assistant message that follows a user message or a result."""
    return [
        i
        for i in range(1, len(messages))
        if messages[i]["role"] == "assistant"
        and messages[i - 1]["role"] in ("user", "tool")
        and any(m["role"] == "user" for m in messages[:i])
    ]


def mistral_accepts(messages: list[dict]) -> bool:
    """Mistral's own validator, where it is installed."""
    try:
        from mistral_common.exceptions import MistralCommonException
        from mistral_common.protocol.instruct import messages as kinds
        from mistral_common.protocol.instruct import validator
        from mistral_common.protocol.instruct.tool_calls import FunctionCall, ToolCall
    except ImportError:
        return True
    out = []
    for m in messages:
        text = m["content"] if isinstance(m["content"], str) else ""
        if m["role"] == "assistant":
            calls = [
                ToolCall(
                    id=c["id"], function=FunctionCall(name=c["function"]["name"], arguments=c["function"]["arguments"])
                )
                for c in m.get("tool_calls") or ()
            ]
            out.append(kinds.AssistantMessage(content=text or None, tool_calls=calls or None))
        elif m["role"] == "tool":
            out.append(kinds.ToolMessage(content=text, tool_call_id=m["tool_call_id"]))
        else:
            out.append({"system": kinds.SystemMessage, "user": kinds.UserMessage}[m["role"]](content=text))
    try:
        validator.MistralRequestValidatorV5(validator.ValidationMode.serving).validate_messages(out)
    except MistralCommonException:
        return False
    return True


def judged(case: tuple[int, int, str, str]) -> str:
    """The verdict on one context: fit, too small, refused, question lost."""
    record, cut, spec, provider = case
    given = RECORDS[record][1][:cut]
    try:
        context = novelo.compose(given, spec, provider)
    except novelo.ContextTooSmall:
        return "too small"
    sent = context.messages("openai")
    if ORACLE is not None:
        found = [ORACLE.violations(sent, d, level="provider", as_request=True) for d in DIALECTS[provider]]
        if min(map(len, found)):
            return f"refused: {min(found, key=len)[0].split(' @')[0]}"
    if provider == "mistral" and not mistral_accepts(context.messages("mistral")):
        return "refused: mistral-common"
    question = next(m["content"] for m in reversed(given) if m["role"] == "user").strip()
    asked = [str(m["content"]) for m in sent if m["role"] == "user"]
    return (
        "fit" if any(question in text for text in (asked if provider == "strict" else asked[-1:])) else "question lost"
    )


def main() -> int:
    """Judge, print a table, and say whether all are fit."""
    global ORACLE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--oracle", type=Path)
    parser.add_argument("--every", type=int, default=1, help="about every n-th context, by a seeded draw")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    RECORDS[:] = conversations(given.data)
    if not RECORDS:
        print(f"no conversations with tool calls in {given.data}", file=sys.stderr)
        return 2
    if given.oracle:
        wanted = importlib.util.spec_from_file_location("oracle", given.oracle)
        ORACLE = importlib.util.module_from_spec(wanted)
        wanted.loader.exec_module(ORACLE)
    points = [(i, cut) for i, (_, messages) in enumerate(RECORDS) for cut in call_points(messages)]
    rng = random.Random(1)
    cases = [
        (i, cut, spec, provider)
        for spec in SPECS
        for i, cut in points
        for provider in DIALECTS
        if rng.randrange(given.every) == 0
    ]
    verdicts: Counter[str] = Counter()
    unfit: list[str] = []
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for case, verdict in zip(cases, pool.imap(judged, cases, chunksize=200), strict=True):
            verdicts[verdict] += 1
            if verdict not in ("fit", "too small"):
                unfit.append(f"{RECORDS[case[0]][0]}[:{case[1]}] {case[2]} {case[3]}: {verdict}")
    share = len(unfit) / len(cases)
    result = {
        "conversations": len(RECORDS), "call points": len(points), "policies": len(SPECS), "contexts": len(cases),
        "verdicts": dict(verdicts), "unfit": len(unfit), "unfit share": share, "examples": unfit[:5],
    }  # fmt: skip
    if given.json:
        print(json.dumps(result, ensure_ascii=False))
    else:
        for name, value in result.items():
            print(f"{name:16} {value}")
    return int(bool(unfit))


if __name__ == "__main__":
    sys.exit(main())
