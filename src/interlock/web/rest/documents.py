"""Renders a tool list: single tools by name, and the OpenAPI document of all.

The list is the answer of `tools/list` to that caller, so a document contains only tools that its reader may see. It is
made and sent a few tools at a time. The part of a tool is kept, for every document that contains the tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from interlock.hub.catalog.items import digest_of
from interlock.process.turns import batches, in_turns
from interlock.protocols.registry.catalog import tool_schema
from interlock.protocols.registry.openapi import (
    OWN_COMPONENTS,
    OWN_PATHS,
    OWN_SCHEMAS,
    ComponentNames,
    introduction,
    tool_part,
)
from interlock.version import VERSION
from interlock.wire.large import JoinedArray

TOOLS_AT_ONCE: Final = 20
"""Tools in one piece of a document. Each takes a millisecond to describe, and three kilobytes."""
MAX_KEPT_BYTES: Final = 48 * 1024 * 1024
ABOUT_THE_HUB: Final = "Every tool of this hub that you may see. Calls pass the same checks as those over MCP."

Json = dict[str, Any]


class _Part(msgspec.Struct, frozen=True):
    """The part of a document that one tool makes up, encoded."""

    paths: bytes
    schemas: bytes
    tags: list[str]


_Key = tuple[str, bytes]
"""The component of a tool, and the digest of its definition."""


class Documents:
    """Makes OpenAPI documents, and keeps their parts."""

    def __init__(self) -> None:
        self._parts: dict[_Key, _Part] = {}
        self._bytes = 0
        self._making = asyncio.Lock()

    async def openapi(self, tools: JoinedArray, more: Mapping[str, object]) -> AsyncIterator[bytes]:
        """The document of these tools in pieces, with further paths for some callers."""
        names, tags = ComponentNames(), dict[str, None]()
        schemas = [_members(OWN_SCHEMAS)]
        yield b'{%b,"paths":{%b' % (_members(introduction("Interlock", VERSION, ABOUT_THE_HUB)), _members(OWN_PATHS))
        if more:
            yield b"," + _members(more)
        async for batch in in_turns(batches(tools.items(), TOOLS_AT_ONCE), at_once=1):
            parts = await self._described(batch, names)
            yield b"".join([b"," + part.paths for part in parts])
            for part in parts:
                schemas.append(part.schemas)
                tags |= dict.fromkeys(part.tags)
        yield b'},"tags":%b,"components":{%b,"schemas":{' % (
            msgspec.json.encode([{"name": tag} for tag in tags]),
            _members(OWN_COMPONENTS),
        )
        first = b""
        async for few in in_turns(batches(schemas, TOOLS_AT_ONCE), at_once=1):
            yield first + b",".join(few)
            first = b","
        yield b"}}}"

    async def _described(self, tools: Sequence[bytes], names: ComponentNames) -> list[_Part]:
        """The parts of some tools. Those that no document had yet are made in a thread."""
        keys = [(names.take(_decode_name(tool).name), digest_of(tool)) for tool in tools]
        async with self._making:  # Another reader may be waiting for the same parts.
            found = {key: part for key in keys if (part := self._parts.get(key)) is not None}
            lacking = {key: tool for key, tool in zip(keys, tools, strict=True) if key not in found}
            if lacking:
                made = await asyncio.to_thread(_make, lacking)
                self._keep(made)
                found |= made
        return [found[key] for key in keys]

    def _keep(self, made: Mapping[_Key, _Part]) -> None:
        self._bytes += sum(len(part.paths) + len(part.schemas) for part in made.values())
        if self._bytes > MAX_KEPT_BYTES:
            self._parts.clear()
            self._bytes = 0
        else:
            self._parts |= made


async def definition(tools: JoinedArray, name: str) -> Json | None:
    """The tool with this name in a list."""
    async for tool in in_turns(tools.items()):
        if _decode_name(tool).name == name:
            return msgspec.json.decode(tool, type=Json)
    return None


def rendered(definition: Json) -> bytes:
    """One tool with its examples and metadata."""
    more = tool_schema(definition)
    return msgspec.json.encode({**definition, "examples": more["examples"], "metadata": more["metadata"]})


def _make(tools: Mapping[_Key, bytes]) -> dict[_Key, _Part]:
    made = {}
    for key, tool in tools.items():
        part = tool_part(msgspec.json.decode(tool, type=Json), key[0])
        made[key] = _Part(_members(part.paths), _members(part.schemas), part.tags)
    return made


def _members(value: Mapping[str, object]) -> bytes:
    """The members of an object, as JSON without its braces."""
    return msgspec.json.encode(value)[1:-1]


class _Named(msgspec.Struct):
    name: str


_decode_name: Final = msgspec.json.Decoder(_Named).decode
