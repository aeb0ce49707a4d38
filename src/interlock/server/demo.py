"""The built-in demo server: small useful tools that need no network and touch no file.

`python -m interlock.server.demo` serves it over standard input and output.
"""

from __future__ import annotations

import asyncio
import datetime
import difflib
import hashlib
import math
import re
import statistics
import zoneinfo
from typing import Annotated, Final, Literal

import msgspec

from interlock.server.requests.content import Message, NotFound, ToolError, ToolHints
from interlock.server.requests.context import Context
from interlock.server.server import Server
from interlock.signatures import InputField

MAX_NOTES: Final = 100
_WORD = re.compile(r"[\w'-]+")
_READS = ToolHints(read_only=True, idempotent=True, open_world=False)

# fmt: off
Unit = Literal[
    "m", "km", "cm", "mm", "in", "ft", "yd", "mi",
    "kg", "g", "lb", "oz",
    "l", "ml", "gal", "cup",
    "C", "F", "K",
    "B", "kB", "MB", "GB", "KiB", "MiB", "GiB",
]
# fmt: on

_SCALES: Final[tuple[dict[str, float], ...]] = (
    {"m": 1, "km": 1000, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344},
    {"kg": 1, "g": 0.001, "lb": 0.45359237, "oz": 0.028349523125},
    {"l": 1, "ml": 0.001, "gal": 3.785411784, "cup": 0.2365882365},
    {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3},
)


class Moment(msgspec.Struct):
    """A moment in one zone."""

    zone: str
    local: str
    weekday: str
    utc_offset: str


class TextFigures(msgspec.Struct):
    """The units that can be counted in a text."""

    characters: int
    words: int
    lines: int
    sentences: int
    longest_word: str
    average_word_length: float
    reading_minutes: float
    sha256: str


class NewNote(msgspec.Struct):
    """The form that a person fills in."""

    title: Annotated[str, InputField(min_length=1, max_length=60, description="A short name")]
    text: Annotated[str, InputField(max_length=4000, description="What to remember")]


def demo_server() -> Server:
    """A demo server with notes of its own."""
    server = Server(
        "interlock-demo",
        "1.0.0",
        title="Interlock demo",
        instructions=(
            "Small offline tools: times in other zones, unit conversion, text figures and differences, and a notepad "
            "that lasts as long as the server runs. Read note://index to see which notes there are."
        ),
    )
    _add_calculations(server)
    _add_notes(server)

    @server.tool(title="Count down", hints=_READS)
    async def count_down(
        ctx: Context, seconds: Annotated[int, InputField(min_value=1, max_value=300, description="How long")] = 5
    ) -> str:
        """Wait, reporting progress every second. Good for seeing progress and cancellation at work."""
        for passed in range(seconds):
            ctx.progress(passed, seconds, f"{seconds - passed} s left")
            await asyncio.sleep(1)
        ctx.progress(seconds, seconds, "done")
        return f"{seconds} seconds have passed"

    @server.prompt(title="Review a text")
    def review(
        text: Annotated[str, "The text to look at"], tone: Annotated[str, "Kind of review"] = "friendly"
    ) -> list[Message]:
        """Ask for a review of a text, with its figures at hand."""
        figures = msgspec.json.format(msgspec.json.encode(_figures(text)), indent=2).decode()
        return [
            Message(
                f"Give a {tone} review of this text: what to keep, what to cut, one better first sentence.\n\n{text}"
            ),
            Message(f"Its figures:\n{figures}"),
        ]

    @server.completion("review", "tone")
    def tones(value: str) -> list[str]:
        """Tones that work well."""
        return [tone for tone in ("friendly", "formal", "strict", "terse") if tone.startswith(value)]

    return server


def _add_calculations(server: Server) -> None:
    @server.tool(
        title="Time in a zone",
        hints=ToolHints(read_only=True, open_world=False),
        examples=[{"zones": ["Europe/Paris", "Asia/Tokyo"]}],
    )
    def time_in(
        zones: Annotated[list[str], InputField(min_length=1, max_length=20, description="IANA zones: Europe/Paris")],
        at: Annotated[str | None, "A moment as ISO 8601 with its offset; now, if left out"] = None,
    ) -> list[Moment]:
        """Tell the time in other zones, now or at a given moment."""
        try:
            moment = datetime.datetime.now(datetime.UTC) if at is None else datetime.datetime.fromisoformat(at)
        except ValueError:
            raise ToolError(f"{at!r} is not ISO 8601; write it like 2026-03-01T14:30:00+01:00") from None
        if moment.tzinfo is None:
            raise ToolError("the moment has no offset; write it like 2026-03-01T14:30:00+01:00")
        return [_moment(moment, zone) for zone in zones]

    @server.tool(title="Convert units", hints=_READS, examples=[{"value": 26.2, "source": "mi", "target": "km"}])
    def convert(value: float, source: Unit, target: Unit) -> float:
        """Convert between units of length, mass, volume, temperature or data size."""
        if {source, target} <= {"C", "F", "K"}:
            return round(_from_kelvin(_to_kelvin(value, source), target), 9)
        for scale in _SCALES:
            if source in scale and target in scale:
                return value * scale[source] / scale[target]
        raise ToolError(f"{source} and {target} do not measure the same thing")

    @server.tool(title="Figures of a text", hints=_READS)
    def text_figures(text: Annotated[str, InputField(max_length=1_000_000)]) -> TextFigures:
        """Count characters, words, lines and sentences, and give the text's SHA-256."""
        return _figures(text)

    @server.tool(title="Compare two texts", hints=_READS)
    def compare(
        before: Annotated[str, InputField(max_length=20_000)], after: Annotated[str, InputField(max_length=20_000)]
    ) -> str:
        """Show the difference between two texts, line by line, as a unified diff. Empty if there is none."""
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
        return "\n".join(lines)

    @server.tool(title="Figures of numbers", hints=_READS, examples=[{"numbers": [3, 1, 4, 1, 5, 9]}])
    def describe(numbers: Annotated[list[float], InputField(min_length=1, max_length=100_000)]) -> dict[str, float]:
        """Count, sum, mean, median, least, greatest and standard deviation of numbers."""
        try:
            figures = {
                "count": len(numbers),
                "sum": math.fsum(numbers),
                "mean": statistics.fmean(numbers),
                "median": statistics.median(numbers),
                "least": min(numbers),
                "greatest": max(numbers),
                "deviation": statistics.stdev(numbers) if len(numbers) > 1 else 0.0,
            }
        except OverflowError:
            raise ToolError("the numbers are too large to compute with") from None
        if not all(map(math.isfinite, figures.values())):
            raise ToolError("the numbers are too large to compute with")
        return figures


