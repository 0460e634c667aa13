"""The support conversation of a shop: three questions in one thread, then one of them alone in another.

    python examples/support.py pt                # offline: no network, no key, no model
    MODEL=local python examples/support.py zh    # llama.cpp in this process: pip install 'novelo[local,openai]'
    MODEL=openai:gpt-4o-mini OPENAI_API_KEY=… python examples/support.py en

"And if I paid with Pix?" names no refund. Behind the question before it finds the entry on double charges; alone it
finds the one on pausing an account, which has its words. What was searched is printed: look there first when an answer
is wrong. Run a second time it reads no document anew. The talk goes on in the terminal, with "explique melhor" say:

    novelo chat -d support.db --owner shop --thread pt-case-1 --collection faq-pt --show-query
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import novelo
from novelo.connect import model as model_named
from novelo.passages import place_of

FAQ = Path(__file__).resolve().parent / "faq"
TALKS = {
    "pt": (
        "Fui cobrado duas vezes. Em quanto tempo cai o reembolso?",
        "E se eu tiver pago com Pix?",
        "Qual era o prazo que você falou?",
    ),
    "en": (
        "I was charged twice. How long until the refund?",
        "And if I paid with Pix?",
        "What was the period that you mentioned?",
    ),
    "zh": ("我被重复扣款了,退款要多久?", "如果是用 Pix 付的呢?", "你刚才说的期限是多久?"),
}
ELSEWHERE = {  # nothing in the documents answers these: the user is told so, and no model is asked
    "pt": "Quem escreveu Dom Casmurro?",
    "en": "Who wrote Don Quixote?",
    "zh": "《红楼梦》是谁写的?",
}


def ask(thread: novelo.Thread, question: str, model, documents) -> None:
    """One turn, with what was searched for it and what it rests on."""
    print(f"\n{thread.thread_id} | {question}")
    with thread.turn(question) as turn:
        found = turn.answer(model, documents, limit=3)
    print(f"  {found.retrieved.decision}: {found.retrieved.queries[0][0]}")
    print("  ->", " ".join(found.text.split()) or "(nothing)")
    for number, passage in enumerate(found.passages, 1):
        if passage in found.sources:
            print(f"  [{number}] {place_of(passage)}")


def main(language: str = "pt") -> None:
    if language not in TALKS:
        sys.exit(f"no talk in {language!r}: expected one of {', '.join(TALKS)}")
    model = model_named(os.environ.get("MODEL", "offline"))
    with novelo.open("sqlite:///support.db", policy="window:10turns + redact:secrets,cards", worker="off") as memory:
        documents = memory.documents(f"faq-{language}", owner="shop")
        print("Reading the documents; their vectors are made the first time, in some seconds.", file=sys.stderr)
        read = documents.ingest([FAQ / language], vectors="now" if documents.embedder else "later")
        print(f"{len(read.added)} files read, {len(read.same)} unchanged, {documents.row.chunks} passages")
        first = memory.thread(f"{language}-case-1", owner="shop")
        for question in TALKS[language]:
            ask(first, question, model, documents)
        ask(memory.thread(f"{language}-case-2", owner="shop"), TALKS[language][1], model, documents)
        ask(memory.thread(f"{language}-case-3", owner="shop"), ELSEWHERE[language], model, documents)
        spent = memory.usage("shop").by("purpose")
        print("\ncalls:", {purpose: found.calls for purpose, found in spent.items()})
    close = getattr(model, "close", None)
    if close is not None:
        close()


if __name__ == "__main__":
    main(*sys.argv[1:2])
