"""Prints to the terminal. Colours appear only on a terminal without NO_COLOR.

Text of servers and agents is always escaped, so that it cannot move the cursor.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import click

from interlock.wire.visible_text import plain as plain

Command = TypeVar("Command", bound=Callable[..., object])


def json_option(command: Command) -> Command:
    """Add `--json` to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def show_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    if (ctx := click.get_current_context(silent=True)) is not None:
        ctx.find_root().meta[_JSON_SHOWN] = True


def show_outcome(outcome: Mapping[str, object], text: str, as_json: bool) -> None:
    """Print what a command did: as JSON, or in words."""
    if as_json:
        show_json(outcome)
    else:
        say(text)


def wants_json(ctx: click.Context) -> bool:
    """Whether a command is to print JSON, and has printed none yet."""
    return bool(ctx.params.get("as_json")) and _JSON_SHOWN not in ctx.find_root().meta


_JSON_SHOWN = "interlock.json_shown"


def one_line(text: str, width: int) -> str:
    line = plain(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


def coloured(text: str, colour: str, *, err: bool = False) -> str:
    return click.style(text, fg=colour) if _may_colour(err) else text


def bold(text: str, *, err: bool = False) -> str:
    return click.style(text, bold=True) if _may_colour(err) else text


def say(text: str = "", *, err: bool = False) -> None:
    click.echo(text, err=err, color=None if _may_colour(err) else False)


def columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows as aligned lines, without trailing spaces. A line break in a cell is written as `\\n`: a row is one line."""
    table = [tuple(cell.replace("\n", "\\n") for cell in row) for row in rows]
    if not table:
        return []
    widths = [max(len(click.unstyle(row[at])) for row in table) for at in range(len(table[0]))]
    return [
        "  ".join(
            cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in table
    ]


def say_table(rows: Iterable[tuple[str, ...]]) -> None:
    for line in columns(rows):
        say(line)


def counted(count: int, noun: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def is_attended() -> bool:
    """Whether a person can answer: input and error output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def has_screen() -> bool:
    """Whether a browser with a window can open here."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _may_colour(err: bool) -> bool:
    stream = sys.stderr if err else sys.stdout
    # The parent process may have closed the stream.
    return stream is not None and stream.isatty() and not os.environ.get("NO_COLOR")


def as_dict(value: object) -> dict[str, Any]:
    """A part of a hub's answer that should be an object; empty if it is not."""
    return value if isinstance(value, dict) else {}


TELL_EVERY_S: Final = 1.0


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on a terminal how long something takes, from the second second on."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def tell() -> None:
        began = time.monotonic()
        while not done.wait(TELL_EVERY_S):
            click.echo(f"\r{one_line(what, 60)}: {time.monotonic() - began:.0f} s", nl=False, err=True)

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        click.echo("\r\x1b[K", nl=False, err=True)
