"""Resources: one address, or a template of addresses, and the function that reads what is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Unpack

import msgspec

from interlock.server.definitions.offer import OfferedFunction, check_options, shown
from interlock.server.definitions.options import ResourceOptions, Scope
from interlock.server.definitions.uri_template import UriTemplate, parse
from interlock.server.requests.content import NotFound, ResourceContents
from interlock.server.requests.work import Work
from interlock.signatures import ArgumentsError, DefinitionError
from interlock.signatures.type_schema import as_json
from interlock.wire.errors import Fault

_TEMPLATE = re.compile(r"[^\s\x00-\x1f<>\"\\^`]+\Z")
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:{_TEMPLATE.pattern}")
"""A scheme and characters that RFC 3986 allows. It finds mistakes, and does not check the whole syntax."""


class Resource(OfferedFunction):
    """A function offered as a resource, or as a template of resources."""

    __slots__ = ("_mime_type", "cache", "scope", "template", "ttl_ms")

    def __init__(self, uri: str, function: Callable[..., Any], **options: Unpack[ResourceOptions]) -> None:
        check_options("a resource", options, ResourceOptions)
        super().__init__(uri, function, options)
        self.ttl_ms = options.get("ttl_ms", 0)
        """How long a read is good for; the server caches it that long."""
        self.scope: Scope = options.get("scope", "private")
        self.cache = cache_hints(self.ttl_ms, self.scope)
        self._mime_type = options.get("mime_type")
        self.template = self._template(uri)
        row = shown(
            options,
            **{"uriTemplate" if self.template else "uri": uri},
            name=options.get("name") or getattr(function, "__name__", uri),
            description=self._description or None,
            mimeType=self._mime_type,
            size=options.get("size"),
            annotations=options.get("annotations"),
            _meta=options.get("meta"),
        )
        self._entries = (msgspec.json.encode(row),) * 2

    def _template(self, uri: str) -> UriTemplate | None:
        """The template, if the address is one. Raises DefinitionError unless the address fits the function."""
        try:
            template = parse(uri) if "{" in uri else None
        except ValueError as error:
            raise DefinitionError(f"{self.where}: {error}") from None
        if not (_TEMPLATE if template else _URI).match(uri):
            raise DefinitionError(f"{self.where}: {uri!r} is no address; write it with a scheme, as notes://one")
        given = template.names if template else ()
        inputs = {field.name: field for field in self._function.signature.inputs}
        if not set(given) <= inputs.keys() or any(f.is_required and f.name not in given for f in inputs.values()):
            raise DefinitionError(f"{self.where}: takes {list(inputs)}, but {uri!r} gives {list(given)}")
        return template

    def match(self, uri: str) -> dict[str, str] | None:
        """The template's variables if it covers the address."""
        variables = None if self.template is None else self.template.match(uri)
        return variables if self.template and variables is not None and self.template.keeps(variables) else None

    async def read(self, work: Work, uri: str, variables: dict[str, str]) -> bytes:
        """Its contents: the members of a ReadResourceResult. Raises RESOURCE_NOT_FOUND."""
        try:
            value = await self._function.run(work, self._function.arguments_from_text(variables))
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
    """The error for an address without a resource."""
    return Fault("RESOURCE_NOT_FOUND", f"no such resource: {uri[:200]}", data={"uri": uri})
