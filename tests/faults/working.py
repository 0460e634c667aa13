"""What the processes of the fault tests do: take turns, and write down each that was acknowledged."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import novelo
from faults.checker import answer_to
from novelo import StoreError


class Log:
    """A file that several processes append whole lines to."""

    def __init__(self, path):
        self.path = Path(path)
        self._out = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def write(self, **facts):
        """One line, in one write."""
        os.write(self._out, json.dumps(facts).encode() + b"\n")


def take_turn(memory, thread, key, question, worker, *, think=None, on_busy=None):
    """One turn under a key; what was acknowledged, as the checker wants it."""
    with thread.turn(question, key=key, on_busy=on_busy) as turn:
        replayed = turn.replayed
        if replayed:
            text = turn.stored_reply
        else:
            context = turn.messages()
            if think is not None:
                think()
            text = turn.reply(answer_to(context, worker)).text
        row = turn._row
    first, last = row.first, row.last if replayed else None
    if last is None:
        last = first + 1 if turn._begun.turn.last == first else memory.store.turns(thread.key, 1, first + 1)[0].last
    return {"ack": True, "thread": thread.key.hex(), "key": key, "first": first, "last": last, "text": text,
            "epoch": turn._begun.turn.epoch, "replayed": replayed, "worker": worker}  # fmt: skip


def keep_talking(url, log_path, worker, threads, *, seed=0, count=None, think=None, until=lambda: False, **options):
    """Take turns until killed (or `count` of them, or told to stop).

    A request that was not acknowledged is tried again with its key. The log tells what was begun and not acknowledged
    when the process before this one was killed.
    """
    rng = random.Random(f"{worker}{seed}{os.getpid()}{time.time()}")
    log = Log(log_path)
    begun = [json.loads(line) for line in Path(log_path).read_bytes().splitlines() if line.endswith(b"}")]
    mine = [b for b in begun if b.get("worker") == worker]
    number = sum(1 for b in mine if b.get("begin"))
    last = mine[-1] if mine else None
    pending = (last["thread_id"], last["key"], last["question"]) if last and last.get("begin") else None
    memory = novelo.open(url, **options)
    done = 0
    while (count is None or done < count) and not until():
        if pending is None:
            key = f"{worker}-{number}"
            number += 1
            pending = (rng.choice(threads), key, f"question {key}")
            log.write(begin=True, worker=worker, thread_id=pending[0], key=key, question=pending[2])
        thread = memory.thread(pending[0])
        try:
            ack = take_turn(memory, thread, pending[1], pending[2], worker, think=think)
        except StoreError as error:
            log.write(
                refused=type(error).__name__,
                worker=worker,
                begin=True,
                thread_id=pending[0],
                key=pending[1],
                question=pending[2],
            )
            time.sleep(rng.uniform(0, 0.02))  # as any client does before it asks again
            continue
        log.write(**ack, at=time.monotonic())
        done += 1
        pending = None
    memory.close()


def forked(function, *args, **named):
    """Run a function in a forked process that never returns here; its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        function(*args, **named)
        status = 0
    finally:
        os._exit(status)
