"""Converts results of a newer server to an older revision. Bytes in, bytes out.

Structured content came with 2025-06-18 and had to be an object until 2026-07-28. Audio came with 2025-03-26, links to
resources with 2025-06-18. Content that a revision lacks is replaced by a text about it, never dropped silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from interlock.protocols.mcp.revisions import R2025_03_26, Revision
from interlock.wire.large import CheckedJson, mentions
from interlock.wire.names import may_spell

RESULT: Final = "result"
"""The member that wraps a value which is not an object, where only objects are allowed."""

_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
OUTPUT_SCHEMA: Final = b"outputSchema"
_WHOLE: Final = f"#/properties/{RESULT}"


def wraps(output_schema: bytes | None) -> bool:
    """Whether a tool's structured content must be wrapped in an object for clients before 2026-07-28."""
    return output_schema is not None and msgspec.json.decode(output_schema, type=_Kind).type != "object"


def older_tool(revision: Revision, definition: bytes) -> bytes:
    """A tool's definition, with its output schema in the form of the revision."""
    if revision.modern or not may_spell(definition, OUTPUT_SCHEMA):
        return definition
    tool = _decode_fields(definition)
    schema = tool.get("outputSchema")
    if schema is None:
        return definition
    if not revision.structures:
        del tool["outputSchema"]
    elif wraps(bytes(schema)):
        tool["outputSchema"] = msgspec.Raw(msgspec.json.encode(_wrapped(msgspec.json.decode(schema))))
    else:
        return definition
    return msgspec.json.encode(tool)


def _may_have_structure(result: bytes) -> bool:
    if type(result) is CheckedJson:
        return mentions(result, b'"structuredContent"')
    return may_spell(result, b"structuredContent")


def result_for(revision: Revision, result: bytes, wrap: bool) -> bytes:
    """A result of a tool, prompt or resource. `wrap`: the listed output schema of the tool is wrapped."""
    if revision.modern:
        return result
    if _may_have_structure(result):
        result = _with_fitting_structure(result, revision, wrap)
    links = not revision.structures and may_spell(result, b"resource_link")
    sounds = revision.name < R2025_03_26.name and may_spell(result, b"audio")
    if links or sounds:
        value: dict[str, Any] = msgspec.json.decode(result)
        for holder, member in _places(value):
            holder[member] = _fitting(holder[member], revision)
        return msgspec.json.encode(value)
    return result


def _with_fitting_structure(result: bytes, revision: Revision, wrap: bool) -> bytes:
    fields = _decode_fields(result)
    structured = fields.get("structuredContent")
    if structured is None:
        return result
    if not revision.structures:
        del fields["structuredContent"]
        if bytes(fields.get("content", b"[]")).replace(b" ", b"") == b"[]":
            text = {"type": "text", "text": bytes(structured).decode()}
            fields["content"] = msgspec.Raw(msgspec.json.encode([text]))
    elif wrap or bytes(structured)[:1] != b"{":
        fields["structuredContent"] = msgspec.Raw(b'{"%b":%b}' % (RESULT.encode(), bytes(structured)))
    else:
        return result
    return msgspec.json.encode(fields)


def _wrapped(schema: Any) -> dict[str, object]:
    moved = _moved(schema)
    wrapped: dict[str, object] = {"type": "object", "properties": {RESULT: moved}, "required": [RESULT]}
    if isinstance(moved, dict) and "$schema" in moved:
        wrapped["$schema"] = moved.pop("$schema")
    return wrapped


def _moved(schema: Any) -> Any:
    """A schema moved one level down, with adjusted references to its own parts."""
    if isinstance(schema, list):
        return [_moved(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _moved(part) for key, part in schema.items()}
    ref = parts.get("$ref")
    # A schema with its own identifier is its own root, so its references stay.
    if isinstance(ref, str) and (ref == "#" or ref.startswith("#/")):
        parts["$ref"] = _WHOLE + ref[1:]
    return parts


def _places(value: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The lists of content blocks: in a tool's result, and in the messages of a prompt."""
    content = value.get("content")
    if isinstance(content, list):
        yield from ((content, index) for index in range(len(content)))
    messages = value.get("messages")
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and "content" in message:
            yield message, "content"


def _fitting(piece: Any, revision: Revision) -> Any:
    kind = piece.get("type") if isinstance(piece, dict) else None
    if kind == "resource_link":
        return {"type": "text", "text": f"{piece.get('title') or piece.get('name')}: {piece.get('uri')}"}
    if kind == "audio" and revision.name < R2025_03_26.name:
        sound = piece.get("mimeType", "audio")
        return {"type": "text", "text": f"[{sound}, which revision {revision.name} of MCP cannot carry]"}
    return piece


class _Kind(msgspec.Struct):
    type: object = None
