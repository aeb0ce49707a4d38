"""What the terminal prints. Colour only on a terminal and without NO_COLOR; text of servers never moves the cursor."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def json_option(command: Command) -> Command:
    """`--json`, on every command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def show_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def plain(text: str) -> str:
    """`text` with everything escaped that could move the cursor, reorder or hide characters; line breaks stay."""
    return "".join(
        char if char == "\n" or unicodedata.category(char) not in _HIDDEN else f"\\u{ord(char):04x}" for char in text
    )


def one_line(text: str, width: int) -> str:
    line = plain(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def coloured(text: str, colour: str, *, err: bool = False) -> str:
    return click.style(text, fg=colour) if _may_colour(err) else text


def bold(text: str, *, err: bool = False) -> str:
    return click.style(text, bold=True) if _may_colour(err) else text


def say(text: str = "", *, err: bool = False) -> None:
    click.echo(text, err=err, color=None if _may_colour(err) else False)


def columns(rows: Iterable[tuple[str, ...]], gap: str = "  ") -> list[str]:
    """Rows as aligned lines; the last column is not padded."""
    table = list(rows)
    if not table:
        return []
    widths = [max(len(click.unstyle(row[at])) for row in table) for at in range(len(table[0]))]
    return [
        gap.join(
            cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in table
    ]


def is_attended() -> bool:
    """Whether a person can be asked: both ends are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def _may_colour(err: bool) -> bool:
    stream = sys.stderr if err else sys.stdout
    # There is none where whoever started us closed it.
    return stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")


def as_dict(value: object) -> dict[str, Any]:
    """A hub's answer, or a part of it, where an object was promised."""
    return value if isinstance(value, dict) else {}


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
