"""The command line: `novelo COMMAND`. Commands are verbs: parse, call the library once, print.

Data goes to stdout, talk to stderr. Exit status 0 done, 1 failed, 2 misused.
"""

from __future__ import annotations

import inspect
import io
import os
import sys
from typing import Annotated

import typer

from novelo.cli import (
    chat,
    compaction,
    compare,
    doctor,
    documents,
    files,
    keys,
    moving,
    purge,
    servers,
    show,
    usage,
)
from novelo.cli.common import FAILED, MISUSED, default_database, say
from novelo.errors import InvalidSpec, NoveloError

app = typer.Typer(
    name="novelo",
    help="The memory of a conversation: everything is kept, little is sent, and what is sent is always valid.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(chat.chat)
for command in (show.threads, show.show, show.search, show.context, usage.usage, files.check, files.compose):
    app.command()(command)
app.command()(compare.compare)
app.command()(compaction.compact)
app.command()(compaction.summaries)
app.command()(compaction.why)
app.command()(compaction.worker)
app.command(name="import")(files.import_)
app.command()(files.export)
app.command()(files.delete)
for removing in (purge.purge, purge.erase, purge.hold, purge.release, purge.audit):
    app.command()(removing)
app.command()(documents.ingest)
app.command()(moving.backup)
app.command()(moving.copy)
app.command()(doctor.doctor)
app.command()(doctor.mend)
app.add_typer(documents.docs, name="docs")
app.add_typer(keys.keys, name="keys")
app.command()(servers.distribute)
app.command()(servers.partition)
app.command()(servers.grants)


@app.command()
def path() -> None:
    """Print where your threads are kept."""
    print(default_database())


for told in (*app.registered_commands, *documents.docs.registered_commands, *keys.keys.registered_commands):
    # a terminal breaks lines where its width says so, and not where the docstring's did
    paragraphs = (inspect.getdoc(told.callback) or "").split("\n\n") if told.callback else []
    told.help = told.help or "\n\n".join(" ".join(text.split()) for text in paragraphs)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"novelo {version('novelo')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The memory of a conversation: everything is kept, little is sent, and what is sent is always valid."""


def _drop_output() -> None:
    """What is still held for stdout goes nowhere: it would fail once more at the end of the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Run the command line; errors of ours become one line that says what to do."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  it was closed (`>&-`): nobody wants to read it
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # whose letters may not be all there are: better told so than not at all
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except InvalidSpec as error:
        say(f"novelo: {error}")
        sys.exit(MISUSED)
    except NoveloError as error:
        say(f"novelo: {error}")
        sys.exit(FAILED)
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        say(f"novelo: {error.filename}: {error.strerror}")
        sys.exit(FAILED)
    except BrokenPipeError:  # the reader of our pipe has gone: nothing more to say
        _drop_output()
        sys.exit(FAILED)
    except OSError as error:  # such as a full disk behind stdout
        _drop_output()
        say(f"novelo: {error.filename or 'what is printed cannot be written'}: {error.strerror or error}")
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(130)
