"""The hash chain: each record's hash covers its bytes and the hash before it. Pure.

The first hash of a chain covers its name, so that a record cannot be moved to another chain.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from interlock.hub.audit.record import Record
from interlock.store.records import RecordRow

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Record)


def genesis(chain: str) -> bytes:
    """The hash that the first record of a chain follows."""
    return hashlib.sha256(b"interlock audit chain 1\0" + chain.encode()).digest()


def follow(previous: bytes, body: bytes) -> bytes:
    """The hash of a record that follows another."""
    return hashlib.sha256(previous + body).digest()


def row_of(chain: str, record: Record, previous: bytes) -> RecordRow:
    """The stored row of a record after the one with the hash `previous`."""
    body = _ENCODER.encode(record)
    return RecordRow(
        chain,
        record.seq,
        record.at,
        record.event,
        record.actor,
        record.server,
        record.name,
        record.trace,
        record.result,
        body.decode(),
        follow(previous, body),
    )


class UnreadableRecord(ValueError):
    """A stored body is not a record."""


def record_of(body: str | bytes) -> Record:
    """The record in stored bytes. Raises UnreadableRecord for anything else."""
    try:
        return _DECODER.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        raise UnreadableRecord(str(cause)) from None
