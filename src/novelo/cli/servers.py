"""`novelo distribute`, `partition` and `grants`: SQL for whoever runs a PostgreSQL server, printed or run."""

from __future__ import annotations

from typing import Annotated

import typer

from novelo.cli.common import default_database, say
from novelo.errors import InvalidSpec, MissingExtra

Address = Annotated[str | None, typer.Option("-d", "--database", help="postgresql://user@host/database?schema=novelo.")]
Run = Annotated[bool, typer.Option("--run", help="Run the statements, instead of printing them.")]


def distribute(
    database: Address = None,
    shards: Annotated[int, typer.Option(help="Shards of the cluster; many more than machines.")] = 32,
    run: Run = False,
) -> None:
    """Spread the tables over the machines of a Citus cluster, by thread: print the statements, or run them.

    Example: novelo distribute -d postgresql://admin@coordinator/chat --shards 64 --run
    """
    from novelo.stores.postgres import administering

    url, schema = _place(database)
    _done(url, administering.distribution(schema, shards), run, spread=True)


def partition(
    database: Address = None,
    parts: Annotated[int, typer.Option(help="Partitions of each table.")] = 64,
    run: Run = False,
) -> None:
    """Split the tables of one server by the hash of their thread: print the statements, or run them. No rows yet.

    Example: novelo partition -d postgresql://admin@db/chat --parts 16 --run
    """
    from novelo.stores.postgres import administering

    url, schema = _place(database)
    _done(url, administering.partitions(schema, parts), run)


def grants(
    role: Annotated[str, typer.Argument(help="The user that a program connects as.")],
    database: Address = None,
    owners: Annotated[
        bool, typer.Option("--owners", help="Rows of one owner a transaction: row-level security.")
    ] = False,
    run: Run = False,
) -> None:
    """Give a user the least rights that a program needs; with --owners it sees rows of one owner at a time alone.

    Example: novelo grants app --owners -d postgresql://admin@db/chat --run
    """
    from novelo.stores.postgres import administering

    url, schema = _place(database)
    statements = administering.grants(schema, role)
    _done(url, [*statements, *(administering.row_security(schema, role) if owners else ())], run)


def _place(database: str | None) -> tuple[str, str]:
    """The address of a server, and the schema that it names."""
    url = database or default_database()
    if not url.startswith(("postgresql:", "postgres:")):
        raise InvalidSpec("this command is for a server: name it with -d postgresql://user@host/database")
    try:
        from novelo.stores.postgres.database import Settings
    except ImportError as missing:
        raise MissingExtra("PostgreSQL needs psycopg: pip install 'novelo[postgres]'") from missing
    return url, Settings(url).schema


def _done(url: str, statements: list[tuple[str, str]], run: bool, *, spread: bool = False) -> None:
    if not run:
        for _, text in statements:
            print(f"{text};")
        return
    from novelo.connect import connect
    from novelo.stores.postgres import administering

    connect(url).close()  # the tables are made where they are not there yet
    done = administering.run(url, statements, spread=spread)
    say(f"{len(done)} of {len(statements)} statements run")
