"""The routes of the admin API. Errors have the same bodies as in the REST API.

Every request needs a key or token with the right, on loopback too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.hub.admin.approvals import ApprovalOperations, Operation
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.calls.call import Caller
from interlock.hub.operations import ControlOperations
from interlock.hub.store_faults import fault_of
from interlock.store import StoreError
from interlock.transports.large_reading import LargeReading
from interlock.web.admin.addresses import ADDRESSES, Address
from interlock.web.admin.document import paths
from interlock.web.rest.outcomes import RequestInfo, answer
from interlock.web.rest.routes import ENTRANCE
from interlock.web.rest.routes import Address as HttpAddress
from interlock.wire.errors import Fault
from interlock.wire.large import LARGE
from interlock.wire.limits import DEFAULT
from interlock.wire.messages import strict

MAX_BODY: Final = 1024 * 1024


def admin_routes(hub_app: HubApp, operator: ControlOperations) -> list[Route]:
    """The routes, a specific path before a general one that matches it too."""
    operations: Mapping[str, Operation] = {
        **operator.operations,
        **ApprovalOperations(hub_app.inbox, "api").operations,
        "permissions.approve": hub_app.permission_operations.approve,
    }
    by_path: dict[str, dict[str, Callable[[Request, RequestInfo], object]]] = {}
    for address in ADDRESSES:
        by_path.setdefault(address.path, {})[address.verb] = _Endpoint(address, hub_app, operations[address.operation])
    ordered = sorted(by_path, key=lambda path: (path.count("{"), -len(path)))
    served = {path: HttpAddress(by_path[path]) for path in ordered}  # type: ignore[arg-type]
    # A principal's name may have slashes and end like another path: the method tells them apart.
    named = [Route(_wide(path), served[path], methods=[*by_path[path]]) for path in ordered if "{agent}" in path]
    return [*named, *(Route(_wide(path), served[path]) for path in ordered)]


def _wide(path: str) -> str:
    return path.replace("{agent}", "{agent:path}")


def admin_paths(hub_app: HubApp) -> Callable[[Caller], dict[str, object]]:
    """The admin paths in a caller's OpenAPI document."""

    def paths_for(caller: Caller) -> dict[str, object]:
        rights = hub_app.access.rights(caller.principal)
        if caller.principal == LOCAL_AGENT or rights is None or not rights.admin_read:
            return {}
        return paths(write=rights.admin_write and caller.principal.decides)

    return paths_for


class _Endpoint:
    """Answers one address."""

    def __init__(self, address: Address, hub_app: HubApp, operation: Operation) -> None:
        self._address = address
        self._hub_app = hub_app
        self._operation = operation

    async def __call__(self, request: Request, where: RequestInfo) -> Response:
        principal = await self._authenticate(request)
        try:
            result = await self._run(principal, request, where.trace_id)
        except Fault as fault:
            what = f"{self._address.verb} {self._address.path}"
            self._hub_app.journal.refused(principal, what, fault, where.trace_id)
            raise
        except StoreError as cause:
            raise fault_of(cause) from None
        return answer(msgspec.json.encode(result), where)

    async def _run(self, principal: Principal, request: Request, trace: str) -> object:
        write = self._address.right == "admin_write"
        self._hub_app.access.demand(principal, f"use {self._address.path}", write=write)
        return await self._operation(principal, await self._params(request), trace)

    async def _authenticate(self, request: Request) -> Principal:
        principal = (
            await self._hub_app.authenticator.admit_in_time(ENTRANCE, dict(request.scope["headers"]))
        ).principal
        if principal == LOCAL_AGENT:
            hint = "send `Authorization: Bearer KEY`; `interlock keys create NAME --kind person` makes one"
            raise Fault("AUTH_REQUIRED", "the admin API needs a key, also on this machine", hint=hint)
        return principal

    async def _params(self, request: Request) -> bytes:
        """The params from path and query or body. A parameter that is given twice is refused."""
        path = dict(request.path_params)
        if self._address.verb == "POST":
            given = await _body(request)
        else:
            given = dict(request.query_params)
            if len(request.query_params.multi_items()) != len(given):
                raise Fault("INVALID_PARAMS", "a parameter is given twice")
        if both := path.keys() & given.keys():
            raise Fault("INVALID_PARAMS", f"{sorted(both)[0]!r} is already given in the path")
        known = {field.encode_name for field in msgspec.structs.fields(self._address.asks)}
        if unknown := sorted((path.keys() | given.keys()) - known):
            raise Fault(
                "INVALID_PARAMS", f"no parameter {unknown[0][:100]!r}", hint=f"one of {', '.join(sorted(known))}"
            )
        try:
            loose = self._address.verb != "POST"
            params = msgspec.convert({**given, **path}, self._address.asks, strict=not (loose or path))
        except msgspec.ValidationError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return msgspec.json.encode(params)


async def _body(request: Request) -> dict[str, object]:
    body = await _read(request)
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Fault("UNSUPPORTED_MEDIA_TYPE", "the body must be JSON", hint="send application/json")
    if len(body) > MAX_BODY:
        raise Fault("TOO_LARGE", f"a body has at most {MAX_BODY} bytes")
    value: object
    if len(body) > LARGE:
        value = (await LargeReading.here().value(body, DEFAULT)).value
    else:
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as cause:
            raise Fault("PARSE_ERROR", f"the body is not JSON: {cause}") from None
        strict(body)
    if not isinstance(value, dict):
        raise Fault("INVALID_PARAMS", "the body must be an object")
    return value


async def _read(request: Request) -> bytes:
    """The body, and no more of it than the bound."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise Fault("TOO_LARGE", f"a body has at most {MAX_BODY} bytes")
    return bytes(body)
