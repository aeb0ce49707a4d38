"""Metadata of a tool that MCP has no member for ("JSON Schema Export")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

ABOUT: Final = "dev.interlock/tool"
"""The key in a definition's `_meta` for metadata that MCP has no member for."""

Definition = Mapping[str, Any]


class ToolMetadata(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metadata of a tool, for search and documentation."""

    category: str | None = None
    tags: tuple[str, ...] = ()
    version: str | None = None
    deprecated: bool | str = False
    """True, or the name of a replacement."""
    author: str | None = None
    documentation_url: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    """Example arguments from the author."""


NOTHING_DECLARED: Final = ToolMetadata()


def about(definition: Definition) -> ToolMetadata:
    """The metadata in a definition's `_meta`. An unreadable member counts as absent."""
    meta = definition.get("_meta")
    declared = meta.get(ABOUT) if isinstance(meta, Mapping) else None
    try:
        return NOTHING_DECLARED if declared is None else msgspec.convert(declared, ToolMetadata)
    except msgspec.ValidationError:
        return NOTHING_DECLARED
