"""Searches the errors of a server as its results are searched: masked, judged, and with hidden text made visible.

Pure, so that a thread may do it. An error never becomes anything else: its code stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from interlock.hub.calls.dispatch.result_masking import ResultMasker, findings_of
from interlock.judge.findings import Finding
from interlock.judge.results import judge_result, made_visible
from interlock.wire.errors import ErrorObject

WITHHELD: Final = "[masked: the error could not be read]"


class SearchedError(NamedTuple):
    """An error as the client gets it, and what was found in it."""

    error: ErrorObject
    found: tuple[Finding, ...] = ()
    masked: Mapping[str, int] = {}
    """How much was masked, by kind."""


def search_error(error: ErrorObject, masker: ResultMasker | None, *, escapes: bool) -> SearchedError:
    """Search an error. Text that cannot be read is withheld where something is masked or made visible."""
    masked: Counter[str] = Counter()
    if masker is not None:
        error, masked = masker.error(error)
    try:
        error, found = _judged(error, escapes)
    except Exception as cause:  # an error that cannot be judged is flagged as that
        error, found = withheld(error) if escapes else error, (unjudged(cause),)
    return SearchedError(error, (*findings_of(masked), *found), masked)


def withheld(error: ErrorObject) -> ErrorObject:
    """An error without its text."""
    return msgspec.structs.replace(error, message=WITHHELD, data=msgspec.Raw(b""))


def unjudged(cause: Exception) -> Finding:
    """The finding for text that could not be judged."""
    return Finding("result.unjudged", f"It could not be judged ({type(cause).__name__}).")


def _judged(error: ErrorObject, escapes: bool) -> tuple[ErrorObject, tuple[Finding, ...]]:
    raw = bytes(error.data)
    value = msgspec.json.decode(raw) if raw else None
    found = judge_result({"error": error.message, "error data": value})
    if escapes:
        # Findings are bounded, but all hidden text becomes visible.
        message, visible = made_visible([error.message, value])
        assert isinstance(message, str)
        data = msgspec.Raw(msgspec.json.encode(visible)) if raw and visible != value else error.data
        error = msgspec.structs.replace(error, message=message, data=data)
    return error, found
