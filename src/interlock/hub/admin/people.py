"""Operations that only a person may perform, since a program could otherwise grant itself rights."""

from __future__ import annotations

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
        raise Fault("ACCESS_DENIED", f"{act} needs a person at a terminal", hint=hint)
    await hub_app.passphrase.demand(by, passphrase)
