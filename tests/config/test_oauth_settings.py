"""`[hub.oauth]` is checked when it is read, and what it means for who may come in without a credential."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from interlock.config.load import load
from interlock.config.settings import Config, HubSettings, OAuthSettings
from interlock.hub.cannot_start import CannotStart
from interlock.web.run import serve

GOOD = """
[hub.oauth]
issuer = "https://login.example.com"
jwks_url = "https://login.example.com/keys"
"""


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "interlock.toml"
    path.write_text(text)
    return [problem.message for problem in load(path, home=tmp_path / "home", environ={}).problems]


def test_an_issuer_and_its_keys_are_enough_on_loopback(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('issuer = "http://login.example.com"', "must begin with https://"),
        ('issuer = "https://login.example.com/#x"', "without a query or fragment"),
        ('issuer = "https://a:b@login.example.com"', "contains credentials"),
        ('jwks_url = "file:///etc/passwd"', "must begin with https://"),
        ('jwks_url = "http://10.0.0.1/keys"', "must begin with https://"),
        ('resource = "https://hub.example.com?x=1"', "without a query or fragment"),
        ('resource = "https://hub.example.com/\\"x"', "characters that are not allowed"),
        ('jwks_file = "/tmp/keys.json"', "has both"),
        ('algorithms = ["none"]', "must be one of"),
        ('algorithms = ["HS256"]', "must be one of"),
        ("algorithms = []", "no token would be accepted"),
        ('scopes = { tools = ["everything"] }', "is no permission"),
        ('scopes = { "a b" = ["list_all"] }', "is not a scope"),
        ('kind = "admin"', "must be one of"),
        ('profile = "nobody"', "there is no profile"),
        ('isuer = "x"', "unknown setting `isuer`"),
    ],
)
def test_unsafe_or_useless_settings_are_reported_at_start(tmp_path: Path, line: str, said: str) -> None:
    name = line.partition(" ")[0]
    kept = [kept for kept in GOOD.splitlines() if not kept.startswith(name + " ")]
    found = problems(tmp_path, "\n".join([*kept, line]))
    assert any(said in message for message in found), found


def test_an_issuer_must_be_named_and_its_keys_need_not_be(tmp_path: Path) -> None:
    assert problems(tmp_path, '[hub.oauth]\nissuer = "https://a.example"') == []
    assert "names no issuer" in problems(tmp_path, '[hub.oauth]\njwks_url = "https://a.example"')[0]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('issuer = "https://second.example.com"', None),
        ('issuer = "https://login.example.com"', "is configured twice"),
        ('jwks_url = "https://second.example.com/keys"', "[hub.oauth.issuers.b] names no issuer"),
        ('issuer = "http://second.example.com"', "must begin with https://"),
        ('issuer = "https://second.example.com"\nprofile = "nobody"', "there is no profile"),
        ('issuer = "https://second.example.com"\njwks_uri = "x"', "unknown field"),
        ('issuer = "https://second.example.com"\nresource = "https://x.example"', "unknown field"),
    ],
)
def test_further_issuers_are_checked_like_the_first(tmp_path: Path, lines: str, said: str | None) -> None:
    found = problems(tmp_path, f"{GOOD}\n[hub.oauth.issuers.b]\n{lines}")
    assert (found == []) if said is None else any(said in message for message in found), found


def test_a_hub_may_name_its_issuers_in_tables_of_their_own_alone(tmp_path: Path) -> None:
    text = '[hub.oauth.issuers.a]\nissuer = "https://a.example"\n[hub.oauth.issuers.b]\nissuer = "https://b.example"'
    assert problems(tmp_path, text) == []


def test_a_hub_beyond_loopback_needs_its_address_for_tokens(tmp_path: Path) -> None:
    beyond = f'[hub]\nlisten = "0.0.0.0:7420"\n{GOOD}'
    assert "this hub's own address is not set" in problems(tmp_path, beyond)[0]
    assert problems(tmp_path, beyond + 'resource = "https://hub.example.com"') == []


def test_an_agent_may_be_the_subject_of_a_token(tmp_path: Path) -> None:
    assert problems(tmp_path, GOOD + '[agents."https://login.example.com#alice"]\nask = ["**"]') == []
    assert "may contain only" in problems(tmp_path, GOOD + '[agents."alice#x"]')[0]


def test_with_an_issuer_nobody_is_anonymous_unless_the_operator_says_so() -> None:
    oauth = OAuthSettings(issuer="https://login.example.com")
    assert HubSettings().admits_anonymous
    assert not HubSettings(oauth=oauth).admits_anonymous
    assert HubSettings(oauth=oauth, anonymous=True).admits_anonymous
    assert not HubSettings(listen="0.0.0.0:0").admits_anonymous


async def test_a_hub_beyond_this_machine_does_not_start_without_authentication(tmp_path: Path) -> None:
    config = Config(hub=HubSettings(listen="0.0.0.0:0", anonymous=True))
    with pytest.raises(CannotStart, match="needs keys"):
        await serve(config, tmp_path, lambda ready: None)
    assert "without a key" in problems(tmp_path, '[hub]\nlisten = "0.0.0.0:0"\nanonymous = true')[0]


async def test_a_hub_that_cannot_check_tokens_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    without = lambda name, *rest: None if name == "joserfc" else found(name, *rest)  # noqa: E731
    monkeypatch.setattr("interlock.hub.auth.oauth.token_authentication.find_spec", without)
    with pytest.raises(CannotStart, match=r"\[hub.oauth\] needs a package"):
        await serve(
            Config(hub=HubSettings(oauth=OAuthSettings(issuer="https://a.example"))), tmp_path, lambda ready: None
        )
