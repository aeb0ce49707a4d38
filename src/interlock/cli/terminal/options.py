"""Parses option values that several commands share: points in time and rates."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click

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
