"""One tool, prompt, resource or template of a server, and its definitions for clients."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from interlock.judge.fingerprints import fingerprint
from interlock.process.late_imports import late_import
from interlock.protocols.mcp.headers import ParamHeader
from interlock.protocols.mcp.tasks import Support
from interlock.signatures.problems import DefinitionError

if TYPE_CHECKING:
    from interlock.signatures.validate import Validator

ItemKind = Literal["tool", "prompt", "resource", "template"]

SUMMARY_MEMBERS: Final = frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations"})
"""The members of a tool's definition that a model needs to choose and to call it."""

Fields = dict[str, msgspec.Raw]
decode_fields = msgspec.json.Decoder(Fields).decode


class Item(msgspec.Struct):
    """One tool, prompt, resource or template of one server."""

    kind: ItemKind
    server: str
    name: str
    """The server's own name or URI. Together with `server`, it is the identity of the item."""
    shown: str
    """The name in a view of this server alone: the server's, or the one that the operator set."""
    exposed: str
    """The name in a view of many servers."""
    definition: bytes
    """The server's definition."""
    bare: bytes
    """The definition in a view of this server alone. Most often it is the same object as `definition`."""
    _full: bytes | None = None
    """The definition in a view of many servers, if more than the name differs."""
    _fingerprint: str = ""
    _digest: bytes = b""
    only_for: frozenset[str] | None = None
    """The audiences that have it (`audiences.py`); None for everybody. Tools and resources have some."""

    @property
    def full(self) -> bytes:
        """The definition in a view of many servers."""
        return _renamed(self.bare, self.kind, self.shown, self.exposed) if self._full is None else self._full

    def fingerprint(self) -> str:
        """SHA-256 of the server's definition in canonical form, in which the order of keys does not matter."""
        if not self._fingerprint:
            self._fingerprint = fingerprint(msgspec.json.decode(self.definition))
        return self._fingerprint

    def digest(self) -> bytes:
        """The digest of `full`."""
        if not self._digest:
            self._digest = digest_of(self.full)
        return self._digest


def digest_of(definition: bytes) -> bytes:
    """The digest of a definition."""
    return blake2b(definition, digest_size=16).digest()


def max_bytes_of(items: Iterable[Item]) -> int:
    """An upper bound for the bytes of the definitions, in either view."""
    return sum([len(item.bare if item._full is None else item._full) + len(item.exposed) for item in items])


ItemType = TypeVar("ItemType", bound=Item)


class Tool(Item):
    """A tool, with the properties that its calls depend on."""

    idempotent: bool = False
    """Whether the server declares that a repeated call changes nothing more."""
    param_headers: tuple[ParamHeader, ...] = ()
    permissions: tuple[str, ...] | None = None
    """The permissions that the tool declares; None if it declares none."""
    has_more: bool = False
    """Whether its definition has members beyond its summary."""
    wraps: bool = False
    """Whether its structured content is not an object, so that clients before 2026-07-28 get it wrapped in one."""
    tasks: Support = "forbidden"
    """Whether it can be called as a task (2025-11-25)."""

    @property
    def summary(self) -> bytes:
        """The part of the full definition that a model needs to choose and to call the tool."""
        return summary_of(self.full) if self.has_more else self.full

    @property
    def schema(self) -> bytes:
        """The schema of its arguments."""
        return bytes(_decode_schema(self.definition).inputSchema)

    def validator(self) -> Validator | str:
        """The compiled input schema, or the reason why it cannot be used."""
        return _compiled(self.schema)


class _WithSchema(msgspec.Struct):
    inputSchema: msgspec.Raw


_decode_schema = msgspec.json.Decoder(_WithSchema).decode


@lru_cache(maxsize=4096)
def _compiled(schema: bytes) -> Validator | str:
    """Compile each schema once: many tools share one, such as the empty schema."""
    with late_import():
        from interlock.signatures.validate import Validator  # imported late, as it takes six megabytes

    try:
        return Validator(msgspec.json.decode(schema))
    except DefinitionError as cause:
        return str(cause)


def summary_of(full: bytes) -> bytes:
    """The members of a tool's definition that a model needs."""
    return msgspec.json.encode({name: value for name, value in decode_fields(full).items() if name in SUMMARY_MEMBERS})


_IDENTITY: Final[dict[ItemKind, str]] = {
    "tool": "name",
    "prompt": "name",
    "resource": "uri",
    "template": "uriTemplate",
}


def _renamed(bare: bytes, kind: ItemKind, shown: str, exposed: str) -> bytes:
    """A definition under another name or address. Nearly all start with the name; the others are decoded."""
    member = _IDENTITY[kind]
    head = b'{"%b":%b' % (member.encode(), msgspec.json.encode(shown))
    if bare.startswith(head):
        return b'{"%b":%b%b' % (member.encode(), msgspec.json.encode(exposed), bare[len(head) :])
    return exact(msgspec.json.encode({**decode_fields(bare), member: exposed}))


def exact(encoded: bytes) -> bytes:
    """A copy without the spare memory that the encoder leaves at the end."""
    return bytes(memoryview(encoded))
