"""`novelo keys`: make a key, begin an encrypted database, see what wraps what, and rotate."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

import novelo
from novelo.cli.common import counted, print_json, say
from novelo.vault import VAULT, open_vault, rotate

keys = typer.Typer(help="Keys of an encrypted database: make, begin, show, rotate.", no_args_is_help=True)
Vault = Annotated[
    str, typer.Option("--vault", envvar=VAULT, help="Where the vault lies: sqlite:///vault.db or postgresql://...")
]
Key = Annotated[str, typer.Option("--key", help="The key: env:NAME or file:/path.")]
FROM_ENVIRONMENT = "env:NOVELO_KEY"
PAUSE_S = 1.0  # between two lines of progress


@keys.command()
def new() -> None:
    """Print a fresh key: 32 random bytes in base64. Keep it apart from the database and from the vault."""
    from novelo.stores.vaults.wrapping import new_key

    print(new_key())


@keys.command()
def begin(
    database: Annotated[str, typer.Argument(help="A database without threads; a file is made if there is none.")],
    vault: Vault,
    key: Key = FROM_ENVIRONMENT,
) -> None:
    """Begin an encrypted database: from now on it is opened with its vault and its key only.

    Example: NOVELO_KEY=$(novelo keys new) novelo keys begin chat.db --vault sqlite:///safe/vault.db
    """
    url = database if "://" in database else f"sqlite:///{Path(database)}"
    with novelo.open(url, vault=vault, key=key, worker="off"):
        pass
    say(f"encrypted; set {VAULT} and NOVELO_KEY for every command that opens it")


@keys.command()
def show(vault: Vault, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show which keys wrap the threads' keys, and how many notes of erasures the vault holds. Needs no key."""
    opened = open_vault(vault, create=False)
    try:
        wrapped, notes = opened.keys(), opened.last()
    finally:
        opened.close()
    if as_json:
        return print_json({"keys": wrapped, "notes": notes})
    for name, count in sorted(wrapped.items()):
        print(f"{name}  wraps {count}")
    print(counted(notes, "note") + " of erasures")


@keys.command(name="rotate")
def rotate_(
    vault: Vault,
    new: Annotated[str, typer.Option("--new", help="The new key: env:NAME or file:/path.")],
    key: Annotated[str, typer.Option("--key", help="The key that wraps now.")] = FROM_ENVIRONMENT,
) -> None:
    """Wrap all threads' keys by another key. No message is written anew; run again, it goes on where it stopped."""
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if done == total or time.monotonic() - told >= PAUSE_S:
            told = time.monotonic()
            say(f"{done} of {total}")

    done = rotate(vault, key, new, progress)
    say(
        f"{counted(done, 'key')} wrapped by the new key; the old one opens nothing any more"
        if done
        else "nothing to do"
    )
