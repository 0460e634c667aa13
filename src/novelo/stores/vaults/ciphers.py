"""One data key and what is done with it: bytes are hidden under AES-256-GCM, names under AES-SIV, owners under a hash.

Hidden bytes are two bytes of a mark, four of the data key's version, twelve of a random nonce, and the text with its
tag of sixteen: 34 bytes more than was hidden. What they belong to (table, column, thread, row, version) is
authenticated with them, so that a row that was moved, swapped or cut is refused. One key serves one thread: far below
the 2^32 messages up to which random nonces are safe (NIST SP 800-38D, 8.3).

A name that must be found again (a message's id, an idempotency key, a hash) is encrypted deterministically (AES-SIV,
RFC 5297): the same name under the same key gives the same bytes, and without the key nobody can tell which name it is,
nor try out names.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any

import msgspec

from novelo.errors import MissingExtra, Undecipherable

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
except ImportError as missing:
    raise MissingExtra("encryption needs cryptography: pip install 'novelo[encryption]'") from missing

MARK = b"\xe5\x01"  # begins what is hidden; no JSON begins so
TEXT_MARK = "e1."  # begins what is hidden in a column of text
HEAD, NONCE, TAG = 6, 12, 16  # bytes
KEY_BYTES = 32

_PACK = msgspec.msgpack.Encoder().encode


class ThreadKey:
    """A data key in use: of one thread, and one life of it."""

    __slots__ = ("_gcm", "_head", "_siv", "print_key", "seal_key", "thread", "version")

    def __init__(self, thread: bytes, version: int, secret: bytes) -> None:
        self.thread, self.version = thread, version
        self._gcm = AESGCM(_derived(secret, b"bodies", 32))
        self._siv = AESSIV(_derived(secret, b"names", 64))
        self.seal_key = _derived(secret, b"seals", 32)
        self.print_key = _derived(secret, b"prints", 32)
        self._head = MARK + version.to_bytes(4, "big")

    def __repr__(self) -> str:
        return f"ThreadKey({self.thread.hex()}, version={self.version})"

    # ------------------------------------------------------------------------------------------ bytes
    def hide(self, data: bytes, column: str, *place: Any) -> bytes:
        """Bytes for a column of a row."""
        nonce = os.urandom(NONCE)
        sealed = self._gcm.encrypt(nonce, data, _PACK((column, self.thread, self.version, place)))
        return self._head + nonce + sealed

    def reveal(self, blob: bytes, column: str, *place: Any) -> bytes:
        """The bytes that were hidden, if they stand where they were put.

        Raises:
            Undecipherable: they were altered, cut, moved, or hidden under another key.
        """
        if blob[:HEAD] != self._head:
            raise self._refused(column)
        about = _PACK((column, self.thread, self.version, place))
        try:
            return self._gcm.decrypt(blob[HEAD : HEAD + NONCE], blob[HEAD + NONCE :], about)
        except (InvalidTag, ValueError):
            raise self._refused(column) from None

    def hide_text(self, text: str, column: str, *place: Any) -> str:
        """The same of a text for a column of text."""
        return TEXT_MARK + urlsafe_b64encode(self.hide(text.encode("utf-8", "surrogatepass"), column, *place)).decode()

    def reveal_text(self, text: str, column: str, *place: Any) -> str:
        """The text that was hidden; likewise."""
        return self.reveal(self._bytes(text, column), column, *place).decode("utf-8", "surrogatepass")

    # ------------------------------------------------------------------------------------------ names
    def name(self, text: str, column: str) -> str:
        """A name that is found again by the same bytes."""
        return TEXT_MARK + urlsafe_b64encode(self.mark(text.encode("utf-8", "surrogatepass"), column)).decode()

    def named(self, text: str, column: str) -> str:
        """The name that was hidden; likewise."""
        return self.marked(self._bytes(text, column), column).decode("utf-8", "surrogatepass")

    def mark(self, data: bytes, column: str) -> bytes:
        """The same of bytes: a hash."""
        return self._siv.encrypt(data + b"\0", [column.encode()])  # no library takes nothing at all

    def marked(self, blob: bytes, column: str) -> bytes:
        """The bytes that were hidden; likewise."""
        try:
            return self._siv.decrypt(blob, [column.encode()])[:-1]
        except (InvalidTag, ValueError):
            raise self._refused(column) from None

    def _bytes(self, text: Any, column: str) -> bytes:
        found = bytes_of(text)
        if not found:
            raise self._refused(column)
        return found

    def _refused(self, column: str) -> Undecipherable:
        return Undecipherable(
            f"{column} of thread {self.thread.hex()} was altered, moved, or is encrypted with another key: "
            "restore a backup"
        )


def bytes_of(text: Any) -> bytes:
    """What stands in a column of text; nothing if it is not hidden at all."""
    try:
        return urlsafe_b64decode(text[len(TEXT_MARK) :]) if text.startswith(TEXT_MARK) else b""
    except (ValueError, AttributeError):
        return b""


def version_of(blob: Any, column: str, thread: bytes) -> int:
    """The version of the key that bytes are hidden under.

    Raises:
        Undecipherable: they are not hidden at all.
    """
    if not isinstance(blob, bytes) or blob[:2] != MARK or len(blob) < HEAD + NONCE + TAG:
        raise Undecipherable(
            f"{column} of thread {thread.hex()} is not encrypted, and all of this database should be: restore a backup"
        )
    return int.from_bytes(blob[2:HEAD], "big")


def _derived(secret: bytes, what: bytes, size: int) -> bytes:
    return blake2b(what, key=secret, digest_size=size, person=b"novelo").digest()
