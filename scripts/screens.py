"""The two screens of the README, captured from the real program: `python scripts/screens.py`.

Each command runs in a process of its own over a database of its own; what it printed, colours and all, is drawn as a
terminal window.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

IMAGES = Path(__file__).parent.parent / "docs" / "img"
WIDTH = 96
TALK = """Meu nome é Lívia e o pedido é PX-48213-7.
Paguei R$ 1.347,90 com Pix em 14/03.
Entreguem na Rua das Acácias, 77.
Não posso receber antes das 18h.
Qual é o meu nome?
"""
POLICY = "summarize:6messages,keep=2 + budget:2000"


def ran(arguments: list[str], home: str, given: str | None = None) -> str:
    """What a command prints, as on a terminal with colours."""
    env = {**os.environ, "NOVELO_HOME": home, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "novelo", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=env, check=True)
    return done.stdout


def drawn(name: str, title: str, lines: list[tuple[str, str]]) -> None:
    """A window with commands and what each printed, as an SVG file."""
    screen = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command, printed in lines:
        screen.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        screen.print(Text.from_ansi(printed.rstrip("\n")))
        screen.print()
    IMAGES.mkdir(exist_ok=True)
    picture = screen.export_svg(title=title, unique_id=name.partition(".")[0])
    (IMAGES / name).write_text(re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL), "utf-8")  # none is fetched


def main() -> None:
    """Both screens."""
    with tempfile.TemporaryDirectory() as home:
        said = ran(["chat", "--thread", "t1", "--lang", "pt", "-p", POLICY], home, TALK)
        talk = "".join(
            f"› {question}\n{answer}\n" for question, answer in zip(TALK.splitlines(), said.splitlines(), strict=True)
        )
        ran(["worker", "--once", "-m", "offline"], home)
        why = ran(["why", "t1", "PX-48213-7", "-p", POLICY], home)
        context = ran(["context", "t1", "-p", POLICY, "--question", "E o prazo?"], home)
        usage = ran(["usage", "t1"], home)
        drawn("chat.svg", "novelo chat", [(f'novelo chat --thread t1 --lang pt -p "{POLICY}"', talk)])
        drawn(
            "context.svg",
            "novelo context · why · usage",
            [
                (f'novelo context t1 -p "{POLICY}" --question "E o prazo?"', context),
                (f'novelo why t1 PX-48213-7 -p "{POLICY}"', why),
                ("novelo usage t1", usage),
            ],
        )


if __name__ == "__main__":
    main()
