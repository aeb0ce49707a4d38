"""Remembers messages that went to clients that are hosts: each reaches one client once, also after a restart.

A message is stored before it is sent, so a hub that is killed in between does not send it twice. A repeated message
gets the recorded answer. Messages that certainly did not arrive are forgotten, so their server can send them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from interlock.hub.live.events.documents import LIVE_SEEN, SeenEvent, day_of, now, seen_id
from interlock.hub.repeated_commits import commit
from interlock.hub.store_faults import as_faults
from interlock.protocols.mcpl.channels import IncomingMessage, ReceivedResult
from interlock.store import Store, Transaction

CAUSE: Final = "passed to its client"
UNANSWERED: Final = "the message was sent to the client before, and the client did not answer"


class PassedMessages:
    """The channel messages that went to clients."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def begin(
        self, server: str, agent: str, feature_set: str, messages: Sequence[IncomingMessage]
    ) -> tuple[list[IncomingMessage], dict[str, ReceivedResult]]:
        """Record the new messages as sent. Returns them, and the known answers to the others by `key_of`.

        Raises a `Fault`.
        """

        async def write(transaction: Transaction) -> tuple[list[IncomingMessage], dict[str, ReceivedResult]]:
            fresh, answers = await self._known(server, messages)
            for key, message in fresh.items():
                transaction.insert(LIVE_SEEN, _seen(key, server, agent, feature_set, message))
            return list(fresh.values()), answers

        with as_faults():
            return await commit(self._store(), write)

    async def answered(
        self,
        server: str,
        agent: str,
        feature_set: str,
        messages: Sequence[IncomingMessage],
        received: Iterable[ReceivedResult],
    ) -> None:
        """Record how a client answered each message. Raises a `Fault`."""
        with as_faults():
            async with self._store().transaction() as transaction:
                for message, answer in zip(messages, received, strict=True):
                    seen = _seen(key_of(server, message), server, agent, feature_set, message)
                    transaction.put(
                        LIVE_SEEN,
                        msgspec.structs.replace(
                            seen,
                            accepted=answer.accepted,
                            reason=answer.reason or "",
                            conversation=answer.conversation_id or "",
                            outcomes={agent: "wake" if answer.accepted else "dropped"},
                        ),
                    )

    async def forget(self, server: str, messages: Iterable[IncomingMessage]) -> None:
        """Forget messages that did not reach a client, so that they may be sent again. Raises a `Fault`."""
        with as_faults():
            async with self._store().transaction() as transaction:
                for message in messages:
                    transaction.delete(LIVE_SEEN, key_of(server, message))

    async def _known(
        self, server: str, messages: Sequence[IncomingMessage]
    ) -> tuple[dict[str, IncomingMessage], dict[str, ReceivedResult]]:
        fresh: dict[str, IncomingMessage] = {}
        answers: dict[str, ReceivedResult] = {}
        for message in messages:
            key = key_of(server, message)
            if key in fresh or key in answers:
                continue
            found = await self._store().get(LIVE_SEEN, key)
            if found is None:
                fresh[key] = message
            else:
                seen = found.value
                answers[key] = ReceivedResult(
                    message.message_id, seen.accepted, seen.conversation or None, seen.reason or None
                )  # fmt: skip
        return fresh, answers


def key_of(server: str, message: IncomingMessage) -> str:
    """The key of a message, the same for clients and for the hub's own conversations."""
    return seen_id(server, f"{message.channel_id}/{message.message_id}")


def _seen(key: str, server: str, agent: str, feature_set: str, message: IncomingMessage) -> SeenEvent:
    at = now()
    event, size = f"{message.channel_id}/{message.message_id}", len(msgspec.json.encode(message.content))
    return SeenEvent(
        key, server, event, feature_set, at, day_of(at), {agent: "dropped"}, CAUSE, False, "", UNANSWERED, size
    )  # fmt: skip
