"""What tools, resources and prompts give back: content as MCP has it, and the results that carry it.

Binary content is given as bytes; it becomes base64 only where it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from interlock.protocols.mcp.revisions import R2024_11_05, R2025_03_26, Revision

Meta: TypeAlias = Mapping[str, object]
Role: TypeAlias = Literal["user", "assistant"]


class Annotations(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Hints for the client: for whom, how important, how fresh."""

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
    """What a tool says about its own behaviour. Clients take it as a hint only."""

    title: str | None = None
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    destructive: bool | None = msgspec.field(default=None, name="destructiveHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")
    open_world: bool | None = msgspec.field(default=None, name="openWorldHint")


class _Piece(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """One piece of content."""


class Text(_Piece, frozen=True, tag="text"):
    """Words."""

    text: str
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Image(_Piece, frozen=True, tag="image"):
    """A picture: its bytes and what they are."""

    data: bytes
    mime_type: str = msgspec.field(name="mimeType")
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Audio(_Piece, frozen=True, tag="audio"):
    """A sound: its bytes and what they are."""

    data: bytes
    mime_type: str = msgspec.field(name="mimeType")
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ResourceContents(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a resource holds: either `text` or `blob`."""

    uri: str
    mime_type: str | None = msgspec.field(default=None, name="mimeType")
    text: str | None = None
    blob: bytes | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Embedded(_Piece, frozen=True, tag="resource"):
    """A resource's contents inside another answer."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class ResourceLink(_Piece, frozen=True, tag="resource_link"):
    """Where a resource can be read."""

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


_NOT_YET: Final[Mapping[str, tuple[type, ...]]] = {
    R2024_11_05.name: (Audio, ResourceLink),
    R2025_03_26.name: (ResourceLink,),
}


def fitting(piece: Content, revision: Revision) -> Content:
    """The piece as a client of that revision can read it: what came later is told in words."""
    if not isinstance(piece, _NOT_YET.get(revision.name, ())):
        return piece
    if isinstance(piece, ResourceLink):
        return Text(f"{piece.title or piece.name}: {piece.uri}")
    kind = piece.mime_type if isinstance(piece, Audio) else "content"
    return Text(f"[{kind}, which revision {revision.name} of MCP cannot carry]")


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's whole answer, where content alone does not say it all."""

    content: Content | str | Sequence[Content | str] = ()
    structured: object = msgspec.UNSET
    is_error: bool = False
    meta: Meta | None = None


class Message(msgspec.Struct, frozen=True):
    """One message of a prompt, or of a sampling request. Plain text is the common content.

    In a sampling request it may be several pieces, and pieces that only models write or read: what a model wrote
    (`Sampled.content`) goes back as it came, and `{"type": "tool_result", …}` tells it what a tool gave.
    """

    content: Content | str | Mapping[str, object] | Sequence[Content | str | Mapping[str, object]]
    role: Role = "user"

    def to_wire(self, revision: Revision) -> dict[str, object]:
        """The message as it travels."""
        if isinstance(self.content, list | tuple):
            return {"role": self.role, "content": [_piece(piece, revision) for piece in self.content]}
        return {"role": self.role, "content": _piece(self.content, revision)}


def _piece(content: object, revision: Revision) -> object:
    if isinstance(content, str):
        return Text(content)
    return fitting(content, revision) if isinstance(content, CONTENT_TYPES) else content


class Completion(msgspec.Struct, frozen=True):
    """Suggestions for an argument, best first. MCP lets at most a hundred through."""

    values: Sequence[str]
    total: int | None = None
    has_more: bool = False


class ToolError(Exception):
    """Raised by a tool whose caller should read why it failed. Any other exception is reported without its words."""


class NotFound(Exception):
    """Raised by a resource's function when there is nothing at that address."""
