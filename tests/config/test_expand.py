"""Variables in configured values: filled once, only those written there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.config.expand import expand, literal, variables_in

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="$"), max_size=8)


@each_case(
    ("text", "filled"),
    [
        ("${A}", "1"),
        ("${env:A}", "1"),
        ("x${A}y${A}z", "x1y1z"),
        ("${NONE:-dflt}", "dflt"),
        ("${EMPTY:-dflt}", "dflt"),
        ("${EMPTY}", ""),
        ("${A:-dflt}", "1"),
        ("${env:NONE:-}", ""),
        ("$A and $(A) and %A%", "$A and $(A) and %A%"),
        ("$${A}", "${A}"),
        ("${A", "${A"),
    ],
)
def test_a_variable_is_filled_in(text: str, filled: str) -> None:
    result = expand(text, {"A": "1", "EMPTY": ""})
    assert (result.text, result.missing, result.unreadable) == (filled, (), ())


def test_a_missing_variable_is_named_and_left_as_written() -> None:
    result = expand("${A}${env:B}${A}", {})
    assert result.missing == ("A", "B")
    assert result.text == "${A}${env:B}${A}"


@each_case("text", ["${}", "${A-B}", "${input:x}", "${env:}", "${1}", "${a.b}"])
def test_text_that_only_looks_like_a_variable_is_reported(text: str) -> None:
    assert expand(text, {"A": "1"}).unreadable == (text,)


@given(st.lists(PLAIN | NAMES.map(lambda name: (name,)), max_size=6), st.dictionaries(NAMES, st.text(max_size=12)))
def test_variables_are_expanded_in_one_pass(pieces: list[str | tuple[str]], variables: dict[str, str]) -> None:
    """The model fills each piece by itself, so no value can ever be read again for further variables."""
    text = "".join(piece if isinstance(piece, str) else f"${{{piece[0]}}}" for piece in pieces)
    model = "".join(
        piece if isinstance(piece, str) else variables.get(piece[0], f"${{{piece[0]}}}") for piece in pieces
    )
    result = expand(text, variables)
    assert result.text == model
    assert set(result.missing) == {piece[0] for piece in pieces if not isinstance(piece, str)} - set(variables)


@given(st.text(st.sampled_from("${}AB:-env"), max_size=12), st.dictionaries(NAMES, st.text()))
def test_literal_text_is_not_expanded(text: str, variables: dict[str, str]) -> None:
    result = expand(literal(text), variables)
    assert (result.text, result.missing, result.unreadable) == (text, (), ())


@given(st.text(max_size=30), st.dictionaries(NAMES, st.text()))
def test_only_names_written_in_the_value_are_looked_up(text: str, variables: dict[str, str]) -> None:
    written = {name: value for name, value in variables.items() if name in variables_in(text)}
    assert expand(text, variables) == expand(text, written)
