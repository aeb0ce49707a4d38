"""Media in prompts: a model gets the media that it supports, and a note in the place of others. Pure.

An endpoint refuses a whole prompt because of one unsupported image, and so would refuse every later turn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import msgspec

from interlock.host.models.model import ModelMessage, ModelPrompt, ModelToolResult, Part
from interlock.judge.addresses import kind_of, read_address
from interlock.protocols.mcpl.content import AudioContent, ImageContent, TextContent

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that models support."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_INSIDE: Final = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "private", "arpa")
"""The last labels of host names that only exist inside a network."""


def presentable(prompt: ModelPrompt, capabilities: Sequence[str]) -> ModelPrompt:
    """The prompt with the media that a model with these capabilities supports."""
    messages = tuple(_with(message, capabilities) for message in prompt.messages)
    return msgspec.structs.replace(prompt, messages=messages)


def without_media(message: ModelMessage) -> ModelMessage:
    """A message with notes instead of media."""
    return _with(message, ())


def is_image(kind: object, data: object) -> bool:
    """Whether models support this image."""
    return isinstance(kind, str) and kind in IMAGES and isinstance(data, str) and _BASE64.fullmatch(data) is not None


def _with(message: ModelMessage, capabilities: Sequence[str]) -> ModelMessage:
    parts = tuple(_shown(part, capabilities) for part in message.parts)
    return message if parts == message.parts else msgspec.structs.replace(message, parts=parts)


def _shown(part: Part, capabilities: Sequence[str]) -> Part:
    if isinstance(part, ModelToolResult):
        return part if not part.images or "vision" in capabilities else msgspec.structs.replace(part, images=())
    if not isinstance(part, ImageContent | AudioContent) or _is_taken(part, capabilities):
        return part
    return TextContent(f"[{part.mime_type or type(part).__name__.lower()}, not shown]")


def _is_taken(part: ImageContent | AudioContent, capabilities: Sequence[str]) -> bool:
    if ("vision" if isinstance(part, ImageContent) else "audio") not in capabilities:
        return False
    if part.uri is not None:
        return is_public(part.uri)
    if isinstance(part, ImageContent):
        return is_image(part.mime_type, part.data)
    return _BASE64.fullmatch(part.data or "") is not None


def is_public(uri: str) -> bool:
    """Whether an endpoint may fetch this address: on the public web, not in the endpoint's own network."""
    try:
        parts = urlsplit(uri)
        host = (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    if parts.scheme.lower() not in ("http", "https") or not host or parts.username is not None:
        return False
    address = read_address(host)
    if address is not None:
        return kind_of(address) is None
    return "." in host and host.rpartition(".")[2] not in _INSIDE
