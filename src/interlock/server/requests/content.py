"""The content that tools, resources and prompts return, as MCP has it, and the results that carry it.

Authors give binary content as bytes; it becomes base64 only when it is encoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.protocols.mcp.revisions import R2024_11_05, R2025_03_26, Revision
from interlock.protocols.mcpl.checkpoints import StateReport

Members: TypeAlias = dict[str, object]
"""An object's members before they become JSON."""
Meta: TypeAlias = Mapping[str, object]
Role: TypeAlias = Literal["user", "assistant"]


def present(**named: object) -> Members:
    """The members that have a value: those that are not None."""
    return {name: value for name, value in named.items() if value is not None}


class Annotations(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Hints for the client: the audience, how important and how fresh it is."""

    audience: tuple[Role, ...] | None = None
    priority: float | None = None
    last_modified: str | None = msgspec.field(default=None, name="lastModified")


class Icon(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A picture to show beside a name."""

    src: str
    mime_type: str | None = msgspec.field(default=None, name="mimeType")
    sizes: tuple[str, ...] | None = None
    theme: Literal["light", "dark"] | None = None


class ToolHints(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Hints of a tool about its own behaviour. Clients do not rely on them."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    destructive: bool | None = msgspec.field(default=None, name="destructiveHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")
    open_world: bool | None = msgspec.field(default=None, name="openWorldHint")


class _Piece(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """One piece of content."""


class Text(_Piece, frozen=True, tag="text"):
    """Plain text."""

    text: str
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class _Media(_Piece, frozen=True):
    data: bytes
    mime_type: str = msgspec.field(name="mimeType")
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Image(_Media, frozen=True, tag="image"):
    """An image: its bytes and their MIME type."""


class Audio(_Media, frozen=True, tag="audio"):
    """A sound: its bytes and their MIME type."""


class ResourceContents(msgspec.Struct, frozen=True, omit_defaults=True):
    """The contents of a resource: either `text` or `blob`."""

    uri: str
    mime_type: str | None = msgspec.field(default=None, name="mimeType")
    text: str | None = None
    blob: bytes | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Embedded(_Piece, frozen=True, tag="resource"):
    """A resource's contents inside another result."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ResourceLink(_Piece, frozen=True, tag="resource_link"):
    """The address of a resource that the client can read."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = msgspec.field(default=None, name="mimeType")
    size: int | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


Content: TypeAlias = Text | Image | Audio | Embedded | ResourceLink
CONTENT_TYPES: Final = (Text, Image, Audio, Embedded, ResourceLink)


_UNKNOWN_TO: Final[Mapping[str, tuple[type, ...]]] = {
    R2024_11_05.name: (Audio, ResourceLink),
    R2025_03_26.name: (ResourceLink,),
}


def fitting(piece: Content, revision: Revision) -> Content:
    """The piece as a client of that revision can read it: a kind that came later becomes text."""
    if not isinstance(piece, _UNKNOWN_TO.get(revision.name, ())):
        return piece
    if isinstance(piece, ResourceLink):
        return Text(f"{piece.title or piece.name}: {piece.uri}")
    kind = piece.mime_type if isinstance(piece, Audio) else "content"
    return Text(f"[{kind}, which revision {revision.name} of MCP cannot carry]")


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's whole result, for tools that return more than content."""

    content: Content | str | Sequence[Content | str] = ()
    structured: object = msgspec.UNSET
    is_error: bool = False
    meta: Meta | None = None
    state: StateReport | None = None
    """The state after the call, for the host to keep (MCPL, State Management)."""


class Message(msgspec.Struct, frozen=True):
    """One message of a prompt, or of a sampling request. Plain text is the common content.

    In a sampling request it may be several pieces, also of kinds that only models write or read: the model's own
    output (`Sampled.content`) goes back as it came, and `{"type": "tool_result", …}` gives it a tool's result.
    """

    content: Content | str | Mapping[str, object] | Sequence[Content | str | Mapping[str, object]]
    role: Role = "user"

    def to_wire(self, revision: Revision) -> dict[str, object]:
        """The message as MCP carries it."""
        if isinstance(self.content, list | tuple):
            return {"role": self.role, "content": [_piece(piece, revision) for piece in self.content]}
        return {"role": self.role, "content": _piece(self.content, revision)}


def _piece(content: object, revision: Revision) -> object:
    if isinstance(content, str):
        return Text(content)
    return fitting(content, revision) if isinstance(content, CONTENT_TYPES) else content


class Completion(msgspec.Struct, frozen=True):
    """Suggestions for an argument, best first. MCP allows at most a hundred in one result."""

    values: Sequence[str]
    total: int | None = None
    has_more: bool = False


class ToolError(Exception):
    """Raised by a tool to tell its caller why it failed. Of any other exception the caller only reads the type."""


class NotFound(Exception):
    """Raised by a resource's function when nothing is at that address."""
