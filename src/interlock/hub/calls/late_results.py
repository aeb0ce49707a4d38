"""Results of calls whose client had gone: an identical call of the same principal gets them, once and within a minute.

Some clients give up without a word and repeat the call. Without this, a call that a person approved would ask again,
and a call that changes something would change it twice.
"""

from __future__ import annotations

import hashlib
import time
from typing import Final

import msgspec

from interlock.hub.calls.call import Call

KEPT_S: Final = 60.0
MAX_KEPT: Final = 256
MAX_KEPT_PER_OWNER: Final = 16
MAX_BYTES: Final = 256 * 1024
"""Larger results are not kept."""
MARK: Final = "dev.interlock/earlierCall"
_Key = tuple[str, str, str, str, str, bool, bytes]


class LateResults:
    """The results of one hub that nobody waited for."""

    def __init__(self) -> None:
        self.kept: dict[_Key, tuple[float, bytes]] = {}

    def keep(self, call: Call, result: bytes) -> None:
        """Keep a result that could not be delivered."""
        if call.target.kind != "tool" or len(result) > MAX_BYTES:
            return
        now = time.monotonic()
        self.kept = {key: kept for key, kept in self.kept.items() if now - kept[0] < KEPT_S}
        own = [key for key in self.kept if key[0] == call.caller.owner]
        for key in own[: max(0, len(own) + 1 - MAX_KEPT_PER_OWNER)]:
            del self.kept[key]
        if len(self.kept) < MAX_KEPT:
            self.kept[_key(call)] = (now, result)

    def take(self, call: Call) -> bytes | None:
        """The result for an identical call, marked as that of an earlier one; None if there is none."""
        finished, result = self.kept.pop(_key(call), (0.0, b""))
        age = time.monotonic() - finished
        return _marked(result, age) if result and age < KEPT_S else None


def _key(call: Call) -> _Key:
    tool = call.target.tool
    fingerprint = "" if tool is None else tool.fingerprint()
    revision, bare = call.exchange.dialect.revision.name, call.caller.bare
    arguments = hashlib.sha256(call.arguments_raw).digest()
    return (call.caller.owner, call.target.server, call.target.name, fingerprint, revision, bare, arguments)


def _marked(result: bytes, age_s: float) -> bytes:
    fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
    meta = msgspec.json.decode(fields.get("_meta", b"{}"), type=dict[str, object])
    meta[MARK] = {"finished_s_ago": round(age_s, 1)}
    fields["_meta"] = msgspec.Raw(msgspec.json.encode(meta))
    return msgspec.json.encode(fields)
