"""The addresses of the console."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.hub.admin.operations import Operations
from interlock.hub.app import HubApp
from interlock.web.console import (
    agents,
    approvals,
    conversations,
    home,
    live,
    rooms,
    server_login,
    servers,
    timeline,
    tools,
)
from interlock.web.console.events import EventStreams
from interlock.web.console.issuer_login import BEGIN, CALLBACK, IssuerLogin
from interlock.web.console.login import ConsoleLogin
from interlock.web.console.page import Console, Page, PublicPage
from interlock.wire.errors import Fault

_STATIC: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


def console_routes(hub_app: HubApp, operations: Operations) -> list[Route]:
    """The routes, for an application to include."""
    console = Console(hub_app, operations)
    login, streams = ConsoleLogin(console), EventStreams(console)
    issuer_login = IssuerLogin(console, login)
    login_page = Page(console, {"GET": server_login.show_state, "POST": server_login.change}, part=True)
    return [
        Route("/console/login", PublicPage(console, {"GET": login.show, "POST": login.log_in})),
        Route(BEGIN, PublicPage(console, {"POST": issuer_login.begin})),
        Route(CALLBACK, PublicPage(console, {"GET": issuer_login.finish})),
        Route(f"{CALLBACK}/{{issuer:path}}", PublicPage(console, {"GET": issuer_login.finish})),
        Route("/console/logout", Page(console, {"POST": login.log_out})),
        Route("/console/static/{name}", PublicPage(console, {"GET": _static_file})),
        Route("/console/approvals", Page(console, {"GET": approvals.show_all})),
        Route("/console/approvals/list", Page(console, {"GET": approvals.show_list}, part=True)),
        Route("/console/approvals/{id}", Page(console, {"GET": approvals.show_one, "POST": approvals.answer})),
        Route("/console/timeline", Page(console, {"GET": timeline.show})),
        Route("/console/timeline/rows", Page(console, {"GET": timeline.show_rows}, part=True)),
        Route("/console/timeline/export", Page(console, {"GET": timeline.export})),
        Route("/console/timeline/{chain}/{seq:int}", Page(console, {"GET": timeline.show_one})),
        Route("/console/servers", Page(console, {"GET": servers.show_all, "POST": servers.add})),
        # Not below `/console/servers`, where every name could be a server's.
        Route("/console/parts/servers", Page(console, {"GET": servers.show_rows}, part=True)),
        Route("/console/servers/{server}", Page(console, {"GET": servers.show_one, "POST": servers.command})),
        Route("/console/servers/{server}/state", Page(console, {"GET": servers.show_state}, part=True)),
        Route("/console/servers/{server}/log", Page(console, {"GET": servers.show_log}, part=True)),
        Route("/console/servers/{server}/tools", Page(console, {"POST": servers.switch_tool})),
        Route("/console/servers/{server}/login", login_page),
        Route("/console/agents", Page(console, {"GET": agents.show_all, "POST": agents.create_key})),
        Route("/console/agents/{agent:path}", Page(console, {"GET": agents.show_one, "POST": agents.change})),
        Route("/console/keys/{name}", Page(console, {"GET": agents.show_key})),
        Route("/console/tools", Page(console, {"GET": tools.show_all})),
        Route("/console/tools/{name}", Page(console, {"GET": tools.show_one, "POST": tools.call})),
        Route("/console/rooms", Page(console, {"GET": rooms.show_all})),
        Route("/console/rooms/{topic}", Page(console, {"GET": rooms.show_one, "POST": rooms.speak})),
        Route("/console/rooms/{topic}/talk", Page(console, {"GET": rooms.show_talk}, part=True)),
        Route("/console/rooms/{topic}/proposals", Page(console, {"GET": rooms.show_proposals}, part=True)),
        Route("/console/live", Page(console, {"GET": live.show, "POST": live.change})),
        Route(
            "/console/live/conversations/{id}",
            Page(console, {"GET": conversations.show_one, "POST": conversations.undo}),
        ),
        Route("/console/live/events", Page(console, {"GET": live.show_events}, part=True)),
        Route("/console/events", Page(console, {"GET": streams.show}, part=True)),
        Route("/console", Page(console, {"GET": home.show})),
        Route("/console/{rest:path}", PublicPage(console, {"GET": _nothing, "POST": _nothing})),
    ]


async def _nothing(request: Request, form: dict[str, str]) -> Response:
    raise Fault("NOT_FOUND", "there is no such page", hint="/console shows all")


async def _static_file(request: Request, form: dict[str, str]) -> Response:
    found = _static_files().get(request.path_params["name"])
    if found is None:
        raise Fault("NOT_FOUND", "there is no such file")
    return Response(found[0], media_type=found[1])


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    """All static files in memory, so that no name from a request reaches the file system."""
    return {file.name: (file.read_bytes(), _TYPES[file.suffix]) for file in _STATIC.iterdir() if file.suffix in _TYPES}
