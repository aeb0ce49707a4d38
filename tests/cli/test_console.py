"""`interlock console` with a real hub at a real terminal: the code reaches the browser, and no list of processes."""

from __future__ import annotations

import ast
import re
import stat
import sys
from http.client import HTTPConnection

from interlock.cli.control.hub_link import HubLink

from .conftest import User
from .on_terminal import on_terminal

BROWSER = """\
import os, pathlib, sys, urllib.parse
file = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[1]).path))
seen = {"argv": sys.argv[1:], "mode": file.stat().st_mode, "text": file.read_text()}
pathlib.Path(os.environ["SEEN"]).write_text(repr(seen))
"""


def test_t52_a_browser_opens_with_a_code_that_no_list_of_processes_shows(user: User) -> None:
    user.configure()
    browser, seen = user.root / "browser.py", user.root / "seen"
    browser.write_text(BROWSER)
    user.environ |= {"DISPLAY": ":9", "BROWSER": f"{sys.executable} {browser} %s", "SEEN": str(seen)}
    assert user.finished("up", "-d")[0] == 0
    shown = on_terminal(user, "console")
    url = re.search(r"http://hub-[a-z2-7]{12}\.localhost:\d+/console", shown)
    code = re.search(r"[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}", shown)
    assert url is not None
    assert code is not None
    found = ast.literal_eval(seen.read_text())
    assert code[0] not in str(found["argv"])
    assert stat.S_IMODE(found["mode"]) == 0o600
    assert f"{url[0]}/login#code={code[0]}" in found["text"]
    assert not (user.home / "run" / "console.html").exists()
    assert _redeem(user, url[0], code[0]) == 303
    assert code[0] not in (user.home / "run" / "hub.log").read_text()
    user.finished("down")


def _redeem(user: User, url: str, code: str) -> int:
    """The status of a login with a code."""
    with HubLink.open(user.home) as link:
        listen = link.ask("hub/status")["listen"]
    headers = {"host": url.split("/")[2], "content-type": "application/x-www-form-urlencoded"}
    connection = HTTPConnection(listen)
    try:
        connection.request("POST", "/console/login", f"code={code}", headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_without_a_terminal_there_is_no_code(user: User) -> None:
    done = user.run("console")
    assert done.exit_code == 5
    assert "only a person at a terminal" in done.stderr
