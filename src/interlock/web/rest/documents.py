"""Renders a tool list: single tools by name, and the OpenAPI document of all, made once for each list.

The list is the answer of `tools/list` to that caller, so a document contains only tools that its reader may see.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from interlock.protocols.registry.catalog import tool_schema
from interlock.protocols.registry.openapi import openapi
from interlock.version import VERSION

MAX_LISTS: Final = 16
ABOUT_THE_HUB: Final = "Every tool of this hub that you may see. Calls pass the same checks as those over MCP."


class Documents:
    """Caches the last few lists with their documents."""

    def __init__(self) -> None:
        self._lists: OrderedDict[bytes, ToolList] = OrderedDict()

    def of(self, listing: bytes) -> ToolList:
        key = hashlib.sha256(listing).digest()
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = ToolList(listing)
            if len(self._lists) > MAX_LISTS:
                self._lists.popitem(last=False)
        self._lists.move_to_end(key)
        return found


class ToolList:
    """One answer of `tools/list`."""

    def __init__(self, listing: bytes) -> None:
        self._listing = listing
        self._making: asyncio.Future[bytes] | None = None

    @cached_property
    def tools(self) -> dict[str, msgspec.Raw]:
        """Each definition by its name, not decoded."""
        listed = msgspec.json.decode(self._listing, type=_List).tools
        return {msgspec.json.decode(tool, type=_Named).name: tool for tool in listed}

    def definition(self, name: str) -> dict[str, Any] | None:
        found = self.tools.get(name)
        return None if found is None else msgspec.json.decode(found, type=dict[str, Any])

    def rendered(self, name: str) -> bytes | None:
        """One tool with its examples and metadata."""
        definition = self.definition(name)
        if definition is None:
            return None
        more = tool_schema(definition)
        return msgspec.json.encode({**definition, "examples": more["examples"], "metadata": more["metadata"]})

    async def openapi(self, more: Mapping[str, object] | None = None) -> bytes:
        """The OpenAPI document, with further paths for some callers. It is made once, off the loop."""
        if self._making is None or (self._making.done() and self._making.exception() is not None):
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make))
        document = await asyncio.shield(self._making)
        return await asyncio.to_thread(_with_paths, document, more) if more else document

    def _make(self) -> bytes:
        tools = [msgspec.json.decode(tool, type=dict[str, Any]) for tool in self.tools.values()]
        document = openapi(tools, title="Interlock", version=VERSION, description=ABOUT_THE_HUB)
        return msgspec.json.encode(document)


def _with_paths(document: bytes, more: Mapping[str, object]) -> bytes:
    whole = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    paths = msgspec.json.decode(whole["paths"], type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**whole, "paths": {**paths, **more}})


class _List(msgspec.Struct):
    tools: list[msgspec.Raw]


class _Named(msgspec.Struct):
    name: str
