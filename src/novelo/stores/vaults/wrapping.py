"""Keys that wrap keys: from the environment, from a file, as bytes, or somebody else's (a key management service).

A wrapping key never touches a text: it wraps the data keys (AES key wrap, RFC 3394), so that another one takes its
place without a body being written anew.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from novelo.errors import InvalidSpec, KeyRefused
from novelo.stores.vaults.ciphers import KEY_BYTES

from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap  # isort: skip

VARIABLE = "NOVELO_KEY"
EXPECTED = "32 bytes in base64, as `novelo keys new` prints them"


@runtime_checkable
class WrappingKey(Protocol):
    """Whatever wraps keys: ours, or a hook to a key management service.

    `name` tells it from others and stands in the vault, so it must be no secret and never change.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def wrap(self, key: bytes) -> bytes:
        """A key of 32 bytes, wrapped."""
        ...

    def unwrap(self, wrapped: bytes) -> bytes:
        """The key; any error if it was wrapped by another one."""
        ...


class LocalKey:
    """A wrapping key that this process knows; its name is a hash of it."""

    __slots__ = ("_secret", "name")

    def __init__(self, secret: bytes) -> None:
        """From 32 bytes.

        Raises:
            InvalidSpec: fewer or more.
        """
        if not isinstance(secret, bytes) or len(secret) != KEY_BYTES:
            raise InvalidSpec(f"the key: expected {EXPECTED}")
        self._secret = secret
        self.name = blake2b(b"name", key=secret, digest_size=8, person=b"novelo").hexdigest()

    def __repr__(self) -> str:
        return f"LocalKey({self.name})"

    def wrap(self, key: bytes) -> bytes:
        """AES key wrap."""
        return aes_key_wrap(self._secret, key)

    def unwrap(self, wrapped: bytes) -> bytes:
        """The key.

        Raises:
            KeyRefused: it was wrapped by another one, or altered.
        """
        try:
            return aes_key_unwrap(self._secret, wrapped)
        except (InvalidUnwrap, ValueError):
            raise KeyRefused(f"key {self.name} does not unwrap what it should: the vault was altered") from None


def new_key() -> str:
    """A fresh wrapping key as text."""
    return base64.b64encode(os.urandom(KEY_BYTES)).decode()


def wrapping_key(given: Any) -> WrappingKey:
    """A wrapping key from what stands for one.

    Args:
        given: "env:NAME", "file:/path", base64 text, 32 bytes, or an object with `name`, `wrap` and `unwrap`.
    Raises:
        KeyRefused: the variable or the file is not there. InvalidSpec: it holds no key. The text never repeats it.
    """
    if isinstance(given, bytes):
        return LocalKey(given)
    if isinstance(given, str):
        kind, _, rest = given.partition(":")
        if kind == "env":
            found = os.environ.get(rest)
            if not found:
                raise KeyRefused(f"the environment has no {rest}: set it to the key, {EXPECTED}")
            return LocalKey(_read(found, f"the key in {rest}"))
        if kind == "file":
            try:
                found = Path(rest).read_text("ascii")
            except (OSError, UnicodeDecodeError) as error:
                raise KeyRefused(f"the key file {rest} cannot be read ({type(error).__name__})") from None
            return LocalKey(_read(found, f"the key in {rest}"))
        return LocalKey(_read(given, "the key (neither env:NAME nor file:/path)"))
    if isinstance(given, WrappingKey):
        return given
    raise InvalidSpec(f"key of type {type(given).__name__}: expected env:NAME, file:/path, or wrap, unwrap and name")


def wrapping_keys(given: Any) -> list[WrappingKey]:
    """One or several: the first one wraps, the others unwrap what is older."""
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        if not given:
            raise InvalidSpec("no key: expected one, or the new one and older ones")
        return [wrapping_key(one) for one in given]
    return [wrapping_key(given)]


def _read(text: str, what: str) -> bytes:
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if len(found) != KEY_BYTES:
        raise InvalidSpec(f"{what}: expected {EXPECTED}") from None
    return found
