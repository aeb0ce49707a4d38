"""One question to the running hub, and reading what an operator writes for it: instants and rates."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

_SPAN = re.compile(r"(\d{1,6})([smhdw])\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RATE = re.compile(r"(\d{1,9})/(minute|min|m|hour|h)\Z")


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the hub of this user."""
    from interlock.config.home import home_folder

    from .hub_link import HubLink

    with HubLink.open(home_folder()) as link:
        return link.ask(method, params)


def instant(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """`30d`, or a date and time; one without a zone is meant as it stands on this machine's clock."""
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
    """`60/minute,1000/hour`."""
    if value is None:
        return None
    found: dict[str, int] = {}
    for part in value.split(","):
        said = _RATE.match(part.strip())
        if said is None or int(said[1]) < 1:
            raise click.BadParameter("write 60/minute, 1000/hour, or both with a comma")
        found["per_hour" if said[2].startswith("h") else "per_minute"] = int(said[1])
    return found
