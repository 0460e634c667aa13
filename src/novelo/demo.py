"""`make demo`: a short conversation across a restart, with what was sent at each turn. No network, no key.

A customer talks to a support assistant; the process ends in the middle and a second one goes on. The offline model only
quotes, so what it knows is what its context holds. Each fact that is told here is checked, and the exit status says so.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import novelo
from novelo.asking import ModelRequest
from novelo.models.offline import Offline

SYSTEM = "Você é a assistente de atendimento da Loja Aurora. Responda em português."
SUPPORT = [
    "Meu nome é Ana.",
    "Fui cobrada duas vezes pelo pedido 4471.",
    "O pagamento foi com Pix, na sexta-feira.",
    "A entrega ficou na portaria do prédio.",
]
LAST = "Qual é o meu nome?"
THREADS = ("atendimento-4471", "atendimento-4472")


def main() -> int:
    """Play the first half here, the second in another process, and hold the facts against what was promised."""
    if len(sys.argv) == 3:
        return second_process(Path(sys.argv[2]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demo.db"
        first_process(path)
        print("\n-- the process ends here; another one opens the same file --\n", flush=True)
        ended = subprocess.run([sys.executable, "-m", "novelo.demo", "second", str(path)], check=False)  # noqa: S603
        if ended.returncode:
            return ended.returncode
    rounds, limited = full_buffer(), full_buffer("window:5messages")
    print(
        f"\nA conversation of 50 rounds: a full buffer sends {rounds} messages in all, "
        f"a window of 5 messages {limited}."
    )
    return told({"2,550 messages sent by a full buffer": rounds == 2550})


def first_process(path: Path) -> None:
    """Four questions in one thread, one in another."""
    with novelo.open(f"sqlite:///{path}", policy="window:5messages", system=SYSTEM) as memory:
        for question in SUPPORT:
            ask(memory.thread(THREADS[0]), question)
        ask(memory.thread(THREADS[1]), "Vocês abrem no domingo?")


def second_process(path: Path) -> int:
    """The fifth question, under a window that has lost the name and under the whole buffer that has not."""
    with novelo.open(f"sqlite:///{path}", policy="window:5messages", system=SYSTEM) as memory:
        thread = memory.thread(THREADS[0])
        before = len(thread)
        window = thread.context(LAST)
        print(
            f"With {before} earlier messages, window:5messages would send {len(window) - 2} of them and the question:"
        )
        print(indented(window.explain()))
        print("\nThe name was said before that window. Asked with the whole buffer instead:\n")
        answer = ask(thread, LAST, "buffer")
        other = memory.thread(THREADS[1])
        print(f"\nThe two threads hold {len(thread)} and {len(other)} messages; nothing leaks between them.")
        texts = " ".join(entry.text for entry in other.messages())
        return told(
            {
                "the name is remembered across the restart": "Ana" in answer,
                "4 of 8 earlier messages and the question are sent": (before, len(window)) == (8, 6),
                "two threads with 10 and 2 messages": (len(thread), len(other)) == (10, 2),
                "no thread knows the other's words": "Ana" not in texts,
            }
        )


def ask(thread: novelo.Thread, question: str, policy: str | None = None) -> str:
    """One turn, printed."""
    with thread.turn(question) as turn:
        reply = Offline().complete(ModelRequest(turn.messages(policy=policy)))
        text = turn.reply(reply).text
    print(f"{thread.thread_id}  cliente: {question}\n{' ' * len(thread.thread_id)}  assistente: {text}")
    return text


def full_buffer(policy: str = "buffer", rounds: int = 50) -> int:
    """Messages sent over a whole conversation: at round k the system message, k questions and k - 1 answers."""
    history = [{"role": "system", "content": SYSTEM}]
    sent = 0
    for k in range(1, rounds + 1):
        history.append({"role": "user", "content": f"pergunta {k}"})
        sent += len(novelo.compose(history, policy))
        history.append({"role": "assistant", "content": f"resposta {k}"})
    return sent


def told(facts: dict[str, bool]) -> int:
    """Each fact with its verdict; 1 if one does not hold."""
    for name, holds in facts.items():
        print(f"{'ok' if holds else 'NOT SO'}: {name}")
    return 0 if all(facts.values()) else 1


def indented(text: str) -> str:
    """A text a little to the right."""
    return "\n".join("    " + line for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
