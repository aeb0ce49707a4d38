"""Login with a code of `interlock console` or a person's key, and logout. `issuer_login.py` has the third way."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from interlock.hub.audit.entries import NOBODY
from interlock.hub.auth.principals import Principal
from interlock.protocols.traces import new_trace_id
from interlock.web.console.page import COOKIE, LOGIN, Console, Visit
from interlock.web.console.rendering import render
from interlock.web.console.sessions import LIFE_S
from interlock.wire.errors import Fault

HOME = "/console"


class ConsoleLogin:
    """The login of one console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._journal = console.hub_app.journal

    async def show(self, request: Request, form: dict[str, str]) -> Response:
        """The login form, or the first page for a browser that is logged in."""
        if self._console.session_of(request, active=True) is not None:
            return RedirectResponse(HOME, 303)
        return await self._page("")

    async def log_in(self, request: Request, form: dict[str, str]) -> Response:
        """Redeem a code, or check a key."""
        self.demand_https(request)
        way = "code" if form.get("code") else "key"
        try:
            principal, proven = self._principal(form)
        except Fault as fault:
            return await self.refuse(request, fault)
        return self.open_session(request, principal, way, RedirectResponse(HOME, 303), proven=proven)

    def demand_https(self, request: Request) -> None:
        """Refuse a login over plain HTTP from another machine. Raises ACCESS_DENIED."""
        local = self._console.is_local(request)
        if not local and not request.headers.get("origin", "").lower().startswith("https://"):
            message = "the console of another machine needs HTTPS"
            raise Fault(
                "ACCESS_DENIED", message, hint="put a proxy with HTTPS before the hub, or use `interlock watch`"
            )

    def demand_few_failures(self, request: Request, way: str) -> None:
        """Raise RATE_LIMITED after too many failures of this address, for a kind of login that costs other parties."""
        self._console.attempts.demand(_address(request) + way)

    async def refuse(self, request: Request, fault: Fault, way: str = "") -> Response:
        """Count and record a failed login, and show the form again. Each kind of login (`way`) has its own count.

        Raises RATE_LIMITED after too many failures of this address. A right credential is always accepted: behind a
        proxy all people share one address, and a stranger's failures must not lock them out.
        """
        self._console.attempts.demand(_address(request) + way)
        self._console.attempts.failed(_address(request) + way)
        self._journal.refused(NOBODY, "console.login", Fault("ACCESS_DENIED", fault.message), new_trace_id())
        return await self.show_refusal(fault)

    async def show_refusal(self, fault: Fault) -> Response:
        """The form again, with the reason."""
        return await self._page(f"{fault.message}. {fault.hint}".strip(), 403)

    def open_session(
        self, request: Request, principal: Principal, way: str, response: Response, *, proven: bool
    ) -> Response:
        """Begin a session, whose cookie the response brings."""
        self._journal.operated(principal, "console.login", "", f"with a {way}", new_trace_id())
        response.set_cookie(
            COOKIE,
            self._console.sessions.open(principal, proven=proven),
            max_age=LIFE_S,
            path=HOME,
            secure=not self._console.is_local(request),
            httponly=True,
            samesite="strict",
        )
        return response

    async def log_out(self, visit: Visit) -> Response:
        """End the session."""
        self._console.sessions.end(visit.session)
        self._journal.operated(visit.session.principal, "console.logout", "", "", new_trace_id())
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(COOKIE, path=HOME, httponly=True, samesite="strict")
        return response

    async def _page(self, problem: str, status: int = 200) -> Response:
        oauth = self._console.hub_app.oauth
        every = () if oauth is None else oauth.settings.every
        issuers = [issuer.issuer for issuer in every if issuer.console_client_id is not None]
        return HTMLResponse(await render("login.html", {"problem": problem, "person": "", "issuers": issuers}), status)

    def _principal(self, form: dict[str, str]) -> tuple[Principal, bool]:
        """The principal that logs in, and whether it has proven itself with a key or the passphrase."""
        operations = self._console.operations
        if code := form.get("code"):
            if (made := operations.console.codes.redeem(code)) is None:
                hint = "Run `interlock console` for a new one."
                raise Fault("ACCESS_DENIED", "This code is wrong, used or older than a minute", hint=hint)
            return operations.hub_user, made.proven
        principal = self._console.hub_app.keys.principal(form.get("key", "").strip())
        if principal is None:
            raise Fault("ACCESS_DENIED", "This key is not known")
        if principal.kind != "person":
            raise Fault("ACCESS_DENIED", "The console is for people, and this is the key of another kind of principal")
        return principal, True


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host
