"""Dates of HTTP headers (RFC 9110, Date/Time Formats). `email.utils` would load a package of mail for them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK: Final = rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_FORMS: Final = (
    re.compile(rb"[A-Z][a-z]+, (?P<day>\d\d)[ -](?P<month>[A-Z][a-z]{2})[ -](?P<year>\d{4}|\d\d) " + _CLOCK + rb" GMT"),
    re.compile(rb"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) (?P<day>[ \d]\d) " + _CLOCK + rb" (?P<year>\d{4})"),
)
"""The preferred form and that of RFC 850, and that of asctime()."""


def format_date(seconds: float) -> bytes:
    """A time in the preferred form."""
    at = time.gmtime(seconds)
    day, month = _DAYS[at.tm_wday], _MONTHS[at.tm_mon - 1]
    clock = f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02}"
    return f"{day}, {at.tm_mday:02} {month} {at.tm_year:04} {clock} GMT".encode()


def parse_date(date: bytes) -> float | None:
    """The time of a date in one of the three forms; None for anything else."""
    found = next((match for form in _FORMS if (match := form.fullmatch(date))), None)
    if found is None:
        return None
    try:
        month = _MONTHS.index(found["month"].decode()) + 1
        day, hour, minute, second = (int(found[part]) for part in ("day", "hour", "minute", "second"))
        # A leap second is the last of its minute.
        return datetime(_year(found["year"]), month, day, hour, minute, min(second, 59), tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def _year(digits: bytes) -> int:
    """A year. Two digits are those of the last such year that is at most 50 years ahead (RFC 9110)."""
    year = int(digits)
    if len(digits) == 4:
        return year
    latest = time.gmtime().tm_year + 50
    return latest - (latest - year) % 100
