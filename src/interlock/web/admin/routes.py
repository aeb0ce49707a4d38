"""The admin API's routes: a key with the right, the desk that does it, and errors in the same bodies as REST has them.

Rule: nobody comes in without a credential of their own, on loopback as anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.calls.call import Caller
from interlock.hub.operations import ControlOperations
from interlock.hub.store_faults import fault_of
from interlock.store import StoreError
from interlock.web.admin.addresses import ADDRESSES, Address
from interlock.web.admin.document import paths
from interlock.web.rest.outcomes import RequestInfo, answer
from interlock.web.rest.routes import ENTRANCE
from interlock.web.rest.routes import Address as HttpAddress
from interlock.wire.errors import Fault
from interlock.wire.messages import strict

LARGEST_BODY: Final = 1024 * 1024


def admin_routes(hub_app: HubApp, operator: ControlOperations) -> list[Route]:
    """The routes, for an application to take in; the more particular path before one that would swallow it."""
    by_path: dict[str, dict[str, Callable[[Request, RequestInfo], object]]] = {}
    for address in ADDRESSES:
        by_path.setdefault(address.path, {})[address.verb] = _Served(address, hub_app, operator)
    ordered = sorted(by_path, key=lambda path: (path.count("{"), -len(path)))
    served = {path: HttpAddress(by_path[path]) for path in ordered}  # type: ignore[arg-type]
    # The name of a principal may hold a slash, and end like another address: the method says which is meant.
    named = [Route(_wide(path), served[path], methods=[*by_path[path]]) for path in ordered if "{agent}" in path]
    return [*named, *(Route(_wide(path), served[path]) for path in ordered)]


def _wide(path: str) -> str:
    return path.replace("{agent}", "{agent:path}")


def admin_paths(hub_app: HubApp) -> Callable[[Caller], dict[str, object]]:
    """What of the admin API stands in a caller's OpenAPI document."""

    def more(caller: Caller) -> dict[str, object]:
        rights = hub_app.access.rights(caller.principal)
        if caller.principal == LOCAL_AGENT or rights is None or not rights.admin_read:
            return {}
        return paths(write=rights.admin_write and caller.principal.decides)

    return more


class _Served:
    """One address, ready to answer."""

    def __init__(self, address: Address, hub_app: HubApp, operator: ControlOperations) -> None:
        self._address = address
        self._hub_app = hub_app
        self._desk = address.do(hub_app, operator)

    async def __call__(self, request: Request, where: RequestInfo) -> Response:
        asking = await self._admitted(request)
        try:
            result = await self._done(asking, request, where.trace_id)
        except Fault as fault:
            what = f"{self._address.verb} {self._address.path}"
            self._hub_app.journal.refused(asking, what, fault, where.trace_id)
            raise
        except StoreError as cause:
            raise fault_of(cause) from None
        return answer(msgspec.json.encode(result), where)

    async def _done(self, asking: Principal, request: Request, trace: str) -> object:
        write = self._address.right == "admin_write"
        self._hub_app.access.demand(asking, f"use {self._address.path}", write=write)
        return await self._desk(asking, await self._params(request), trace)

    async def _admitted(self, request: Request) -> Principal:
        principal = (
            await self._hub_app.authenticator.admit_in_time(ENTRANCE, dict(request.scope["headers"]))
        ).principal
        if principal == LOCAL_AGENT:
            hint = "send `Authorization: Bearer KEY`; `interlock keys create NAME --kind person` makes one"
            raise Fault("AUTH_REQUIRED", "the admin API needs a key, also on this machine", hint=hint)
        return principal

    async def _params(self, request: Request) -> bytes:
        """What was asked, from path and query or body. What is said twice is ambiguous."""
        path = dict(request.path_params)
        if self._address.verb == "POST":
            said = await _body(request)
        else:
            said = dict(request.query_params)
            if len(request.query_params.multi_items()) != len(said):
                raise Fault("INVALID_PARAMS", "a parameter is given twice")
        if both := path.keys() & said.keys():
            raise Fault("INVALID_PARAMS", f"{sorted(both)[0]!r} stands in the path already")
        known = {field.encode_name for field in msgspec.structs.fields(self._address.asks)}
        if strange := sorted((path.keys() | said.keys()) - known):
            raise Fault(
                "INVALID_PARAMS", f"no parameter {strange[0][:100]!r}", hint=f"one of {', '.join(sorted(known))}"
            )
        try:
            loose = self._address.verb != "POST"
            asked = msgspec.convert({**said, **path}, self._address.asks, strict=not (loose or path))
        except msgspec.ValidationError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return msgspec.json.encode(asked)


async def _body(request: Request) -> dict[str, object]:
    body = await request.body()
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Fault("UNSUPPORTED_MEDIA_TYPE", "the body must be JSON", hint="send application/json")
    if len(body) > LARGEST_BODY:
        raise Fault("TOO_LARGE", f"a body has at most {LARGEST_BODY} bytes")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise Fault("PARSE_ERROR", f"the body is not JSON: {cause}") from None
    strict(body)
    if not isinstance(value, dict):
        raise Fault("INVALID_PARAMS", "the body must be an object")
    return value
