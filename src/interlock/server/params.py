"""The params of the requests that a server answers, each read once. What does not fit is INVALID_PARAMS."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from interlock.server.listeners import Wanted
from interlock.transports.exchange import Exchange
from interlock.wire.errors import Fault

P = TypeVar("P")


class MayAsk(msgspec.Struct, kw_only=True):
    """A request that may be answered with a question, and repeated with the answers."""

    requestState: str | None = None
    inputResponses: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_retry(self) -> bool:
        """Whether it brings answers to what an earlier one was asked."""
        return self.requestState is not None or self.inputResponses is not msgspec.UNSET


class CallTool(MayAsk):
    """`tools/call` and `tools/validate`."""

    name: str
    arguments: dict[str, Any] | None = None
    task: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """How it wants to be a task (2025-11-25)."""


class ReadResource(MayAsk):
    """`resources/read`, `resources/subscribe` and its reverse."""

    uri: str


class GetPrompt(MayAsk):
    """`prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None


class List(msgspec.Struct):
    """Every list."""

    cursor: str | None = None


class Listen(msgspec.Struct):
    """`subscriptions/listen`."""

    notifications: Wanted


class SetLevel(msgspec.Struct):
    """`logging/setLevel`."""

    level: str


class Ref(msgspec.Struct):
    """What a completion is of: a prompt by its name, or a resource by its address."""

    type: str
    name: str = ""
    uri: str = ""


class Argument(msgspec.Struct):
    """An argument and what is typed of it so far."""

    name: str
    value: str


class Others(msgspec.Struct):
    """The arguments that are filled in already."""

    arguments: dict[str, str] = {}


class Complete(msgspec.Struct):
    """`completion/complete`."""

    ref: Ref
    argument: Argument
    context: Others = msgspec.field(default_factory=Others)


def read(exchange: Exchange, decoder: msgspec.json.Decoder[P]) -> P:
    """The request's params. Raises INVALID_PARAMS."""
    try:
        return decoder.decode(exchange.request.params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("INVALID_PARAMS", f"{exchange.request.method}: {cause}") from None


CALL_TOOL = msgspec.json.Decoder(CallTool)
READ_RESOURCE = msgspec.json.Decoder(ReadResource)
GET_PROMPT = msgspec.json.Decoder(GetPrompt)
LIST = msgspec.json.Decoder(List)
LISTEN = msgspec.json.Decoder(Listen)
SET_LEVEL = msgspec.json.Decoder(SetLevel)
COMPLETE = msgspec.json.Decoder(Complete)
