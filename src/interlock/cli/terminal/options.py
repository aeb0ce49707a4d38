"""Parses values that several commands share: points in time, rates, and one of several words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # click 8.1 has no type arguments

_SPAN = re.compile(r"(\d{1,6})([smhdw])\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RATE = re.compile(r"(\d{1,9})/(minute|min|m|hour|h)\Z")


def instant(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Parse `30d`, or a date and time. Without a zone, it is local time."""
    if value is None:
        return None
    span = _SPAN.match(value)
    if span is not None:
        return (datetime.now(UTC) + timedelta(**{_UNITS[span[2]]: int(span[1])})).isoformat(timespec="seconds")
    try:
        return datetime.fromisoformat(value).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise click.BadParameter("write 12h, 30d, or a date and time like 2026-12-31T18:00+01:00") from None


def rate(ctx: click.Context, option: click.Parameter, value: str | None) -> dict[str, int] | None:
    """Parse `60/minute,1000/hour`."""
    if value is None:
        return None
    found: dict[str, int] = {}
    for part in value.split(","):
        limit = _RATE.match(part.strip())
        if limit is None or int(limit[1]) < 1:
            raise click.BadParameter("write 60/minute, 1000/hour, or both with a comma")
        found["per_hour" if limit[2].startswith("h") else "per_minute"] = int(limit[1])
    return found


EXPIRES = click.option(
    "--expires", "expires_at", metavar="TIME", callback=instant, help="When it ends: 12h, 30d, or a date and time."
)


class OneOf(_Choice):
    """One of several words. A word that is none of them is answered with the nearest one."""

    def __init__(self, words: Sequence[str], others: Mapping[str, str] | None = None) -> None:
        super().__init__(words)
        self._others = others or {}
        """Words for the same, and the word that is taken."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            import difflib

            close = difflib.get_close_matches(str(value), self.choices, n=1)
            meant = self._others.get(str(value).lower()) or next(iter(close), None)
            if meant is None:
                raise
            raise click.BadParameter(f"{error.message} Did you mean `{meant}`?", ctx, param) from None
