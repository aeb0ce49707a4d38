"""The head file: a small file beside the database with the last record of a chain. It reveals a cut tail.

The file is mapped into memory. A written value survives the end of the process at once, and a power cut after a flush.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

_MAGIC: Final = b"interlock head 1"
_SLOT: Final = struct.Struct("<QQ32sI")
_COUNTER: Final = struct.Struct("<Q")
_SLOTS: Final = (64, 128)
_ISSUED: Final = 192
_CHAIN: Final = 256
_SIZE: Final = 4096
_MAX_CHAIN_BYTES: Final = 200


class ChainHead(msgspec.Struct, frozen=True):
    """The newest state of a chain."""

    chain: str
    seq: int
    """The last committed record, and its hash."""
    hash: bytes
    oldest_open: int
    """Every intent before this one has its outcome."""
    issued: int
    """The last assigned sequence number. The database has not confirmed those after `seq`."""


class HeadDamaged(Exception):
    """The file is not a head file, or is damaged."""


def read_head(path: Path) -> ChainHead | None:
    """The head in a file; None if there is no file. Raises HeadDamaged."""
    try:
        page = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as cause:
        raise HeadDamaged(f"{path}: {cause.strerror}") from cause
    if len(page) != _SIZE or not page.startswith(_MAGIC):
        raise HeadDamaged(f"{path} is not the head file of an audit chain")
    slots = [slot for slot in (_read_slot(page, at) for at in _SLOTS) if slot is not None]
    if not slots:
        raise HeadDamaged(f"{path}: both copies are damaged")
    seq, oldest_open, hash_ = max(slots)
    chain = page[_CHAIN : _CHAIN + _MAX_CHAIN_BYTES].rstrip(b"\0").decode(errors="replace")
    return ChainHead(chain, seq, hash_, oldest_open, _COUNTER.unpack_from(page, _ISSUED)[0])


def head_if_whole(path: Path) -> ChainHead | None:
    """The head in a file; None also if it is damaged."""
    try:
        return read_head(path)
    except HeadDamaged:
        return None


class HeadFile:
    """The head of a chain that is being written. `issue` and `move` only copy a few bytes."""

    def __init__(self, path: Path, head: ChainHead) -> None:
        name = head.chain.encode()
        if not 0 < len(name) <= _MAX_CHAIN_BYTES:
            raise ValueError(f"the name of a chain has 1 to {_MAX_CHAIN_BYTES} bytes")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        page = bytearray(_SIZE)
        page[: len(_MAGIC)] = _MAGIC
        page[_CHAIN : _CHAIN + len(name)] = name
        for at in _SLOTS:
            _write_slot(page, at, head.seq, head.oldest_open, head.hash)
        _COUNTER.pack_into(page, _ISSUED, head.issued)
        draft = path.with_name(f".{path.name}.new")
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as out:
            out.write(page)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
        self._file = path.open("r+b")
        self._page = mmap.mmap(self._file.fileno(), _SIZE)
        self._next_slot = 0
        self._sync_due = False
        self._sync_thread = ThreadPoolExecutor(1, thread_name_prefix="audit-head")
        self.issue: Callable[[int], None] = partial(_COUNTER.pack_into, self._page, _ISSUED)
        """Note that a record got this sequence number."""

    def move(self, seq: int, hash: bytes, oldest_open: int) -> None:
        """Note that records up to this one are committed. The two copies alternate, so that one is always whole."""
        _write_slot(self._page, _SLOTS[self._next_slot], seq, oldest_open, hash)
        self._next_slot ^= 1

    def sync_soon(self) -> None:
        """Flush to the disk on a thread."""
        if not self._sync_due:
            self._sync_due = True
            self._sync_thread.submit(self._sync)

    def close(self) -> None:
        """Flush and close the file. Blocks."""
        self._sync_thread.shutdown()
        self._page.flush()
        self._page.close()
        self._file.close()

    def _sync(self) -> None:
        self._sync_due = False
        if sys.platform == "win32":
            self._page.flush()
        else:
            # `flush` of the page holds the interpreter's lock while it waits for the disk, so the event loop would
            # wait too. Syncing the file writes the same page and releases the lock.
            os.fsync(self._file.fileno())


def _write_slot(page: bytearray | mmap.mmap, at: int, seq: int, oldest_open: int, hash: bytes) -> None:
    checksum = zlib.crc32(struct.pack("<QQ32s", seq, oldest_open, hash))
    _SLOT.pack_into(page, at, seq, oldest_open, hash, checksum)


def _read_slot(page: bytes, at: int) -> tuple[int, int, bytes] | None:
    seq, oldest_open, hash_, checksum = _SLOT.unpack_from(page, at)
    return (seq, oldest_open, hash_) if zlib.crc32(page[at : at + 48]) == checksum else None
