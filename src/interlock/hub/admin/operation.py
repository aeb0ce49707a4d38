"""One row of the table of operations, and the types that several operations share.

The parameters and the result of an operation are read from the signature of its handler, so no row can contradict it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal

Right: TypeAlias = Literal["admin_read", "admin_write", "owner"]
READ: Final = "admin_read"
WRITE: Final = "admin_write"
OWNER: Final = "owner"
"""Only the user whose hub it is, over the control socket."""

Handler: TypeAlias = Callable[[Any, Principal, Any, str], Awaitable[msgspec.Struct]]
"""A method that takes the principal, the parameters and a trace id, and returns the result."""

MAX_NUMBER: Final = 2**63 - 1
"""The largest integer that every store can hold."""
Text: TypeAlias = Annotated[str, Meta(max_length=1024)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]

Secret: TypeAlias = Annotated[str, Meta(max_length=1024)]
"""The passphrase of the hub, where one is needed. It is never recorded."""

_CONTROL: Final = {"control": True}
ControlFlag: TypeAlias = Annotated[bool, Meta(extra=_CONTROL)]
"""A parameter that only the control socket has, not the admin API."""


class Proof(msgspec.Struct, frozen=True):
    """When an operation at the control socket needs a proof of a person: where it gives rights, or acts as the person.

    Every program of the same user reaches the control socket. Reading there needs none, and neither does taking away.
    """

    when: str
    """For the reference: `yes`, or the case in which it does."""
    needed: Callable[[HubApp, Any], bool] = lambda hub_app, params: True
    terminal: bool = True
    """Whether the person must be at a terminal, where the hub has no passphrase. An agent program never suffices."""


ACTS: Final = Proof("yes", terminal=False)
"""Acts as the person and gives nobody rights: scripts may do so, until the hub has a passphrase."""


class Operation(msgspec.Struct, frozen=True):
    """One operation on a running hub."""

    name: str
    right: Right
    handler: Handler
    params: type[msgspec.Struct]
    result: type[msgspec.Struct]
    summary: str
    verb: str
    """Empty for an operation without an address in the admin API."""
    path: str
    events: tuple[str, ...]
    """The audit events that the operation writes. `perform` writes OPERATED, the handlers write all others."""
    proof: Proof | None = None
    """None for an operation that needs no passphrase, or whose handler demands it from everyone."""

    @property
    def family(self) -> str:
        """The name of the class that the handler is a method of."""
        return self.handler.__qualname__.partition(".")[0]

    @property
    def shown(self) -> str:
        """The name for refusals: the address, if there is one."""
        return f"{self.verb} {self.path}" if self.path else self.name

    def api_fields(self) -> dict[str, Any]:
        """The parameters of the admin API with their types."""
        fields = msgspec.structs.fields(self.params)
        return {field.encode_name: field.type for field in fields if not _is_control(field.type)}

    @property
    def passphrase(self) -> str:
        """Where the operation needs the passphrase: empty, `everywhere`, or at the control socket in some case."""
        if self.proves_itself:
            return "everywhere"
        return "" if self.proof is None else self.proof.when

    @property
    def terminal(self) -> str:
        """Where the operation needs a person at a terminal: empty, `yes`, or in some case."""
        if self.proves_itself:
            return "yes"
        return "" if self.proof is None or not self.proof.terminal else self.proof.when

    @property
    def proves_itself(self) -> bool:
        """Whether its handler demands a person, and the passphrase where the hub has one, wherever it comes from."""
        return "passphrase" in self.params.__struct_fields__


def row(
    name: str,
    right: Right,
    handler: Handler,
    summary: str,
    address: str = "",
    *events: str,
    proof: Proof | None = None,
) -> Operation:
    """A row of the table. `address` is a verb and a path."""
    hints = get_type_hints(handler, include_extras=True)
    verb, _, path = address.partition(" ")
    return Operation(name, right, handler, hints["params"], hints["return"], summary, verb, path, events, proof)


def _is_control(kind: Any) -> bool:
    return any(isinstance(part, Meta) and part.extra == _CONTROL for part in getattr(kind, "__metadata__", ()))


class Nothing(msgspec.Struct):
    """No parameters."""
