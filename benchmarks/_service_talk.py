"""A synthetic service conversation: an online shop and a customer with many orders; the same on every run.

    python benchmarks/_service_talk.py 300 > talk.jsonl     a file of our own format, with moments

Each turn is a question of some 40 tokens and an answer of some 120. The customer names order numbers, amounts, dates
and addresses, and comes back to earlier ones. Most questions come within two minutes; now and then there is a break.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from novelo.formats.files import write_own

BEGIN = 1_767_571_200  # a Monday morning, seconds since 1970
SYSTEM = (
    "You are the assistant of Aurora, an online shop for furniture, lamps and garden tools. Be brief and "
    "friendly, and answer in the customer's language. Never promise a refund before the warehouse has confirmed "
    "the return. Orders have numbers such as AU-48213; ask for the number before you look anything up. Delivery "
    "takes three to five working days in the capital and up to nine elsewhere. Returns are free for thirty days, "
    "and the customer pays for the parcel after that. If somebody is angry, say sorry once, then say what will "
    "happen next and when. "
)
STREETS = ["Rua das Acácias", "Lindenallee", "Mill Lane", "Calle Mayor", "Rue du Moulin", "Avenida Paulista"]
GOODS = ["desk lamp", "oak shelf", "garden hose", "reading chair", "floor lamp", "pruning saw", "side table", "parasol"]
QUESTIONS = [
    "My order {order} with the {good} was due on {date}, and it is not here. I paid {amount} for it. Where is it?",
    "Please send the {good} of order {order} to {address} instead. The door code is {code}, and I am home after six.",
    "The {good} came broken. The order is {order}, the delivery note says {code}. I want the {amount} back by {date}.",
    "You told me something about order {old} a while ago. Does that still hold, now that I changed the address?",
    "Can I add a second {good} to order {order}? It should cost {amount} by your newsletter of {date}, code {code}.",
]
ANSWERS = [
    (
        "Thank you for the details. I have looked up {order}: the {good} left our warehouse the day after you "
        "paid, and the carrier has scanned it twice since then. The last scan was at the depot nearest to you, so"
        " it should reach you within two working days. If it is not there by then, write to me again, and I will "
        "open an inquiry with the carrier and ask the warehouse to hold a second one back for you in the "
        "meantime. You need not be at home for the delivery; a neighbour may sign for it, and the driver leaves a"
        " card that says where it is."
    ),
    (
        "I have made a note of that for {order}. The change goes to the warehouse tonight and you will get a "
        "message as soon as it is confirmed there. Until then nothing is sent, so that no parcel goes to the "
        "wrong place. If the {good} has already been packed, the carrier redirects it on the way, which takes one"
        " day longer but costs you nothing. Please keep the number at hand when you write again; then I do not "
        "have to ask you for everything a second time, and my colleagues on the telephone can see what we have "
        "agreed on here."
    ),
]


def service_talk(
    turns: int, seed: int = 7, looked_up: int = 0, scans: int = 40
) -> Iterator[tuple[dict[str, Any], float]]:
    """The messages in OpenAI's form, oldest first, each with its moment.

    Args:
        looked_up: in every so many turns the order is looked up first: a call and its result; 0 is never.
        scans: items of such a result, some 30 tokens each.
    """
    chance = random.Random(seed)
    now = float(BEGIN)
    orders: list[str] = []
    yield {"role": "system", "content": SYSTEM * 3}, now
    for turn in range(turns):
        now += chance.randint(600, 4000) if chance.random() < 0.06 else chance.randint(25, 120)
        named = {
            "order": f"AU-{chance.randint(10_000, 99_999)}",
            "good": chance.choice(GOODS),
            "date": f"2026-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
            "amount": f"EUR {chance.randint(10, 900)}.{chance.randint(10, 99)}",
            "address": f"{chance.choice(STREETS)} {chance.randint(1, 199)}",
            "code": f"{chance.randint(1000, 9999)}-{chance.choice('KLMPRT')}{chance.choice('ABCD')}",
            "old": chance.choice(orders) if orders else "AU-10001",
        }
        orders.append(named["order"])
        yield {"role": "user", "content": chance.choice(QUESTIONS).format(**named)}, now
        now += chance.randint(3, 9)
        if looked_up and turn % looked_up == 0:
            call = {"name": "find_order", "arguments": json.dumps({"order": named["order"]})}
            call_id = f"call_{turn}"
            calls = [{"id": call_id, "type": "function", "function": call}]
            yield {"role": "assistant", "content": None, "tool_calls": calls}, now
            found = [{"scan": n, "depot": chance.choice(STREETS), "code": named["code"]} for n in range(scans)]
            now += 1
            yield {"role": "tool", "tool_call_id": call_id, "content": json.dumps(named | {"scans": found})}, now
        answer = chance.choice(ANSWERS).format(**named)
        yield {"role": "assistant", "content": f"{answer} (Note {turn + 1} of your case.)"}, now


def main() -> None:
    """Write the conversation to stdout."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    lines = [
        {"position": i, "turn": (i + 1) // 2, "created": moment, "message": message}
        for i, (message, moment) in enumerate(service_talk(turns))
    ]
    for line in write_own({"thread_id": "aurora", "title": "Aurora, a long service case"}, lines):
        sys.stdout.buffer.write(line)


if __name__ == "__main__":
    main()
