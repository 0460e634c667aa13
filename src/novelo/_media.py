"""How many tokens a picture, a sound or a file weighs, from what stands in the part itself; no address is ever fetched.

Base64 is a way to send bytes and is never counted as text: a photo of 3 MB is some 800 tokens, not a million.
"""

from __future__ import annotations

import binascii
import struct
from typing import Any

from novelo.messages import Audio, File, Image

# OpenAI, "Images and vision", costs of tile-based models: fit into 2048 x 2048, the shorter side to at most 768, then
# 85 and 170 for each tile of 512 x 512; detail "low" is 85 whatever the size. Others are of the same order (Anthropic:
# width x height / 750, at most about 1600).
LOW_DETAIL, TILE = 85, 170
IMAGE = LOW_DETAIL + 4 * TILE  # size unknown: what all large pictures of common proportions cost, 765
# Gemini API, "Understand and count tokens": 32 tokens a second, the most among providers.
AUDIO_PER_SECOND = 32
SOUND_BYTES_PER_SECOND = {"wav": 32_000, "pcm": 32_000, "pcm16": 48_000, "flac": 24_000}  # 16 bit, one channel
COMPRESSED_BYTES_PER_SECOND = 8_000  # mp3, ogg, aac at 64 kbit/s
AUDIO = 60 * AUDIO_PER_SECOND  # length unknown: a minute
# Anthropic, "PDF support": 1500 to 3000 tokens a page, at most 100 pages.
PDF_BYTES_PER_TOKEN, PDF_MOST = 25, 300_000
TEXT_BYTES_PER_TOKEN = 3
FILE = 3_000  # size unknown: a full page
_HEADER = 64 * 1024  # bytes looked at to find the size of a picture


def image_tokens(part: Image) -> int:
    """Tokens of a picture.

    Width and height are taken from the part's extra fields or from the head of its data (PNG, GIF, WebP, JPEG).

    Example: 4000 x 3000 -> 2048 x 1536 -> 1024 x 768 -> 4 tiles -> 765.
    """
    if part.detail == "low":
        return LOW_DETAIL
    size = _stated_size(part.extra) or _size_in(payload(part))
    return IMAGE if size is None else tile_tokens(*size)


def tile_tokens(width: int, height: int) -> int:
    """Tokens of a picture of this many pixels by the tile rule."""
    shrink = min(1.0, 2048 / max(width, height))
    shrink = min(shrink, 768 / min(width, height))
    across, down = (max(1, -(-round(side * shrink) // 512)) for side in (width, height))
    return LOW_DETAIL + TILE * across * down


def audio_tokens(part: Audio) -> int:
    """Tokens of a sound, by its bytes and usual bit rates; a minute's where nothing is known."""
    size = _bytes_in(payload(part))
    if not size:
        return AUDIO
    kind = (part.media_type or "").rpartition("/")[2].removeprefix("x-").lower()
    return 1 + size * AUDIO_PER_SECOND // SOUND_BYTES_PER_SECOND.get(kind, COMPRESSED_BYTES_PER_SECOND)


def file_tokens(part: File) -> int:
    """Tokens of a document, by its bytes and kind; a page's where nothing is known."""
    data = payload(part)
    size = _bytes_in(data)
    if not size:
        return FILE
    kind = part.media_type or ((part.url or "")[5:60].split(";")[0] if data is not part.data else "")
    if kind.startswith("text/") or kind.endswith(("json", "xml", "yaml")):
        return 1 + size // TEXT_BYTES_PER_TOKEN
    return min(1 + size // PDF_BYTES_PER_TOKEN, PDF_MOST)


def payload(part: Image | Audio | File) -> str | None:
    """The base64 text that a part carries, in its data or in a `data:` address."""
    if part.data is not None:
        return part.data
    if part.url is not None and part.url[:5].lower() == "data:":
        return part.url.partition(",")[2]
    return None


def _bytes_in(data: str | None) -> int:
    return len(data) * 3 // 4 if data else 0


def _stated_size(extra: dict[str, Any]) -> tuple[int, int] | None:
    width, height = extra.get("width"), extra.get("height")
    if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0:
        return width, height
    return None


def _size_in(data: str | None) -> tuple[int, int] | None:
    """Width and height from the head of a picture's bytes; None where there is none we can read."""
    if not data:
        return None
    try:
        head = binascii.a2b_base64(data[: _HEADER // 3 * 4])
        size = _read_size(head)
    except (ValueError, struct.error, IndexError):  # cut, damaged, or no base64 at all
        return None
    return size if size and min(size) > 0 else None


def _read_size(head: bytes) -> tuple[int, int] | None:
    """Width and height by the format's own header."""
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        return struct.unpack(">II", head[16:24])
    if head[:4] == b"GIF8":
        return struct.unpack("<HH", head[6:10])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return _jpeg_size(head) if head[:2] == b"\xff\xd8" else None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    """RFC 9649: the three kinds of WebP keep the size in different places."""
    kind = head[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    """From marker to marker to the frame header (SOF), ITU T.81 annex B; each step moves on, so it ends."""
    at = 2
    while at + 9 < len(head):
        marker = head[at + 1]
        if head[at] != 0xFF:
            return None
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big") if marker != 0xFF else 1
    return None
