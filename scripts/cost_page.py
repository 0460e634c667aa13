"""Run the commands of docs/cost.md again, put what they print into the page, and what they draw beside it.

    python scripts/cost_page.py            write the page and docs/img
    python scripts/cost_page.py --check    write nothing; exit status 1 if what is printed or drawn has changed

A command stands behind `    $ `, over several lines where they end with a backslash; what it prints follows, indented.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "cost.md"
COMMAND = re.compile(r"^    \$ (?P<command>(?:.*\\\n)*.*)\n(?P<shown>(?:    .*\n)*)", re.MULTILINE)


def printed(command: str, folder: Path) -> str:
    """What a command prints, run in a folder; `> FILE` writes it there instead."""
    words = shlex.split(command.replace("\\\n", " "))
    target = folder / words.pop() if words[-2:-1] == [">"] else None
    words = [w for w in words if w != ">"]
    program = ["-m", "novelo", *words[1:]] if words[0] == "novelo" else [str(ROOT / words[1]), *words[2:]]
    made = subprocess.run([sys.executable, *program], capture_output=True, cwd=folder, timeout=300)
    if made.returncode:
        raise SystemExit(f"{command}\n{made.stderr.decode()}")
    if target is not None:
        target.write_bytes(made.stdout)
        return ""
    return made.stdout.decode()


def main() -> int:
    """Write the page, or say what has changed."""
    page = PAGE.read_text("utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs" / "img").mkdir(parents=True)

        def again(found: re.Match[str]) -> str:
            lines = printed(found["command"], folder).splitlines()
            return f"    $ {found['command']}\n" + "".join(f"    {line.rstrip()}\n" for line in lines)

        new = {PAGE: COMMAND.sub(again, page).encode()}
        new |= {ROOT / "docs" / "img" / one.name: one.read_bytes() for one in (folder / "docs" / "img").iterdir()}
    changed = [path for path, body in new.items() if not path.exists() or path.read_bytes() != body]
    for path in changed:
        print(f"{path.relative_to(ROOT)} has changed")
    if "--check" in sys.argv[1:]:
        return int(bool(changed))
    for path in changed:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(new[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
