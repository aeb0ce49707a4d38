"""One line of `interlock doctor`."""

from __future__ import annotations

from typing import NamedTuple


class DoctorCheck(NamedTuple):
    """The verdict on one subject, and how to correct a fault."""

    name: str
    verdict: str
    """`ok`, `warning` or `wrong`. A single `wrong` fails the command."""
    detail: str
    hint: str = ""
