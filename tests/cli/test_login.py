"""`login` and `logout` at the terminal: what they ask of the hub, and what they show."""

from __future__ import annotations

import json

from .conftest import User
from .fake_hub import FakeHub

PAGE = {"url": "https://login.example/\x1b[2Jauthorize?state=s", "state": "s", "redirect_uri": "http://127.0.0.1:1/cb"}


def test_a_login_shows_the_page_and_waits_until_the_hub_has_the_tokens(user: User, hub: FakeHub) -> None:
    answers = iter([{"done": False, "wait_s": 0}, {"done": True, "wait_s": 0}])
    hub.answers["hub/logins.begin"] = PAGE
    hub.answers["hub/logins.wait"] = lambda params: next(answers)
    result = user.run("login", "docs", "--no-open", "--for", "agent:ada")
    assert result.exit_code == 0, result.output
    assert "https://login.example/\\u001b[2Jauthorize" in result.output
    assert "Logged in to docs" in result.output
    assert hub.params_of("hub/logins.begin") == [{"server": "docs", "principal": "agent:ada"}]
    assert hub.params_of("hub/logins.wait") == [{"state": "s"}] * 2


def test_the_address_of_a_browser_is_read_from_a_pipe(user: User, hub: FakeHub) -> None:
    hub.answers["hub/logins.begin"] = PAGE
    hub.answers["hub/logins.finish"] = {"done": True, "wait_s": 0}
    came = user.run("login", "docs", "--no-open", "--paste", stdin="http://127.0.0.1:1/cb?code=c\n")
    assert (came.exit_code, "echoed" in came.output) == (0, False), came.output
    assert hub.params_of("hub/logins.finish") == [{"callback": "http://127.0.0.1:1/cb?code=c"}]
    nothing = user.run("login", "docs", "--no-open", "--paste", stdin="")
    assert (nothing.exit_code, "standard input has no address" in nothing.stderr) == (2, True)
    assert user.run("login", "docs", "--device", "--paste").exit_code == 2


def test_a_code_is_shown_and_asked_about_until_it_was_typed(user: User, hub: FakeHub) -> None:
    answers = iter([{"done": False, "wait_s": 0.01}, {"done": True, "wait_s": 0}])
    hub.answers["hub/logins.device"] = {
        "id": "d",
        "user_code": "AB-CD",
        "url": "https://login.example",
        "interval": 0.01,
    }
    hub.answers["hub/logins.poll"] = lambda params: next(answers)
    result = user.run("login", "docs", "--device", "--json")
    assert result.exit_code == 0, result.output
    assert "AB-CD" in result.stderr
    assert json.loads(result.stdout) == {"server": "docs", "logged_in": True}
    assert hub.params_of("hub/logins.poll") == [{"id": "d", "server": "docs"}] * 2


def test_logins_are_listed_and_ended(user: User, hub: FakeHub) -> None:
    rows = [{"server": "docs", "principal": "", "issuer": "https://login.example"}]
    hub.answers["hub/logins.list"] = {"logins": rows}
    hub.answers["hub/logins.remove"] = {"done": True, "wait_s": 0}
    assert "all callers" in user.run("login").output
    assert json.loads(user.run("login", "--json").stdout) == rows
    assert "Logged out of docs" in user.run("logout", "docs").output
    assert (
        "`interlock login docs --for agent:ada` logs in again"
        in user.run("logout", "docs", "--for", "agent:ada").output
    )
    hub.answers["hub/logins.remove"] = {"done": False, "wait_s": 0}
    assert "Nobody was logged in to docs" in user.run("logout", "docs").output
    ada = {"server": "docs", "principal": "agent:ada"}
    assert hub.params_of("hub/logins.remove") == [{"server": "docs"}, ada, {"server": "docs"}]


def test_a_call_that_needs_a_login_of_its_caller_names_that_login(user: User, hub: FakeHub) -> None:
    refusal = {"name": "LOGIN_REQUIRED", "hint": "run `interlock login docs --for agent:ada`"}
    result = {"content": [], "isError": True, "_meta": {"dev.interlock/error": refusal}}
    hub.answers["hub/call"] = {"result": result}
    assert "run `interlock login docs --for agent:ada`, then this again" in user.run("call", "docs__whoami").stderr


def test_a_host_that_cannot_be_reached_is_said_with_the_setting_to_check(user: User, hub: FakeHub) -> None:
    problem = "cannot connect to nohost.invalid: nohost.invalid does not resolve."
    hub.answers["hub/logins.begin"] = {"error": {"code": -32603, "message": problem, "data": {}}}
    result = user.run("login", "github")
    assert result.exit_code == 1
    assert problem in result.stderr
    assert "check the `url` of [servers.github]" in result.stderr
