"""The outcome of a call in a room: printed, and with an exit code of 1 if the call failed."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from interlock.cli.terminal.show import as_dict, coloured, one_line, say, show_json

MAX_SHOWN_CHARS = 2_000


def finish_with(response: Any, *, as_json: object = None) -> None:
    """Print the response to a request, or `as_json`, and end the command."""
    if as_json is not None:
        show_json(as_json)
    else:
        say(outcome_line(response))
    if has_failed(response):
        click.get_current_context().exit(1)


def has_failed(response: Any) -> bool:
    """Whether a response is an error, or the result of a tool that failed. No response is no failure."""
    found = as_dict(response)
    return "error" in found or bool(as_dict(found.get("result")).get("isError"))


def outcome_line(response: Any) -> str:
    """One line for a response; None if none came in time."""
    if response is None:
        return "Sent. No answer came yet; the room will have it."
    found = as_dict(response)
    word = coloured("failed", "red") if has_failed(found) else coloured("done", "green")
    if "error" in found:
        return f"{word} {one_line(str(as_dict(found['error']).get('message')), MAX_SHOWN_CHARS)}"
    return f"{word} {one_line(_text(found.get('result')), MAX_SHOWN_CHARS)}"


def _text(result: Any) -> str:
    """The texts of a tool's result, or all of another result."""
    blocks = as_dict(result).get("content") or []
    texts = [str(block["text"]) for block in blocks if as_dict(block).get("type") == "text"]
    return "\n".join(texts) if texts and len(texts) == len(blocks) else msgspec.json.encode(result).decode()
