"""Renders the pages of the console from templates, in a thread, so that no long page delays a call.

Every value is escaped as HTML text. Characters that hide or reorder text become visible, except in the values of fields
(`| field`), which a form sends back. `jinja2` is imported with the first page.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.protocols.mcpl.reason_words import in_words
from interlock.wire.visible_text import plain

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES: Final = Path(__file__).parent / "templates"
_QUOTED: Final = re.compile(r"`([^`]+)`")


async def render(template: str, values: dict[str, object]) -> str:
    """The text of a page."""
    return await asyncio.to_thread(_render, template, values)


def _render(template: str, values: dict[str, object]) -> str:
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    def field(value: str) -> Markup:
        """The unchanged value of a field, because a form sends it back."""
        return Markup("".join(_referenced(character) for character in str(escape(value))))

    def with_code(text: str | None) -> Markup:
        """A sentence for people. Commands and names, which stand between backticks, are shown as code."""
        return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(plain(text or "")))))

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["field"] = field
    environment.filters["with_code"] = with_code
    environment.filters |= {"instant": _instant, "milliseconds": _milliseconds, "size": _size, "counted": _counted}
    environment.filters["in_words"] = in_words
    return environment


def _finalized(value: object) -> object:
    # A template's own markup is a subclass of `str`, and stays unchanged.
    return plain(value) if type(value) is str else "" if value is None else value


def _referenced(character: str) -> str:
    """An HTML reference to a character that hides, reorders or is normalized. HTML has none for C1 controls."""
    code = ord(character)
    if (code < 0x20 or code > 0x9F) and plain(character) != character:
        return f"&#{code};"
    return character


def _instant(microseconds: int) -> str:
    at = datetime.fromtimestamp(microseconds / 1_000_000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _size(count: int) -> str:
    return f"{count} bytes" if count < 10_000 else f"{count / 1024:.0f} KiB"


def _milliseconds(microseconds: int | None) -> str:
    return "" if microseconds is None else f"{microseconds / 1000:.1f} ms"
