"""Logins to servers from the console: the page that a person continues at, and whether the login is complete.

The page names the host that a person is sent to. A form cannot redirect there: `form-action` forbids other sites.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit

from starlette.responses import RedirectResponse, Response

from interlock.hub.admin.logins import DevicePage, LoginList, LoginPage, LoginState
from interlock.hub.upstreams.logins import LoginRow
from interlock.web.console.page import Visit
from interlock.wire.errors import Fault
from interlock.wire.web_pages import is_web_page


async def change(visit: Visit) -> Response:
    """Begin, complete or end a login."""
    server, form = server_of(visit), visit.form
    subject = {"server": server, "principal": form.get("principal", "").strip()}
    match form.get("command", ""):
        case "begin":
            page = await visit.perform("logins.begin", LoginPage, **subject)
            return await _page(visit, page.url, "", {"state": page.state})
        case "device":
            device = await visit.perform("logins.device", DevicePage, **subject)
            return await _page(visit, device.url, device.user_code, {"device": device.id})
        case "finish":
            await visit.perform("logins.finish", LoginState, callback=form.get("callback", "").strip())
        case "remove":
            await visit.perform("logins.remove", LoginState, **subject)
        case _:
            raise Fault("INVALID_PARAMS", "no such command", hint="one of begin, device, finish, remove")
    return RedirectResponse(f"/console/servers/{quote(server, safe='')}", 303)


async def show_state(visit: Visit) -> Response:
    """Whether a login is complete, for a page that is open."""
    server, query = server_of(visit), visit.request.query_params
    if id_ := query.get("device", ""):
        done: bool | None = (await visit.perform("logins.poll", LoginState, id=id_, server=server)).done
        waits = {"device": id_}
    else:
        waits = {"state": query.get("state", "")}
        done = await _done(visit, waits["state"])
    return await visit.page("server_login_state.html", server=server, done=done, waits=urlencode(waits))


async def logins_of(visit: Visit, server: str) -> list[LoginRow]:
    """The logins to one server."""
    found = await visit.perform("logins.list", LoginList)
    return [row for row in found.logins if row.server == server]


def server_of(visit: Visit) -> str:
    """The server in the address."""
    return str(visit.request.path_params["server"])[:200]


async def _done(visit: Visit, state: str) -> bool | None:
    """Wait a while for a login. None for one that the hub does not know any more."""
    try:
        return (await visit.perform("logins.wait", LoginState, state=state)).done
    except Fault as fault:
        if fault.name != "NOT_FOUND":
            raise
        return None


async def _page(visit: Visit, url: str, code: str, waits: dict[str, str]) -> Response:
    if not is_web_page(url):
        raise Fault("UPSTREAM_ERROR", "the login page of the server is not at a web address")
    return await visit.page(
        "server_login.html",
        server=server_of(visit),
        url=url,
        host=urlsplit(url).netloc.rpartition("@")[2],
        code=code,
        done=False,
        waits=urlencode(waits),
    )
