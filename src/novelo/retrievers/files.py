"""Which files a folder holds for an index, and what is wrong with the others: found without reading one.

A link is followed to a file inside of the folder that was named; one that leads out of it, back, or nowhere is told,
and so is what is no regular file. Names that begin with a dot are left out; files that no reader knows are counted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from novelo.errors import ImportFailed, InvalidSpec
from novelo.retrievers.readers import kind_of

MAX_BYTES = 50_000_000  # of one file


class File(msgspec.Struct, frozen=True):
    """A file to be read: its absolute path, the name of its source, and the reader for it."""

    path: str
    name: str
    kind: str


@dataclass
class Walked:
    """What was found.

    Attributes:
        files: by path, each once.
        bad: path -> what is wrong.
        folders: that were named and could be listed: what the index has of them and is not here, is gone.
        unknown: folders that could not be listed: nothing is known of what is below.
        others: files of kinds that are not read.
    """

    files: list[File] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    others: int = 0


def walk(paths: Iterable[str | os.PathLike[str]]) -> Walked:
    """The files of some paths: files, and folders with all below them.

    Raises:
        InvalidSpec: something is no path.
    """
    out, seen = Walked(), set[str]()
    for given in paths:
        if not isinstance(given, (str, os.PathLike)):
            raise InvalidSpec(f"a path of type {type(given).__name__}: expected a text or a path")
        path = os.path.abspath(os.fsdecode(given))
        if "\0" in path:
            out.bad[shown(path)] = "there is no such file"
            continue
        try:
            real = os.path.realpath(path, strict=True)
            mode = os.stat(real).st_mode
        except OSError as error:
            out.bad[shown(path)] = _said(error)
            continue
        if stat.S_ISDIR(mode):
            _folder(out, path, seen)
        elif not stat.S_ISREG(mode):
            out.bad[shown(path)] = "no regular file"
        elif real not in seen:
            seen.add(real)
            kind = kind_of(os.path.splitext(path)[1]) or "text"
            out.files.append(File(path, _name(os.path.basename(path)), kind))
    return out


def below(path: str, folder: str) -> bool:
    """Whether a path lies in a folder."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def content(path: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file.

    Raises:
        ImportFailed: it is larger, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise ImportFailed("no regular file")
            data = file.read(max_bytes + 1) if facts.st_size <= max_bytes else b""
    except OSError as error:
        raise ImportFailed(_said(error)) from error
    size = max(facts.st_size, len(data))
    if size > max_bytes:
        raise ImportFailed(
            f"{size / 1e6:.0f} MB, at most {max_bytes / 1e6:.0f} MB are read: split it, or raise the limit"
        )
    return data


def shown(path: str) -> str:
    """A path as text that can be stored and printed."""
    return os.fsencode(path).decode("utf-8", "replace")


def _name(path: str) -> str:
    """A path as the name of a source: in one line, and without signs that a terminal takes for orders."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in shown(path))


def _folder(out: Walked, root: str, seen: set[str]) -> None:
    inside = os.path.realpath(root)
    out.folders.append(shown(root))
    pending, links = [root], []
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted((entry.name, entry.is_symlink()) for entry in found)
        except OSError as error:
            out.bad[shown(folder)] = _said(error)
            out.unknown.append(shown(folder))
            continue
        deeper = []
        for name, is_link in entries:
            path = os.path.join(folder, name)
            if name.startswith("."):
                continue
            if is_link:
                links.append(path)
            elif os.path.isdir(path):
                deeper.append(path)
            else:
                _entry(out, root, path, path, seen)
        pending += reversed(deeper)
    for path in links:  # behind all that stands there itself, so that it is read under its own name
        _link(out, root, inside, path, seen)


def _link(out: Walked, root: str, inside: str, path: str, seen: set[str]) -> None:
    """A link is followed to a file in the folder; a folder in the folder is read anyway."""
    try:
        real = os.path.realpath(path, strict=True)
    except OSError as error:
        out.bad[shown(path)] = _said(error)
        return
    if real != inside and not below(real, inside):
        out.bad[shown(path)] = "a link that leads out of the folder: name what it leads to itself"
    elif not os.path.isdir(real):
        _entry(out, root, path, real, seen)
    elif below(os.path.realpath(os.path.dirname(path)) + os.sep, real):
        out.bad[shown(path)] = "a link that leads back: not followed"


def _entry(out: Walked, root: str, path: str, real: str, seen: set[str]) -> None:
    try:
        real = os.path.realpath(real, strict=True)
        regular = stat.S_ISREG(os.stat(real).st_mode)
    except OSError as error:
        out.bad[shown(path)] = _said(error)
        return
    kind = kind_of(os.path.splitext(path)[1])
    if not regular:
        out.bad[shown(path)] = "no regular file"
    elif kind is None:
        out.others += 1
    elif real not in seen:
        seen.add(real)
        out.files.append(File(path, _name(os.path.relpath(path, root)).replace(os.sep, "/"), kind))


def _said(error: OSError) -> str:
    """What a system's error means for a file."""
    known = {
        errno.ENOENT: "there is no such file", errno.ELOOP: "a link that leads in a circle",
        errno.EACCES: "no right to read it", errno.EPERM: "no right to read it",
        errno.ENAMETOOLONG: "its name is too long", errno.ENOTDIR: "there is no such file",
    }  # fmt: skip
    return known.get(error.errno or 0, error.strerror or "it cannot be read")
