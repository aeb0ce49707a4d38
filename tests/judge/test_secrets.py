"""Secrets are recognised and redacted; placeholders and words about secrets are not."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.secrets import FORMS, SHORTEST, find_secrets, judge_secrets, redact

# Put together here, so that nobody's scanner takes this file for a leak.
SECRETS = {
    "github_token": "gh" + "p_" + "a1B2" * 9,
    "gitlab_token": "glpat" + "-" + "a1B2c3D4e5" * 2,
    "aws_access_key": "AKIA" + "ABCDEFGH234567YZ",
    "slack_token": "xox" + "b-" + "1234567890-abcdefghij",
    "stripe_key": "sk" + "_live_" + "a1B2" * 6,
    "google_key": "AIza" + "a1B2_" * 7,
    "anthropic_key": "sk-" + "ant-api03-" + "a1B2" * 8,
    "openai_key": "sk-" + "proj-" + "a1B2" * 10,
    "huggingface_token": "hf" + "_" + "a1B2" * 9,
    "npm_token": "npm" + "_" + "a1B2" * 9,
    "json_web_token": "eyJ" + "hbGciOiJI" + ".eyJ" + "zdWIiOiIx" + "." + "c2lnbmF0dXJl",
    "telegram_token": "123456789" + ":AA" + "a1B2_c3D4" * 3 + "a1B2c3D4",
    "private_key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
}


@each_case(("kind", "secret"), SECRETS.items())
def test_a_secret_is_recognised_by_its_form(kind: str, secret: str) -> None:
    text = f"été {secret} end"
    assert [found.kind for found in find_secrets(text)] == [kind]
    assert redact(text) == f"été [secret: {kind}] end"


@each_case(
    ("text", "redacted"),
    [
        ("postgres://bob:hunter2x@db/x", "postgres://bob:[secret: url_password]@db/x"),
        ("Authorization: Bearer abcDEF123456789xyz", "Authorization: Bearer [secret: authorization]"),
        ('{"password": "tr0ub4dor&3x"}', '{"password": "[secret: assigned_secret]"}'),
        ("API_KEY=aB3dE5fG7hJ9", "API_KEY=[secret: assigned_secret]"),
        ("client-secret: 9f8e7d6c5b4a3210", "client-secret: [secret: assigned_secret]"),
    ],
)
def test_a_secret_is_recognised_by_its_name(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@each_case(
    "text",
    [
        *("password: string", "api_key=YOUR_API_KEY", "token: <token>", "secret=${SECRET}", "password=********"),
        *(
            "The password must have 12 characters.",
            "https://user:password@example.org/",
            "Bearer tokens are sent.",
            "sk-...",
        ),
        *(
            "api_key: the key to use",
            "postgres://user:xxx@host/db",
            "git@github.com:a/b.git",
            "AccountKey=",
            "eyJhbGciOi",
        ),
    ],
)
def test_words_about_secrets_and_placeholders_are_left_alone(text: str) -> None:
    assert find_secrets(text) == ()
    assert redact(text) == text


def test_no_text_is_too_short_to_be_searched_for_the_shortest_secret() -> None:
    parse = re._parser.parse  # type: ignore[attr-defined]
    widths = {kind: parse(form.replace(r"\z", r"\Z")).getwidth()[0] for kind, form in FORMS}
    assert min(widths.values()) == SHORTEST
    shortest = "ab://:" + "x1y" + "@z"
    assert len(shortest) == SHORTEST
    assert redact(shortest) == "ab://:[secret: url_password]@z"


def test_a_finding_never_repeats_the_secret() -> None:
    secret = SECRETS["github_token"]
    (finding,) = judge_secrets(f"key {secret}")
    assert secret not in finding.message
    assert finding.span == (4, 4 + len(secret))


def test_a_key_that_never_ends_is_redacted_to_the_end() -> None:
    assert redact("a " + SECRETS["private_key"].partition("\n")[0] + "\nMIIE") == "a [secret: private_key]"


@given(st.text(max_size=60), st.sampled_from(sorted(SECRETS)), st.text(max_size=60))
def test_whatever_stands_around_it_a_secret_does_not_survive_redaction(before: str, kind: str, after: str) -> None:
    secret = SECRETS[kind]
    assert secret not in redact(f"{before} {secret} {after}")


@given(st.text(max_size=200))
def test_places_are_places_in_the_text(text: str) -> None:
    assert all(0 <= start < end <= len(text) for _, start, end in find_secrets(text))
    redact(text)
