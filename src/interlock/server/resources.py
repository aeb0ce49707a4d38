"""Resources: one address, or a template of addresses, and the function that reads what is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from interlock.server.content import NotFound, ResourceContents
from interlock.server.functions import Function
from interlock.server.options import ResourceOptions, Scope, check_options
from interlock.server.uri_template import UriTemplate, parse
from interlock.server.work import Work
from interlock.signatures import ArgumentsError, DefinitionError
from interlock.signatures.type_schema import as_json
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.server import Server


_TEMPLATE = re.compile(r"[^\s\x00-\x1f<>\"\\^`]+\Z")
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_TEMPLATE.pattern}")
"""RFC 3986, as far as anyone could get it wrong."""


class Resource:
    """A function offered as a resource, or as a template of resources."""

    __slots__ = ("_entry", "_function", "_mime_type", "cache", "key", "scope", "template", "ttl_ms")

    def __init__(self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]) -> None:
        check_options("a resource", options, ResourceOptions)
        self.key = uri
        self.ttl_ms = options.get("ttl_ms", 0)
        """How long what was read is good for; the server keeps it as long and reads anew after that."""
        self.scope: Scope = options.get("scope", "private")
        self.cache = cache_hints(self.ttl_ms, self.scope)
        self._mime_type = options.get("mime_type")
        self._function = Function(function)
        signature = self._function.signature
        try:
            self.template: UriTemplate | None = parse(uri) if "{" in uri else None
        except ValueError as error:
            raise DefinitionError(f"{signature.where}: {error}") from None
        if not (_TEMPLATE if self.template else _URI).match(uri):
            raise DefinitionError(f"{signature.where}: {uri!r} is no address; write it with a scheme, as notes://one")
        taken = tuple(field.name for field in signature.inputs)
        needed = self.template.names if self.template else ()
        if not set(needed) <= set(taken) or any(f.is_required and f.name not in needed for f in signature.inputs):
            raise DefinitionError(f"{signature.where}: takes {list(taken)}, but {uri!r} gives {list(needed)}")
        description = options.get("description")
        entry = {
            "uriTemplate" if self.template else "uri": uri,
            "name": options.get("name") or getattr(function, "__name__", uri),
            "title": options.get("title"),
            "description": signature.description or None if description is None else description,
            "mimeType": self._mime_type,
            "size": options.get("size"),
            "annotations": options.get("annotations"),
            "icons": options.get("icons") or None,
            "_meta": options.get("meta"),
        }
        self._entry = msgspec.json.encode({member: value for member, value in entry.items() if value is not None})

    @property
    def where(self) -> str:
        """The file, the line and the function it comes from."""
        return self._function.signature.where

    def entry(self, modern: bool) -> bytes:
        """Its row in a list."""
        return self._entry

    def match(self, uri: str) -> dict[str, str] | None:
        """The template's variables if the address is one of it."""
        if self.template is None:
            return None
        variables = self.template.match(uri)
        return variables if variables is not None and self.template.keeps(variables) else None

    async def read(self, server: Server, work: Work, uri: str, variables: dict[str, str]) -> bytes:
        """What is there: the members of a ReadResourceResult. Raises RESOURCE_NOT_FOUND."""
        try:
            values = self._function.arguments_from_text(variables)
            value = await self._function.run(server, work, values)
        except (NotFound, ArgumentsError) as error:
            raise not_found(uri) from error
        return b'"contents":%b' % msgspec.json.encode(self._contents(uri, value))

    def _contents(self, uri: str, value: object) -> list[ResourceContents]:
        if isinstance(value, ResourceContents):
            return [value]
        if isinstance(value, list | tuple) and value and all(isinstance(item, ResourceContents) for item in value):
            return list(value)
        if isinstance(value, str):
            return [ResourceContents(uri, self._mime_type or "text/plain", text=value)]
        if isinstance(value, bytes | bytearray | memoryview):
            return [ResourceContents(uri, self._mime_type or "application/octet-stream", blob=bytes(value))]
        plain = as_json(value)
        if plain is msgspec.UNSET:
            raise TypeError(f"a resource returned a {type(value).__name__}, which has no JSON form")
        return [ResourceContents(uri, self._mime_type or "application/json", text=msgspec.json.encode(plain).decode())]


def cache_hints(ttl_ms: int, scope: Scope) -> bytes:
    """`ttlMs` and `cacheScope` (2026-07-28, Caching), as members of a result."""
    if ttl_ms < 0:
        raise ValueError("ttl_ms must not be negative")
    return b',"ttlMs":%d,"cacheScope":"%b"' % (ttl_ms, scope.encode())


UNCACHED: Final = cache_hints(0, "private")


def not_found(uri: str) -> Fault:
    """No such resource."""
    return Fault("RESOURCE_NOT_FOUND", f"no such resource: {uri[:200]}", data={"uri": uri})
