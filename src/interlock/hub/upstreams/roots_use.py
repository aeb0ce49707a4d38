"""How one server uses the roots of its clients, as far as its connections have shown.

A server of the handshake era may ask for roots at any time, and keeps the answer. The hub learns from its first
question.
"""

from __future__ import annotations


class RootsUse:
    """Whether a server asks for roots, and whether it does so as soon as it is connected."""

    __slots__ = ("asked", "at_start")

    def __init__(self) -> None:
        self.asked = False
        """Whether the server ever asked for roots beside all calls. A question within a call goes to its client."""
        self.at_start: bool | None = None
        """Whether it asks by itself after the handshake, rather than within a call; None until that was seen."""

    def on_asked(self, *, beside_calls: bool) -> None:
        """The server asks for roots, while it has a call to answer or beside all calls."""
        if not beside_calls:
            return
        self.asked = True
        if self.at_start is None:
            self.at_start = True

    def on_silent(self) -> None:
        """The server did not ask within the wait after the handshake. Later connections do not wait again."""
        if self.at_start:
            self.at_start = False
