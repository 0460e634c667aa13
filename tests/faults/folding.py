"""A summarizer that says what it was shown, and the processes that talk, change, fork and erase while it works."""

from __future__ import annotations

import random
import re
import threading
import time

import novelo
from faults.checker import digest, fold
from faults.working import Log
from novelo import InvalidSpec, ModelFailed, StoreError, SummaryFailed
from novelo.asking import ModelReply
from novelo.messages import Message

POLICY = "summarize:8messages,keep=2,floor=0%"  # a summary with every third turn


def read_request(request):
    """The former summary's text, and the positions and texts of the entries that a request shows; None for a part."""
    former, entries, at = [], [], None
    for line in request.messages[1]["content"].split("\n"):
        if line.startswith("> "):
            (former if at is None else entries[-1][1]).append(line[2:])
        elif line == ">":
            (former if at is None else entries[-1][1]).append("")
        elif line.startswith("[") and line.endswith(":"):
            at = int(line[1 : line.index("]")])
            entries.append((at, []))
        elif line.startswith(("This is part", "The following are notes")):
            return None
    return "\n".join(former), [(p, "\n".join(lines)) for p, lines in entries]


class Fold:
    """Answers with a digest of what it was shown, after a while; told to, it fails instead."""

    def __init__(self, delay_s=0.0, failing=0.0, seed=0, also=lambda request: None):
        self.delay_s, self.failing, self.also = delay_s, failing, also
        self.rng = random.Random(seed)
        self.asked = 0

    def complete(self, request):
        """One summary."""
        self.asked += 1
        self.also(request)
        if self.delay_s:
            time.sleep(self.rng.uniform(0, self.delay_s))
        if self.rng.random() < self.failing:
            raise ModelFailed("not today", retryable=True)
        shown = read_request(request)
        return ModelReply(Message("assistant", "Notes of a part." if shown is None else f"Notes {fold(*shown)}."))


