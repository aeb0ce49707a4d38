"""The kind of an envelope: TYPE[:METHOD[:CONTEXT]] (MCPx, Message Envelope).

Only the first two colons are separators, since a CONTEXT may be a URI. Under `mcp/`, only the kinds of this version
exist. Any other TYPE that a capability covers is passed on.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from interlock.protocols.mcpx.errors import EnvelopeRefused, RefusalReason

REQUEST: Final = "mcp/request"
RESPONSE: Final = "mcp/response"
PROPOSAL: Final = "mcp/proposal"
WITHDRAW: Final = "mcp/withdraw"
REJECT: Final = "mcp/reject"
CHAT: Final = "chat"
WELCOME: Final = "system/welcome"
PRESENCE: Final = "system/presence"
ERROR: Final = "system/error"
HISTORY: Final = "system/history"
RESERVED: Final = "system/"
"""Prefix of kinds that only the gateway sends (MCPx, Reserved Namespace)."""

WITH_METHOD: Final = frozenset({REQUEST, RESPONSE, PROPOSAL})
WITHOUT_METHOD: Final = frozenset({WITHDRAW, REJECT, CHAT, WELCOME, PRESENCE, ERROR, HISTORY})
MAX_KIND_CHARS: Final = 2_048


class EnvelopeKind(msgspec.Struct, frozen=True):
    """The kind of an envelope."""

    text: str
    type: str
    method: str | None = None
    context: str | None = None

    @property
    def reserved(self) -> bool:
        """Whether only the gateway may send it."""
        return self.text.startswith(RESERVED)

    @property
    def operation(self) -> str:
        """METHOD[:CONTEXT], which a proposal and its fulfilment share."""
        return self.text.partition(":")[2]


def parse_kind(text: str) -> EnvelopeKind:
    """The kind's parts. Raises `EnvelopeRefused`."""
    if not 0 < len(text) <= MAX_KIND_CHARS:
        raise _bad(f"`kind` has {len(text)} characters.", f"A kind has 1 to {MAX_KIND_CHARS} characters.")
    if _CONTROL.search(text):
        raise _bad("`kind` has control characters.", "Leave them out, or leave CONTEXT out.")
    type_, method, context = _split(text)
    if type_ in _FORMER:
        raise _bad(f"`{type_}` is no kind of mcpx/v0.1.", f"The kind is `{_FORMER[type_]}`, and the gateway sends it.")
    if not _TYPE.fullmatch(type_):
        raise _bad(f"TYPE {type_[:80]!r} is not lower-case words divided by `/`.", "Example: mcp/request:tools/call")
    if type_ in WITH_METHOD and method is None:
        raise _bad(f"`{type_}` has no METHOD.", f"Example: {type_}:tools/call")
    if type_ in WITHOUT_METHOD and method is not None:
        raise _bad(f"`{type_}` takes no METHOD.", f"Write the kind as `{type_}` alone.")
    if type_ == "mcp" or (type_.startswith("mcp/") and type_ not in WITH_METHOD | WITHOUT_METHOD):
        known = ", ".join(sorted(name for name in WITH_METHOD | WITHOUT_METHOD if name.startswith("mcp/")))
        raise _bad(f"`{type_[:80]}` is no kind of mcpx/v0.1.", f"Kinds under mcp/ begin with one of: {known}.")
    if method is not None and not _METHOD.fullmatch(method):
        raise _bad(f"METHOD {method[:80]!r} is not words divided by `/`.", "Example: mcp/request:tools/call")
    if context == "":
        raise _bad("CONTEXT is empty.", "Write a CONTEXT behind the second colon, or leave the colon out.")
    return EnvelopeKind(text, type_, method, context)


def fulfilling(proposal: EnvelopeKind) -> str:
    """The kind of the request that fulfils a proposal."""
    return f"{REQUEST}:{proposal.operation}"


def has_control_characters(text: str) -> bool:
    """Whether a name would break a line or a terminal where it is printed."""
    return _CONTROL.search(text) is not None


def _split(text: str) -> tuple[str, str | None, str | None]:
    parts: list[str | None] = [*text.split(":", 2)]
    type_, method, context = [*parts, None, None][:3]
    return type_ or "", method, context


def _bad(message: str, fix: str) -> EnvelopeRefused:
    return EnvelopeRefused(RefusalReason.INVALID_KIND, message, fix)


_FORMER: Final = {"presence": PRESENCE, "system": ERROR}
"""Kinds that the overview of the specification names, but its sections write with a slash."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_TYPE: Final = re.compile(r"[a-z0-9_.-]+(?:/[a-z0-9_.-]+)*")
_METHOD: Final = re.compile(r"[!-)+-.0-9;-~]+(?:/[!-)+-.0-9;-~]+)*")
"""Printable ASCII without the separators and `*`, which is a wildcard in capabilities."""
