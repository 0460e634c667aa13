"""A disk in memory that can lose its power: SQLite writes to it through apsw, and a cut keeps only what was synced.

Of what was written since the last sync each 512-byte sector survives or not by chance, and the last one may be torn.
A cut is an exception at a chosen write or sync; the image of the disk at that moment is what the next process finds.
"""

from __future__ import annotations

import random

import apsw

SECTOR = 512


class PowerCut(BaseException):
    """The machine is off; not an Exception, so that no code under test can swallow it."""


class Disk:
    """Files by name: what is durable, and what was written since the last sync."""

    def __init__(self, seed=0, image=None):
        self.durable = {name: bytes(data) for name, data in (image or {}).items()}
        self.current = {name: bytearray(data) for name, data in self.durable.items()}
        self.dirty = {}
        self.rng = random.Random(seed)
        self.cut_at = None
        self.operations = 0
        self.off = False

    def tick(self):
        """Count one operation; the power goes at the chosen one."""
        if self.off:
            raise PowerCut
        self.operations += 1
        if self.cut_at is not None and self.operations >= self.cut_at:
            self.off = True
            raise PowerCut

    def write(self, name, data, offset):
        """Write into the cache of the disk."""
        file = self.current.setdefault(name, bytearray())
        if len(file) < offset + len(data):
            file.extend(bytes(offset + len(data) - len(file)))
        file[offset : offset + len(data)] = data
        self.dirty.setdefault(name, set()).update(range(offset // SECTOR, (offset + len(data) - 1) // SECTOR + 1))

    def sync(self, name):
        """What was written is durable."""
        self.durable[name] = bytes(self.current.get(name, b""))
        self.dirty.pop(name, None)

    def delete(self, name):
        """Remove a file, durably."""
        for files in (self.durable, self.current, self.dirty):
            files.pop(name, None)

    def after_cut(self):
        """The image that a cut leaves behind."""
        image = {}
        for name in set(self.durable) | set(self.dirty):
            old, new = self.durable.get(name, b""), bytes(self.current.get(name, b""))
            if name not in self.dirty:
                image[name] = old
                continue
            kept = [s for s in sorted(self.dirty[name]) if self.rng.random() < 0.5]
            size = len(old)
            if kept and len(new) > len(old) and self.rng.random() < 0.5:
                size = len(new)
            out = bytearray(old.ljust(size, b"\0")[:size])
            for i, sector in enumerate(kept):
                start = sector * SECTOR
                piece = new[start : start + SECTOR]
                if i == len(kept) - 1 and self.rng.random() < 0.3:
                    piece = piece[: self.rng.randrange(0, SECTOR)]  # torn
                if start < size:
                    piece = piece[: size - start]
                    out[start : start + len(piece)] = piece
            image[name] = bytes(out)
        return image


class DiskFile:
    """One open file on the disk, as SQLite's VFS wants it."""

    def __init__(self, disk, name):
        self.disk, self.name = disk, name
        disk.current.setdefault(name, bytearray())

    def xRead(self, amount, offset):
        """Read."""
        return bytes(self.disk.current[self.name][offset : offset + amount])

    def xWrite(self, data, offset):
        """Write."""
        self.disk.tick()
        self.disk.write(self.name, bytes(data), offset)

    def xTruncate(self, size):
        """Truncate: durable with the next sync."""
        self.disk.tick()
        file = self.disk.current[self.name]
        del file[size:]
        self.disk.dirty.setdefault(self.name, set())

    def xSync(self, flags):
        """Make durable."""
        self.disk.tick()
        self.disk.sync(self.name)

    def xFileSize(self):
        """Size."""
        return len(self.disk.current[self.name])

    def xLock(self, level):
        """One process only."""

    def xUnlock(self, level):
        """One process only."""

    def xCheckReservedLock(self):
        """Nobody else."""
        return False

    def xFileControl(self, op, pointer):
        """Nothing special."""
        return False

    def xSectorSize(self):
        """A sector."""
        return SECTOR

    def xDeviceCharacteristics(self):
        """No promises."""
        return 0

    def xClose(self):
        """Nothing to do."""


class DiskVFS(apsw.VFS):
    """SQLite's file layer over a `Disk`."""

    def __init__(self, name, disk):
        self.disk = disk
        super().__init__(name, base="")

    def xOpen(self, name, flags):
        """Open."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or f"temp{id(object())}"
        return DiskFile(self.disk, path)

    def xDelete(self, name, sync_folder):
        """Delete."""
        self.disk.tick()
        self.disk.delete(name)

    def xAccess(self, name, flags):
        """Whether a file is there."""
        return name in self.disk.current

    def xFullPathname(self, name):
        """Names are paths."""
        return name
