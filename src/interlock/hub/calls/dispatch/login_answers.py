"""The answer to a call whose server needs a login: a page to open where the client can, else a result that says how."""

from __future__ import annotations

import secrets

import msgspec

from interlock.hub.calls.bridges import url_elicitation
from interlock.hub.calls.call import Call
from interlock.hub.upstreams.upstream import Upstream
from interlock.protocols.mcp.error_translation import URL_FIRST
from interlock.protocols.mcp.results import refusal_result
from interlock.wire.errors import ErrorObject, Fault


def answer_with_login(call: Call, fault: Fault, upstream: Upstream | None) -> None:
    """Answer a call with how to log in. The challenge of the server stays in the hub."""
    server, exchange = call.target.server, call.exchange
    dialect = exchange.dialect
    message = f"{server} needs a login"
    page = None
    if upstream is not None and dialect.capabilities.elicitation_url:
        page = upstream.login_page(call.caller.principal_name, call.caller.principal)
    if page is None:
        refusal = Fault("LOGIN_REQUIRED", message, hint=fault.hint)
        if call.target.kind == "tool" and not dialect.rest:
            exchange.result(refusal_result(refusal, modern=dialect.modern, error_dialect=dialect.error_dialect))
        else:
            exchange.fail(refusal)
        return
    elicitation = {"mode": "url", "elicitationId": secrets.token_urlsafe(12), "url": page, "message": message}
    data = {"elicitations": [elicitation]}
    if dialect.modern:
        error = ErrorObject(URL_FIRST, message, msgspec.Raw(msgspec.json.encode(data)))
        question = url_elicitation.as_question(error, dialect.capabilities)
        assert question is not None
        exchange.result(question)
    else:
        exchange.fail(Fault("URL_ELICITATION_REQUIRED", message, hint=fault.hint, data=data))