# ------------------------------------------------------------------------------------------------ what goes on at once
def talk(memory, log, name, ids, count, rng, until=lambda: False, pause_s=0.0):
    """Take turns, so many or until told to stop; what was acknowledged is written down."""
    done = number = 0
    while done < count and not until():
        time.sleep(rng.uniform(0, pause_s))
        key = f"{name}-{number}"
        number += 1
        thread = memory.thread(rng.choice(ids))
        try:
            with thread.turn(f"question {key}.", key=key, on_busy="interrupt" if rng.random() < 0.02 else None) as turn:
                asked = turn.messages()[-1]["content"]
                if rng.random() < 0.05:  # a call whose result never comes
                    calls = [{"id": f"c{number}", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
                    turn.add({"role": "assistant", "content": None, "tool_calls": calls})
                    continue
                text = turn.reply(f"answer to {asked}").text
            row = turn._row
            log.write(ack=True, thread=thread.key.hex(), key=key, first=row.first, last=row.first + 1, text=text,
                      epoch=turn._begun.turn.epoch, worker=name)  # fmt: skip
            done += 1
        except StoreError:
            continue


def change(memory, log, name, ids, rng, until, pause_s=0.02):
    """Summarize, undo, hide, show, mask, delete, ask again, edit, fork, erase, by chance, until told to stop."""
    actions = (
        [compact] * 4 + [redo, undo, undo] + [hide] * 3 + [unhide] * 2 + [redact, mask, delete, delete]
        + [ask_again, edit, fork] + [erase] * 2
    )  # fmt: skip
    counts = dict.fromkeys((a.__name__ for a in actions), 0)
    number = 0
    while not until.is_set():
        action = rng.choice(actions)
        number += 1
        try:
            thread = memory.thread(rng.choice(ids["mortal"] if action is erase else ids["all"]))
            counts[action.__name__] += action(thread, log, rng, f"{name}-{number}") is not False
        except (StoreError, SummaryFailed, ModelFailed, InvalidSpec):
            continue  # another one was quicker
        finally:
            time.sleep(rng.uniform(0, pause_s))
    log.write(changed=counts)


def some(thread, rng, back=30):
    """An entry of the newest few."""
    entries = thread.messages(newest_first=True, limit=back)
    return rng.choice(entries) if entries else None


def key_of(entry):
    """The key of the turn that an entry belongs to."""
    return entry.text.rpartition(" ")[2].rstrip(".")


def compact(thread, log, rng, name):
    """Summarize now."""
    return thread.compact() is not None


def redo(thread, log, rng, name):
    """Summarize the same again."""
    return thread.compact(redo=True) is not None


def undo(thread, log, rng, name):
    """Take the summary back."""
    return thread.undo_compaction() is not None


def hide(thread, log, rng, name):
    """Out of contexts."""
    entry = some(thread, rng)
    return False if entry is None else thread.hide(entry)


def unhide(thread, log, rng, name):
    """Back into contexts."""
    hidden = [e for e in thread.messages(newest_first=True, limit=60) if e.hidden]
    return thread.unhide(rng.choice(hidden)) if hidden else False


def redact(thread, log, rng, name):
    """Mask one entry."""
    entry = some(thread, rng)
    if entry is None:
        return False
    log.write(touched=[key_of(entry)])
    return thread.redact([entry.position])


def mask(thread, log, rng, name):
    """Mask what a pattern finds."""
    entry = some(thread, rng)
    key = "" if entry is None else key_of(entry)
    if not re.fullmatch(r"[a-z]\d+-\d+", key):
        return False
    log.write(touched=[key])
    return thread.redact(rf"{key}\b")


def delete(thread, log, rng, name):
    """Delete one entry."""
    entry = some(thread, rng)
    if entry is None:
        return False
    log.write(touched=[key_of(entry)])
    return thread.delete(entry)


def ask_again(thread, log, rng, name):
    """The last question once more."""
    with thread.retry() as turn:
        turn.reply(f"another answer to {turn.messages()[-1]['content']}")


def edit(thread, log, rng, name):
    """Other words, and an answer to them."""
    entry = some(thread, rng, 6)
    if entry is None or entry.role != "user":
        return False
    thread.edit(entry, f"question {name}, edited.")
    return ask_again(thread, log, rng, name)


def fork(thread, log, rng, name):
    """A fork that goes on, and sometimes goes away."""
    head = len(thread)
    made = thread.fork(rng.randrange(head) if rng.random() < 0.5 and head else None, f"fork {name}")
    for k in range(4):
        with made.turn(f"question {name}-{k}.") as turn:
            turn.reply("answer")
    if rng.random() < 0.5:
        made.compact()
    elif rng.random() < 0.5:
        made.erase()


def erase(thread, log, rng, name):
    """All of it; under its id another one begins."""
    if rng.random() < 0.5:
        return False
    return bool(thread.erase(forks=rng.choice(["keep", "erase"])).rows)


def stir(url, log_path, name, ids, count, *, talkers=3, delay_s=0.03, pause_s=0.0, seconds=1e9, **options):
    """One process: talkers, a changer, and the worker of its memory, for so many turns or seconds."""
    end = time.monotonic() + seconds
    log = Log(log_path)
    memory = novelo.open(url, policy=POLICY, summarizer=Fold(delay_s, seed=name), lease_s=5.0, **options)
    stop = threading.Event()
    seeds = [random.Random(f"{name}{i}") for i in range(talkers + 1)]
    given = (memory, log, name, ids, seeds[-1], stop, 0.02 + 4 * pause_s)
    changer = threading.Thread(target=change, args=given)
    changer.start()
    running = [
        threading.Thread(
            target=talk,
            args=(memory, log, f"{name}{i}", ids["all"], -(-count // talkers), seeds[i]),
            kwargs={"until": lambda: time.monotonic() > end, "pause_s": pause_s},
        )
        for i in range(talkers)
    ]
    for one in running:
        one.start()
    for one in running:
        one.join()
    stop.set()
    changer.join()
    log.write(worker=name, done=memory.worker.done, failed=memory.worker.failed, asked=memory.summarizer.asked)
    memory.close()


__all__ = ["POLICY", "Fold", "digest", "read_request", "stir"]
