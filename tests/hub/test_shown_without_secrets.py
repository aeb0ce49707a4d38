"""An operator's views have no secrets: the addresses of servers, and their output."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cases import each_case
from interlock.config.settings import ServerSettings
from interlock.events import Bus, EventFilter
from interlock.events.types import LogWritten
from interlock.hub.admin.server_address import where_shown
from interlock.hub.upstreams.logs import Logs, line_of

from .running_hub import RawClient, running_hub, until

TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"


@each_case(
    ("server", "shown"),
    [
        (ServerSettings(command=("uvx", "x-mcp", "--verbose")), "uvx x-mcp --verbose"),
        (
            ServerSettings(command=("x", "--token", "hush", "--api-key=hush", "-v")),
            "x --token '[secret]' '--api-key=[secret]' -v",
        ),
        (ServerSettings(command=("env", "DB_PASSWORD=hush", "x")), "env 'DB_PASSWORD=[secret]' x"),
        (ServerSettings(command=("x", "--password", "--port", "80")), "x --password --port 80"),
        (ServerSettings(command=("x", TOKEN)), "x '[secret: github_token]'"),
        (ServerSettings(url="https://h/mcp?api_key=hush&x=1"), "https://h/mcp?api_key=[secret]&x=1"),
        (ServerSettings(url="https://h/mcp?x=1&y"), "https://h/mcp?x=1&y"),
        (ServerSettings(url="https://h/mcp"), "https://h/mcp"),
    ],
)
def test_where_a_server_is_stands_there_without_secrets(server: ServerSettings, shown: str) -> None:
    assert where_shown(server) == shown


def test_lines_are_read_and_heard_without_secrets() -> None:
    bus = Bus()
    logs, followed = Logs(bus), bus.subscribe(EventFilter.of(LogWritten, sources=frozenset({"s"})))
    logs.add("s", "stderr", f"started with {TOKEN}")
    (event,) = followed.take()
    assert isinstance(event, LogWritten)
    assert [line_of(event)] == logs.tail("s", 5)
    assert event.text == "started with [secret: github_token]"


async def test_t23_the_admin_api_and_the_log_show_no_secret_of_a_servers_settings(tmp_path: Path) -> None:
    script = f"import sys; print('up with {TOKEN}', file=sys.stderr, flush=True); sys.stdin.read()"
    servers = {
        "program": ServerSettings(command=(sys.executable, "-c", script, "--token", "hush-hush-hush")),
        "address": ServerSettings(
            url="http://127.0.0.1:1/mcp?token=hush-hush-hush", headers={"x-key": "hush-hush-hush"}
        ),
    }
    async with running_hub(tmp_path, servers, wait=False) as hub:
        await until(lambda: any("up with" in line.text for line in hub.hub_app.logs.tail("program", 10)))
        admin = RawClient(hub.url + "/admin/status", await hub.new_key("ada", "person"))
        status = json.loads((await admin.send("GET"))[2])
        told = json.dumps(status) + "".join(line.text for line in hub.hub_app.logs.tail(None, 100))
        assert "hush" not in told
        assert TOKEN not in told
