"""Notes that a stricter mode asks before a call: written when such a call is sent, and not when it is planned.

A search, a list or `interlock why` plans and judges calls that nobody makes.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.hub.calls.call import Call
from interlock.hub.calls.verdicts import PASS, Verdict

Note = Callable[[str, str], None]
"""Writes a line into the log of a server."""


class WouldAsk:
    """Passes every call. Writes one note for each plan, when its first such call is sent."""

    def __init__(self, note: Note, rule: Callable[[Call], str]) -> None:
        self._note = note
        self._rule = rule
        """The rule by which a stricter mode asks before a call; empty if none does."""
        self._is_written = False

    def __call__(self, call: Call) -> Verdict:
        if not self._is_written and self not in call.would_ask and self._rule(call):
            call.would_be_asked(self)
        return PASS

    def write(self, call: Call) -> None:
        """Note a call that is sent."""
        if not self._is_written:
            self._is_written = True
            who = call.caller.principal.id
            self._note(call.target.server, f"would ask before {call.target.name} for {who}: {self._rule(call)}")
