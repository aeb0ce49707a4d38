"""Results of servers without the names that only the hub writes."""

from __future__ import annotations

import msgspec

from interlock.protocols.mcp.reserved_names import clean_result
from interlock.wire.large import CheckedJson, encode_large
from interlock.wire.large_messages import decode_large_value
from interlock.wire.limits import DEFAULT


def cleaned(result: bytes) -> bytes:
    """A result of a server without the hub's names. Large ones are decoded piece by piece."""
    if type(result) is CheckedJson:
        whole = decode_large_value(result, DEFAULT, DEFAULT.answer_members)
        clean_result(whole.value)
        return CheckedJson.of(encode_large(whole.value), names=result.names)
    value = msgspec.json.decode(result)
    clean_result(value)
    return msgspec.json.encode(value)
