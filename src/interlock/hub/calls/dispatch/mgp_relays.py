"""The relays of one call for a server that speaks MGP: chunks and progress of its stream, and its callbacks."""

from __future__ import annotations

from typing import Final

import msgspec

from interlock.client.connection import Connection
from interlock.hub.calls.call import Call, Plan
from interlock.hub.calls.dispatch.callbacks import CallbackRelay, CallClient, ServerCallbacks
from interlock.hub.calls.dispatch.stream_relay import StreamRelay, relay_for
from interlock.hub.calls.dispatch.translation import Translation
from interlock.protocols.mgp import streaming
from interlock.protocols.mgp.callbacks import REQUEST as CALLBACK

NOTIFICATIONS: Final = frozenset({streaming.CHUNK, streaming.PROGRESS, CALLBACK})
"""Notifications about a call that these relays take."""
_NOTHING: Final[frozenset[str]] = frozenset()


class MgpRelays(msgspec.Struct, eq=False):
    """Each is None where server and client did not agree on it."""

    stream: StreamRelay | None
    """Relays chunks and progress."""
    callbacks: CallbackRelay | None
    """Answers callbacks."""

    @classmethod
    def of(
        cls,
        call: Call,
        plan: Plan,
        connection: Connection,
        translation: Translation,
        callbacks: ServerCallbacks,
        client: CallClient,
    ) -> MgpRelays:
        """The relays of a call. Raises INVALID_PARAMS."""
        stream = relay_for(call, plan, connection, translation)
        return cls(stream, callbacks.relay_for(call, connection, client))

    @property
    def accepts(self) -> frozenset[str]:
        """The notifications about the call that the hub takes from the server."""
        accepts = _NOTHING if self.stream is None else self.stream.accepts
        return accepts if self.callbacks is None else accepts | {CALLBACK}

    @property
    def asks_for_chunks(self) -> bool:
        """Whether the server is to send chunks."""
        return self.stream is not None and self.stream.asks_for_chunks

    def on_notification(self, method: str, params: bytes) -> None:
        """Relay a chunk, progress or a callback."""
        if method == CALLBACK:
            if self.callbacks is not None:
                self.callbacks.on_request(params)
        elif self.stream is not None and method == streaming.CHUNK:
            self.stream.on_chunk(params)
        elif self.stream is not None and method == streaming.PROGRESS:
            self.stream.on_progress(params)

    def stop(self) -> None:
        """Relay no more: the call is over."""
        if self.stream is not None:
            self.stream.stop()
        if self.callbacks is not None:
            # They refer to the forwarder of the call, which has these relays.
            callbacks, self.callbacks = self.callbacks, None
            callbacks.stop()
