"""A store with something of everything in it, and all that can be seen of it from outside."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

import novelo
from graphs import config, echo, say
from novelo.integrations.langgraph import NoveloSaver
from novelo.messages import Message, ToolCall
from novelo.portable import exported

FAQ = '{"question": "Como pagar?", "answer": "Com Pix."}\n{"question": "E a troca?", "answer": "Sete dias."}\n'


def fill(memory: novelo.Memory, embedder: object, folder: Path) -> None:
    """Something of everything that a store keeps."""
    for n in range(12):
        thread = memory.thread(f"t{n}", owner=("", "ana", "bob")[n % 3])
        for k in range(4):
            with thread.turn(f"pergunta {k} sobre o pedido PX-{n}{k}99, ação 退货", key=f"k{k}") as turn:
                turn.state["k"] = k
                turn.reply(f"A resposta {k} é \x00 sim \x01, " + "x" * 150 + f" pedido{n}")
        thread.title, thread.tags, thread.metadata = f"Título {n}", ["a", "b"], {"n": n}
        thread.pin([0])
        thread.hide([3])
    long = memory.thread("longa", owner="ana")
    for k in range(14):
        with long.turn(f"O código é PX-48213-{k} e custa R$ {k},00.") as turn:
            turn.reply("Anotado.")
    long.compact()
    long.fork(at=20, thread_id="ramo")
    memory.thread("ramo", owner="ana").fork(at=12, thread_id="ramo2")
    with memory.thread("ramo", owner="ana").turn("No ramo.") as turn:
        turn.reply("Sim, no ramo.")
    long.delete([2])
    long.redact("PX-48213-3")
    tools = memory.thread("ferramentas")
    with tools.turn("Que horas são?") as turn:
        turn.add(Message("assistant", "", tool_calls=(ToolCall("c1", "hora", "{}"),)))
        turn.add_tool_result("c1", "12:00")
        turn.reply("Meio-dia.")
    with tools.turn("Espere", key="espera") as turn:
        turn.wait()
    memory.thread("t1", owner="ana").erase()
    (folder / "faq.jsonl").write_text(FAQ)
    (folder / "guia.md").write_text("# Guia\n\n## Reembolsos\nO reembolso leva dez dias úteis.\n")
    for name, owner in (("default", ""), ("outra", "ana")):
        documents = memory.documents(name, owner, embedder=embedder)
        documents.ingest(folder, vectors="now")
    documents.remove("faq.jsonl")
    memory.documents("foi", embedder=None).ingest(folder)
    memory.documents("foi", embedder=None).erase()
    saver = NoveloSaver(memory)
    graph = echo(saver)
    for text in ("olá", "tudo bem?", "até logo"):
        say(graph, text, config("grafo"))
    saver.close()


def seen(memory: novelo.Memory, embedder: object) -> dict[str, object]:
    """What a program sees of it."""
    out: dict[str, object] = {}
    rows = memory.threads(limit=1000)
    assert not rows.damaged
    out["rows"] = sorted(rows, key=lambda row: row.key)
    for row in rows:
        thread = memory.thread(row.thread_id, row.owner)
        name = f"{row.owner}/{row.thread_id}"
        out[name, "export"] = b"".join(exported([thread]))
        out[name, "turns"] = thread.turns()
        out[name, "usage"] = [msgspec.to_builtins(call, enc_hook=str) for call in thread.usage()]
        out[name, "summaries"] = thread.compactions()
        for policy in ("buffer", "window:3turns", "summarize:20messages,keep=6"):
            context = thread.context("E agora?", policy=policy)
            out[name, policy] = context.messages("openai"), msgspec.to_builtins(context.manifest)
        out[name, "found"] = sorted((h.entry.position, h.spans) for h in thread.search("pedido"))
        out[name, "parent"] = row.parent
    for word in ("resposta", "退货", "acao", "ramo", "nada"):
        hits = memory.search(word, limit=500)
        out["search", word] = sorted((h.owner, h.thread_id, h.entry.position, h.text) for h in hits)
    for found in memory.collections():
        documents = memory.documents(found.name, found.owner, embedder=embedder)
        out["documents", found.owner, found.name] = (
            [(s.source, s.hash, s.chunks) for s in documents.list()],
            [(p["text"], round(p["score"], 6)) for p in documents.search("reembolso dinheiro")],
            found.vectors, found.model,
        )  # fmt: skip
    saver = NoveloSaver(memory)
    for one in saver.list(config("grafo")):
        values = {k: [m.model_dump() for m in v] if k == "messages" else v for k, v in
                  one.checkpoint["channel_values"].items()}  # fmt: skip
        out["checkpoint", one.config["configurable"]["checkpoint_id"]] = values, one.metadata, one.pending_writes
    saver.close()
    out["jobs"] = sorted((job.key, job.kind, job.due) for job in memory.jobs())
    return out


def fingerprint(path: Path) -> str:
    """A file's bytes in a few letters."""
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