def _add_notes(server: Server) -> None:
    notes: dict[str, str] = {"welcome": "Notes live as long as this server runs."}

    def keep(title: str, text: str) -> str:
        if title not in notes and len(notes) >= MAX_NOTES:
            raise ToolError(f"there are {MAX_NOTES} notes already; delete one first")
        notes[title] = text
        server.resource_updated("note://index")
        server.resource_updated(f"note://text/{title}")
        return f"kept as note://text/{title}"

    @server.tool(title="Keep a note", hints=ToolHints(read_only=False, destructive=False, open_world=False))
    async def keep_note(
        title: Annotated[str, InputField(pattern=r"^[\w-]{1,60}$", description="Letters, digits, - and _")],
        text: Annotated[str, InputField(max_length=4000)],
    ) -> str:
        """Keep a note under a title. A note of that title is replaced."""
        return keep(title, text)

    @server.tool(title="Ask for a note", hints=ToolHints(read_only=False, destructive=False, open_world=False))
    async def ask_for_note(ctx: Context) -> str:
        """Ask the person to write a note, and keep it."""
        answer = await ctx.elicit("What should be noted?", NewNote, key="note")
        if answer.value is None:
            return "nothing was noted"
        return keep("-".join(_WORD.findall(answer.value.title)) or "untitled", answer.value.text)

    @server.tool(
        title="Delete a note",
        hints=ToolHints(read_only=False, destructive=True, open_world=False),
        examples=[{"title": "welcome"}],
    )
    async def delete_note(title: str) -> str:
        """Delete a note for good."""
        if notes.pop(title, None) is None:
            raise ToolError(f"there is no note {title!r}; note://index lists them")
        server.resource_updated("note://index")
        return "deleted"

    @server.resource("note://index", title="All notes", mime_type="application/json")
    async def index() -> list[str]:
        """The titles of all notes."""
        return sorted(notes)

    @server.resource("note://text/{title}", title="A note", mime_type="text/plain")
    async def note(title: str) -> str:
        """The text of one note."""
        if title not in notes:
            raise NotFound(title)
        return notes[title]

    @server.completion("note://text/{title}", "title")
    async def titles(value: str) -> list[str]:
        """Titles that begin like that."""
        return sorted(title for title in notes if title.startswith(value))


def _moment(moment: datetime.datetime, zone: str) -> Moment:
    try:
        local = moment.astimezone(zoneinfo.ZoneInfo(zone))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(zone, zoneinfo.available_timezones(), 3)
        hint = f"; did you mean {', '.join(near)}?" if near else "; write it like Europe/Paris"
        raise ToolError(f"there is no zone {zone!r}{hint}") from None
    except OverflowError:
        raise ToolError("the moment is beyond the calendar") from None
    return Moment(zone, local.isoformat(timespec="seconds"), local.strftime("%A"), local.strftime("%z"))


def _to_kelvin(value: float, unit: str) -> float:
    return {"C": value + 273.15, "F": (value + 459.67) * 5 / 9, "K": value}[unit]


def _from_kelvin(value: float, unit: str) -> float:
    return {"C": value - 273.15, "F": value * 9 / 5 - 459.67, "K": value}[unit]


def _figures(text: str) -> TextFigures:
    words = _WORD.findall(text)
    return TextFigures(
        characters=len(text),
        words=len(words),
        lines=len(text.splitlines()),
        sentences=len(re.findall(r"[.!?]+(?:\s|$)", text)),
        longest_word=max(words, key=len, default=""),
        average_word_length=round(statistics.fmean(map(len, words)), 2) if words else 0.0,
        reading_minutes=round(len(words) / 230, 2),
        sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    )


if __name__ == "__main__":
    demo_server().run()
