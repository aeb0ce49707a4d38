"""Operations that only a person may perform, since a program could otherwise grant itself rights."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from interlock.hub.admin.operation import Operation
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import Principal
from interlock.wire.errors import Fault


async def need_person(hub_app: HubApp, by: Principal, act: str, hint: str, *, present: bool, passphrase: str) -> None:
    """Refuse everybody but a person, who gives the passphrase where the hub has one. Raises ACCESS_DENIED.

    A principal without a key comes over the control socket, where a program may act for its user: there `present`
    says that a person is at a terminal, or in the console. Over the API it is the holder of a person's key.
    """
    if by.kind != "person":
        raise Fault("ACCESS_DENIED", f"{act} needs a person, and {by.id} is not one ({by.kind})", hint=hint)
    if not (by.key or present):
        raise Fault("PERSON_REQUIRED", f"{act} needs a person at a terminal", hint=hint)
    await hub_app.passphrase.demand(by, passphrase)


class ControlPeer(msgspec.Struct, frozen=True):
    """A program at the control socket, as it describes itself. Other programs can lie (see the threats)."""

    terminal: bool = False
    """Whether a person is at its terminal."""
    agent: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The agent program whose command it is; empty if it recognizes none."""


PROGRAM: Final = ControlPeer()
"""A program without a terminal."""


async def check_proof(
    hub_app: HubApp, by: Principal, operation: Operation, params: msgspec.Struct, passphrase: str, peer: ControlPeer
) -> None:
    """Refuse an operation at the control socket that its row gives to a person alone.

    The passphrase is worth more than a terminal, and replaces it. Raises PERSON_REQUIRED, or as `Passphrase.demand`.
    """
    proof = operation.proof
    if not operation.proves_itself and (proof is None or not proof.needed(hub_app, params)):
        return
    if peer.agent:
        hint = "use a terminal of your own, or the console; an agent calls tools as itself, through its client"
        raise Fault("PERSON_REQUIRED", f"this is a command of {peer.agent}, and only a person may do this", hint=hint)
    if proof is None:
        return
    if hub_app.passphrase.needed:
        await hub_app.passphrase.demand(by, passphrase)
    elif proof.terminal and not peer.terminal:
        hint = "run this in a terminal, or use the console; scripts use an administrator's key and the admin API"
        message = f"only a person at a terminal may use {operation.name} {proof.when}"
        raise Fault("PERSON_REQUIRED", message, hint=hint)
