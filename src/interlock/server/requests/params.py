"""The params of the requests that a server answers. `read` decodes each once, and raises INVALID_PARAMS."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from interlock.server.requests.listeners import Wanted
from interlock.server.requests.session import Exchange
from interlock.wire.errors import Fault

P = TypeVar("P")


class Repeatable(msgspec.Struct, kw_only=True):
    """A request that the server may answer with a question, and the client then repeats with the answers."""

    requestState: str | None = None
    inputResponses: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def is_retry(self) -> bool:
        """Whether it brings answers to questions."""
        return self.requestState is not None or self.inputResponses is not msgspec.UNSET


class CallOptions(msgspec.Struct):
    """The `_mgp` of a call."""

    stream: bool = False


class CallTool(Repeatable):
    """`tools/call` and `tools/validate`."""

    name: str
    arguments: dict[str, Any] | None = None
    task: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Asks for a task (2025-11-25)."""
    trace_id: Any = None
    """The trace of the call (MGP, Trace ID Propagation)."""
    mgp: CallOptions | None = msgspec.field(default=None, name="_mgp")


class ReadResource(Repeatable):
    """`resources/read`, `resources/subscribe` and `resources/unsubscribe`."""

    uri: str


class GetPrompt(Repeatable):
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
    """The prompt, by name, or the resource, by address, that a completion belongs to."""

    type: str
    name: str = ""
    uri: str = ""


class Argument(msgspec.Struct):
    """An argument and the text typed so far."""

    name: str
    value: str


class Others(msgspec.Struct):
    """The arguments that are already filled in."""

    arguments: dict[str, str] = {}


class Complete(msgspec.Struct):
    """`completion/complete`."""

    ref: Ref
    argument: Argument
    context: Others = msgspec.field(default_factory=Others)


class UpdateTask(msgspec.Struct):
    """`tasks/update`."""

    inputResponses: msgspec.Raw


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
UPDATE_TASK = msgspec.json.Decoder(UpdateTask)
