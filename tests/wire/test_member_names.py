"""Names of members are read as a JSON reader reads them, and one that stands twice is found."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.wire.names import may_spell
from interlock.wire.unique_names import DuplicateName, names_of
from processor_work import work_of

spaces = st.sampled_from(["", "", " ", "\n\t"])
values = st.sampled_from(
    ["1", "12", "1.5", '"a"', '"\\""', '""', "[]", '{"a":1}', "true", '{"b":{"a":"\\u0061"}}', "{}"]
)


def spelled(name: str, escape: bool) -> str:
    return '"' + "".join(f"\\u{ord(char):04x}" for char in name) + '"' if escape else json.dumps(name)


names = st.builds(spelled, st.sampled_from(["a", "b", "content", "", 'q"', "\\", "é"]), st.booleans())


@given(st.lists(st.tuples(spaces, names, spaces, spaces, values, spaces), max_size=6))
def test_names_are_those_that_a_strict_reader_finds(members: list[tuple[str, ...]]) -> None:
    text = "{" + ",".join(f"{a}{name}{b}:{c}{value}{d}" for a, name, b, c, value, d in members) + "}"
    pairs = json.loads(text, object_pairs_hook=lambda found: [name for name, _ in found])
    payload = text.encode()
    if len(set(pairs)) == len(pairs):
        assert names_of(payload, len(payload)) == pairs
    else:
        with pytest.raises(DuplicateName):
            names_of(payload, len(payload))


@pytest.mark.parametrize("space", ["", " "])
def test_a_name_that_stands_twice_among_thousands_is_found(space: str) -> None:
    members = [f'"member {number}":{space}{{"a": 1}}' for number in range(2_500)]
    assert names_of(f"{{{','.join(members)}}}".encode(), 0) == [f"member {number}" for number in range(2_500)]
    for twice in (members[7], '"member 7":1', '"member\\u00207":1'):
        with pytest.raises(DuplicateName):
            names_of(f"{{{','.join([*members, twice])}}}".encode(), 0)


@given(st.lists(st.sampled_from(["uri", "ur", "a/b", "x", "\\", '"', "/"]), max_size=4), st.booleans(), st.booleans())
def test_what_a_reader_finds_is_never_said_to_be_absent(parts: list[str], escape: bool, slash: bool) -> None:
    text = spelled("".join(parts), escape)
    text = text.replace("/", "\\/") if slash else text
    for wanted in ("uri", "a/b"):
        assert may_spell(text.encode(), wanted.encode()) or wanted not in json.loads(text)


def test_a_plain_text_is_known_not_to_hold_a_name() -> None:
    assert not may_spell(b'{"text":"several\\nlines of \\"text\\""}', b'"uri"')


def test_an_object_without_an_end_of_names_is_refused_at_once() -> None:
    payload = b"{%b}" % b",".join(b'"%d" :1' % number for number in range(500_000))

    def refused() -> None:
        with pytest.raises(DuplicateName):
            names_of(payload, len(payload))

    assert work_of(refused) < 1.4 * len(payload), "as long as it takes to look over it once"


def test_a_long_name_is_little_work() -> None:
    payload = b'{"%b":1}' % (b"a" * 60_000)
    assert work_of(lambda: names_of(payload, len(payload))) < len(payload)
