"""The routes of the admin API, made from the table of operations. Errors have the same bodies as in the REST API.

Every request needs a key or token with the right, on loopback too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.hub.admin.operation import READ, WRITE, Operation, Right
from interlock.hub.admin.operations import Operations
from interlock.hub.admin.table import OPERATIONS
from interlock.hub.app import HubApp
from interlock.hub.auth.principals import LOCAL_AGENT, Principal
from interlock.hub.calls.call import Caller
from interlock.process.turns import pieces_in_turns
from interlock.transports.large_reading import LargeReading
from interlock.web.admin.document import paths
from interlock.web.rest.outcomes import RequestInfo, good_answer
from interlock.web.rest.routes import ENTRANCE, RestRoute, RouteHandler
from interlock.wire.errors import Fault
from interlock.wire.json_values import JSON_ERRORS
from interlock.wire.large import LARGE
from interlock.wire.limits import DEFAULT
from interlock.wire.payload_checks import strict

MAX_BODY: Final = 1024 * 1024


def admin_routes(hub_app: HubApp, operations: Operations) -> list[Route]:
    """The routes, a specific path before a general one that matches it too."""
    by_path: dict[str, dict[str, RouteHandler]] = {}
    for operation in OPERATIONS.values():
        if operation.path:
            by_path.setdefault(operation.path, {})[operation.verb] = _Endpoint(operation, hub_app, operations)
    ordered = sorted(by_path, key=lambda path: (path.count("{"), -len(path)))
    served = {path: RestRoute(by_path[path]) for path in ordered}
    # A principal's name may contain slashes and end like another path. The HTTP method distinguishes them.
    named = [Route(_wide(path), served[path], methods=[*by_path[path]]) for path in ordered if "{agent}" in path]
    return [*named, *(Route(_wide(path), served[path]) for path in ordered)]


def _wide(path: str) -> str:
    return path.replace("{agent}", "{agent:path}").replace("participants/{id}", "participants/{id:path}")


def admin_paths(hub_app: HubApp) -> Callable[[Caller], dict[str, object]]:
    """The admin paths in a caller's OpenAPI document."""

    def paths_for(caller: Caller) -> dict[str, object]:
        principal, rights = caller.principal, hub_app.access.rights(caller.principal)
        if principal == LOCAL_AGENT or rights is None:
            return {}
        may: dict[Right, bool] = {READ: rights.admin_read, WRITE: rights.admin_write and principal.decides}
        return paths(frozenset(right for right, has in may.items() if has))

    return paths_for


class _Endpoint:
    """Answers one address."""

    def __init__(self, operation: Operation, hub_app: HubApp, operations: Operations) -> None:
        self._operation = operation
        self._authenticator = hub_app.authenticator
        self._operations = operations

    async def __call__(self, request: Request, where: RequestInfo) -> Response:
        principal = await self._authenticate(request)
        # Check the right before the body is read, so that a caller without it learns nothing about the parameters.
        self._operations.demand(principal, self._operation, where.trace_id)
        params = await self._params(request)
        result = await self._operations.perform(principal, self._operation.name, params, where.trace_id)
        return good_answer(await pieces_in_turns(result), where)

    async def _authenticate(self, request: Request) -> Principal:
        caller = await self._authenticator.admit_in_time(ENTRANCE, dict(request.scope["headers"]))
        if caller.principal == LOCAL_AGENT:
            hint = "send `Authorization: Bearer KEY`; `interlock keys create NAME --kind person` makes one"
            raise Fault("AUTH_REQUIRED", "the admin API needs a key, also on this machine", hint=hint)
        return caller.principal

    async def _params(self, request: Request) -> bytes:
        """The params as JSON, from the path and from query or body. A parameter that is given twice is refused."""
        texts, kinds = dict(request.path_params), self._operation.api_fields()
        given: dict[str, msgspec.Raw] = {}
        texts |= request.query_params
        if len(request.query_params.multi_items()) + len(request.path_params) != len(texts):
            raise Fault("INVALID_PARAMS", "a parameter is given twice")
        if self._operation.verb == "POST":
            given = await _body(request)
        if both := texts.keys() & given.keys():
            raise Fault("INVALID_PARAMS", f"{sorted(both)[0]!r} is already given in the address")
        if unknown := sorted((texts.keys() | given.keys()) - kinds.keys()):
            hint = f"one of {', '.join(sorted(kinds))}" if kinds else "there are none"
            raise Fault("INVALID_PARAMS", f"no parameter {unknown[0][:100]!r}", hint=hint)
        try:
            values = {name: msgspec.convert(text, kinds[name], strict=False) for name, text in texts.items()}
        except msgspec.ValidationError as cause:
            raise Fault("INVALID_PARAMS", str(cause)) from None
        return msgspec.json.encode({**values, **given})


async def _body(request: Request) -> dict[str, msgspec.Raw]:
    body = await _read(request)
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Fault("UNSUPPORTED_MEDIA_TYPE", "the body must be JSON", hint="send application/json")
    if len(body) > LARGE:
        await LargeReading.here().value("admin", body, DEFAULT)
    try:
        value = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise Fault("INVALID_PARAMS", "the body must be an object") from None
    except JSON_ERRORS as cause:
        raise Fault("PARSE_ERROR", f"the body is not JSON: {cause}") from None
    if len(body) <= LARGE:
        strict(body)
    return value


async def _read(request: Request) -> bytes:
    """The body. Raises TOO_LARGE beyond the bound."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY:
            raise Fault("TOO_LARGE", f"a body has at most {MAX_BODY} bytes")
    return bytes(body)
