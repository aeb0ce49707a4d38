"""Resources: one address, or a template of addresses, and the function that reads what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from interlock.server.content import Annotations, Icon, Meta, NotFound, ResourceContents
from interlock.server.functions import Function
from interlock.server.uri_template import UriTemplate, parse
from interlock.server.work import Work
from interlock.signatures import ArgumentsError, DefinitionError
from interlock.signatures.type_schema import as_json
from interlock.wire.errors import Fault

if TYPE_CHECKING:
    from interlock.server.server import Server

Scope = Literal["public", "private"]


class Resource:
    """A function offered as a resource, or as a template of resources."""

    __slots__ = ("_entry", "_function", "_mime_type", "cache", "key", "scope", "template", "ttl_ms")

    def __init__(
        self,
        uri: str,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] = (),
        meta: Meta | None = None,
        ttl_ms: int = 0,
        scope: Scope = "private",
    ) -> None:
        self.key = uri
        self.template: UriTemplate | None = parse(uri) if "{" in uri else None
        self.cache = cache_hints(ttl_ms, scope)
        self.ttl_ms = ttl_ms
        """How long what was read is good for; the server keeps it as long and reads anew after that."""
        self.scope: Scope = scope
        self._mime_type = mime_type
        self._function = Function(function)
        signature = self._function.signature
        taken = tuple(field.name for field in signature.inputs)
        needed = self.template.names if self.template else ()
        if not set(needed) <= set(taken) or any(f.is_required and f.name not in needed for f in signature.inputs):
            raise DefinitionError(f"{signature.where}: takes {list(taken)}, but {uri!r} gives {list(needed)}")
        entry: dict[str, object] = {"uriTemplate" if self.template else "uri": uri}
        entry["name"] = name or getattr(function, "__name__", uri)
        said = {
            "title": title,
            "description": signature.description or None if description is None else description,
            "mimeType": mime_type,
            "size": size,
            "annotations": annotations,
            "icons": tuple(icons) or None,
            "_meta": meta,
        }
        entry.update((member, value) for member, value in said.items() if value is not None)
        self._entry = msgspec.json.encode(entry)

    def entry(self, modern: bool) -> bytes:
        """Its row in a list."""
        return self._entry

    def match(self, uri: str) -> dict[str, str] | None:
        """The template's variables if the address is one of it."""
        return None if self.template is None else self.template.match(uri)

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
