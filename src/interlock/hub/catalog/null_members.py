"""Nulls in definitions. MCP knows optional members, but no null: many servers send one for a member that they lack.

Members that no revision of MCP or MGP names stay as they are, as do values inside schemas and `_meta`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.catalog.items import Fields

_NAMES: Final = """
    title description annotations outputSchema execution icons _meta security arguments mimeType size
"""
_OPTIONAL: Final = frozenset(_NAMES.split())
_OF_OPTIONAL_MEMBERS: Final = frozenset({"annotations", "execution", "icons", "arguments"})
"""Objects, or lists of objects, whose own members are optional, too."""


def drop_nulls(definition: bytes, fields: Fields) -> None:
    """Take the optional members that are null out of a definition's fields: clients refuse a whole list for one."""
    if b"null" not in definition:
        return
    for name in _OPTIONAL.intersection(fields):
        value = bytes(fields[name])
        if value == b"null":
            del fields[name]
        elif name in _OF_OPTIONAL_MEMBERS and b"null" in value:
            fields[name] = msgspec.Raw(_without_nulls(value))


def _without_nulls(value: bytes) -> bytes:
    if value.startswith(b"["):
        return b"[%b]" % b",".join([_object_without_nulls(bytes(each)) for each in _decode_list(value)])
    return _object_without_nulls(value)


def _object_without_nulls(value: bytes) -> bytes:
    if not value.startswith(b"{"):
        return value
    return msgspec.json.encode({name: each for name, each in _decode_object(value).items() if bytes(each) != b"null"})


_decode_object = msgspec.json.Decoder(Fields).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
