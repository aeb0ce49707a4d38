"""Translates the error of a handshake-era server that requires a page to be opened first, for stateless clients.

The error becomes a question, and the retry a new call: the server has done nothing yet (2025-11-25, Elicitation: URL
Elicitation Required Error).
"""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.hub.calls.bridges.retries import ANSWERS
from interlock.protocols.mcp.capabilities import ClientCapabilities
from interlock.protocols.mcp.error_translation import URL_FIRST
from interlock.protocols.mcp.meta import Members
from interlock.wire.errors import ErrorObject, Fault
from interlock.wire.json_values import decode_json
from interlock.wire.names import may_spell

ELICIT: Final = "elicitation/create"
PREFIX: Final = "page-"
MAX_PAGES: Final = 64


def as_question(error: ErrorObject, capabilities: ClientCapabilities) -> bytes | None:
    """The result that asks for the pages of an error. None for another error, or a client that cannot open any."""
    if error.code != URL_FIRST or not capabilities.elicitation_url:
        return None
    try:
        pages = msgspec.json.decode(error.data, type=_Data).elicitations
    except msgspec.DecodeError:
        return None
    if not 0 < len(pages) <= MAX_PAGES:
        return None
    requests = {
        f"{PREFIX}{number}": {"method": ELICIT, "params": _question(page, error.message)}
        for number, page in enumerate(pages, start=1)
    }
    return msgspec.json.encode({"resultType": "input_required", "inputRequests": requests})


def questions_in(error: ErrorObject) -> list[tuple[str, bytes]]:
    """The questions in an error, one for each page to open. An error without pages is one question. Unreadable pages
    are a question without an address, which the gates refuse."""
    pages: list[_Page] | None
    try:
        pages = msgspec.json.decode(error.data, type=_Data).elicitations
    except msgspec.DecodeError:
        pages = None if may_spell(bytes(error.data), b"elicitations") else []
    if pages is None or len(pages) > MAX_PAGES:
        return [(ELICIT, msgspec.json.encode({"mode": "url", "message": error.message, "url": ""}))]
    if not pages:
        return [(ELICIT, msgspec.json.encode({"message": error.message}))]
    return [(ELICIT, msgspec.json.encode(_question(page, error.message))) for page in pages]


def _question(page: _Page, otherwise: str) -> dict[str, str]:
    return {"mode": "url", "message": page.message or otherwise, "url": page.url}


def check_visited(members: Members) -> None:
    """Raise URL_ELICITATION_REQUIRED if the retry says that the person did not agree to open every page."""
    raw = members.get(ANSWERS)
    if raw is None:
        return
    answers = decode_json(raw, dict[str, _ElicitResult], "INVALID_PARAMS", ANSWERS)
    if any(key.startswith(PREFIX) and answer.action != "accept" for key, answer in answers.items()):
        raise Fault("URL_ELICITATION_REQUIRED", "the server requires a page to be opened first, and it was not")


class _Page(msgspec.Struct):
    url: str
    message: str = ""


class _Data(msgspec.Struct):
    elicitations: list[_Page]


class _ElicitResult(msgspec.Struct):
    action: str = ""
