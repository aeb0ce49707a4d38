"""The params of the requests that a server answers. `read` decodes each once, and raises INVALID_PARAMS."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from interlock.server.requests.listeners import WantedChanges
from interlock.server.requests.session import Exchange
from interlock.wire.json_values import decode_json

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


class ListParams(msgspec.Struct):
    """Every list."""

    cursor: str | None = None


class ListenParams(msgspec.Struct):
    """`subscriptions/listen`."""

    notifications: WantedChanges


class SetLevel(msgspec.Struct):
    """`logging/setLevel`."""

    level: str


class CompletionRef(msgspec.Struct):
    """The prompt, by name, or the resource, by address, that a completion belongs to."""

    type: str
    name: str = ""
    uri: str = ""


class Argument(msgspec.Struct):
    """An argument and the text typed so far."""

    name: str
    value: str


class OtherArguments(msgspec.Struct):
    """The arguments that are already filled in."""

    arguments: dict[str, str] = {}


class CompleteParams(msgspec.Struct):
    """`completion/complete`."""

    ref: CompletionRef
    argument: Argument
    context: OtherArguments = msgspec.field(default_factory=OtherArguments)


class UpdateTask(msgspec.Struct):
    """`tasks/update`."""

    inputResponses: msgspec.Raw


def read(exchange: Exchange, kind: type[P]) -> P:
    """The request's params. Raises INVALID_PARAMS."""
    return decode_json(exchange.request.params, kind, "INVALID_PARAMS", exchange.request.method)
