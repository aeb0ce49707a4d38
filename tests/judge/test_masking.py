"""Masking replaces secrets and chosen patterns, and gives the same text however the text was cut into pieces."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.masking import MAX_HELD_CHARS, MaskedStream, Masker
from interlock.judge.regexes import RegexError

GITHUB = "ghp_" + "a1B2" * 9
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlLWhlcmU"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow" + "Ab9+/" * 40 + "\n-----END RSA PRIVATE KEY-----"
CARD = "4111 1111 1111 1111"
SECRETS = [GITHUB, JWT, KEY, CARD, "ada@example.org", "hunter2hunter2Z", "c29tZXRoaW5nIGxvbmc", "EMP-123456"]
PIECES = [
    *SECRETS, "password: ", 'api_key="', '"', "Authorization: Bearer ", "bearer ", "https://u:", "@host/ ", " ", "\n",
    "ü", "4111 ", "1111-", "the secret is ", "-----BEGIN ", "word", ", ", "x" * 50, "1", "=", "eyJ",
]  # fmt: skip
MASKER = Masker(("email", "card"), {"employee": r"EMP-[0-9]{6}"})
MASKS = re.compile(r"(?:\[masked: \w+\])+")
PLAIN = Masker(("email", "card"))


def streamed(masker: Masker, text: str, cuts: list[int]) -> tuple[str, dict[str, int]]:
    stream = MaskedStream(masker)
    bounds = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    parts = [stream.feed(text[start:end]) for start, end in pairwise(bounds)]
    return "".join(parts) + stream.end(), dict(stream.counts)


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(0, 3000), max_size=8), st.booleans())
@example(["password: ", "hunter2hunter2Z"], [12], False)
@example([KEY, "word"], [40, 120, 180, 210, 240], False)
def test_pieces_are_masked_as_the_whole_is(parts: list[str], cuts: list[int], own: bool) -> None:
    text, masker = "".join(parts), MASKER if own else PLAIN
    whole = masker.mask(text)
    shown, counts = streamed(masker, text, cuts)
    # Two secrets that overlap at a cut are two masks in a row, instead of one.
    assert MASKS.sub("#", shown) == MASKS.sub("#", whole.text)
    assert counts.keys() >= whole.counts.keys()


@each_case("secret", SECRETS)
@each_case("before", ["say: ", 'password="', "Authorization: Bearer "])
def test_t120_no_secret_slips_through_wherever_it_is_cut(before: str, secret: str) -> None:
    text = f'{before}{secret}" and so on'
    if secret.startswith(("hunter", "c29t")) and before == "say: ":
        return
    for at in range(1, len(text)):
        assert secret not in streamed(MASKER, text, [at])[0]
    assert secret not in streamed(MASKER, text, list(range(len(text))))[0]


def test_ordinary_text_is_shown_word_by_word() -> None:
    stream = MaskedStream(PLAIN)
    assert stream.feed("The tide stands at 2.4 m in Bre") == "The tide stands at 2.4 m in "
    assert stream.feed("st. ") == "Brest. "
    assert stream.end() == ""


def test_a_word_without_an_end_is_held_no_further_than_the_bound() -> None:
    stream = MaskedStream(PLAIN)
    shown = "".join(stream.feed("A" * 1000) for _ in range(200))
    assert 200_000 - MAX_HELD_CHARS - 1000 <= len(shown) <= 200_000
    token = MaskedStream(PLAIN)
    text = (
        token.feed("eyJ" + "a" * MAX_HELD_CHARS)
        + token.feed("b" * 1000 + ".eyJ" + "c" * 30 + ".sig")
        + token.feed(" .")
    )
    assert text + token.end() == "[masked: json_web_token] ."


def test_values_are_masked_with_their_names_and_numbers() -> None:
    value = {
        "password": "hunter2hunter2Z",
        "count": 7,
        "card": 4111111111111111,
        "list": [GITHUB, None, True],
        GITHUB: 1,
    }
    masked, counts = PLAIN.mask_value(value)
    assert masked == {
        "password": "[masked: assigned_secret]",
        "count": 7,
        "card": "[masked: card]",
        "list": ["[masked: github_token]", None, True],
        "[masked: github_token]": 1,
    }
    assert counts == {"assigned_secret": 1, "card": 1, "github_token": 2}


def test_more_secrets_than_any_finding_lists_are_all_masked() -> None:
    assert GITHUB not in PLAIN.mask(f"{GITHUB} " * 3000).text


def test_a_pattern_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(RegexError):
        Masker(("postcode",))
    with pytest.raises(RegexError):
        Masker((), {"bad": r"(?=x)"})


def test_a_number_without_its_check_digit_is_no_card() -> None:
    assert PLAIN.mask("4111 1111 1111 1112 0000000000000000").counts == {}
