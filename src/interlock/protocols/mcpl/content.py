"""Content blocks (MCPL, Content Blocks): text, image, audio and resources, in MCPL's form and in MCP's."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from interlock.protocols.mcpl.decoding import Value

MAX_BLOCKS: Final = 256


class TextContent(Value, frozen=True, tag_field="type", tag="text"):
    """Plain text."""

    text: str


class ImageContent(Value, frozen=True, tag_field="type", tag="image"):
    """An image, inline or by its address."""

    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        _require_one_form(self)


class AudioContent(Value, frozen=True, tag_field="type", tag="audio"):
    """A sound, inline or by its address."""

    data: str | None = None
    mime_type: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        _require_one_form(self)


class EmbeddedContents(Value, frozen=True):
    """The embedded resource of an MCP block."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.blob is None):
            raise ValueError("an embedded resource has either `text` or `blob`")


class ResourceContent(Value, frozen=True, tag_field="type", tag="resource"):
    """A resource: by its address as MCPL writes it, or embedded as MCP does."""

    uri: str | None = None
    resource: EmbeddedContents | None = None

    def __post_init__(self) -> None:
        if (self.uri is None) == (self.resource is None):
            raise ValueError("a resource block has either `uri` or `resource`")

    @property
    def address(self) -> str:
        """The URI, in either form."""
        return self.resource.uri if self.resource is not None else self.uri or ""


class ResourceLinkContent(Value, frozen=True, tag_field="type", tag="resource_link"):
    """MCP's own link to a resource."""

    uri: str
    name: str | None = None
    mime_type: str | None = None


Block: TypeAlias = TextContent | ImageContent | AudioContent | ResourceContent | ResourceLinkContent
Blocks: TypeAlias = Annotated[tuple[Block, ...], msgspec.Meta(max_length=MAX_BLOCKS)]
Content: TypeAlias = str | Blocks
"""A plain string stands for one text block."""


def blocks(content: Content) -> tuple[Block, ...]:
    """The content as blocks. A plain string becomes one text block."""
    return (TextContent(content),) if isinstance(content, str) else content


def _require_one_form(block: ImageContent | AudioContent) -> None:
    inline = block.data is not None and block.mime_type is not None
    if inline == (block.uri is not None) or (block.data is not None) != inline:
        raise ValueError("media has either `data` with `mimeType`, or `uri`")
