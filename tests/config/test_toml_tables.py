"""A table comes and goes, and every other byte of the text stays."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.config.toml_tables import CannotChange, add_tables, remove_table, set_value

NEW = {"new": {"command": ["a", 'b"\n'], "env": {"K": "v"}}}
PIECES = (
    'import = ["x.json"]\n',
    "# a comment\n",
    "\n",
    '[servers.a]\ncommand = ["a"]\n',
    '[servers.b] # why\n\n# inside\nurl = "u"\n[servers.b.env]\nK = """\n[servers.new]\n"""\n',
    "[servers]\nc = { url = 'u' }\n",
    "servers.d.url = 'u'\n",
    "[[lists]]\nk = [\n  1, # one\n  2,\n]\n",
    '[hub]\nmode = "guard" # m',
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Files as people write them: pieces in any order that still is TOML, with either kind of line end or both."""
    pieces = draw(st.lists(st.sampled_from(PIECES), max_size=6, unique=True))
    text = "".join(
        piece if piece.endswith("\n") or number == len(pieces) - 1 else f"{piece}\n"
        for number, piece in enumerate(pieces)
    )
    ends = draw(st.lists(st.booleans(), min_size=text.count("\n"), max_size=text.count("\n")))
    lines = text.split("\n")
    return "".join(line + ("\r\n" if crlf else "\n") for line, crlf in zip(lines, ends, strict=False)) + lines[-1]


def meaning(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@given(documents())
def test_adding_and_removing_a_table_restores_the_text(text: str) -> None:
    if meaning(text) is None:
        return
    added = add_tables(text, ("servers",), NEW)
    assert added.startswith(text)
    assert tomllib.loads(added)["servers"]["new"] == NEW["new"]
    assert add_tables(added, ("servers",), NEW) == added
    assert remove_table(added, ("servers", "new")) == text


@given(documents(), st.sampled_from("abcd"))
def test_removing_a_table_changes_nothing_else(text: str, name: str) -> None:
    before = meaning(text)
    if before is None:
        return
    after = tomllib.loads(remove_table(text, ("servers", name)))
    for content in (before, after):
        servers = content.pop("servers", {})
        content["others"] = {key: value for key, value in servers.items() if key != name}  # type: ignore[union-attr]
        assert content is before or name not in servers  # type: ignore[operator]
    assert after == before


def test_comments_around_a_removed_table_stay() -> None:
    text = '# top\n[servers.a]\n# inside\nurl = "u"\n\n# of the hub\n[hub]\n'
    assert remove_table(text, ("servers", "a")) == "# top\n\n# of the hub\n[hub]\n"


@each_case("text", ["servers = { a = { url = 'u' } }\n", "servers = 'x'\n", "[[servers]]\nid = 'a'\n"])
def test_a_text_that_cannot_take_the_table_is_refused(text: str) -> None:
    with pytest.raises(CannotChange):
        add_tables(text, ("servers",), NEW)


@each_case(
    "text",
    [
        '# top\n[servers.a] # why\ncommand = ["a"]\n\n[hub]\nmode = "guard" # m\n',
        "# top\n[servers.a]\nurl = 'u' # here\n[servers.a.tools]\n# denied\ndeny = ['old']\nallow = ['x']\n",
        "# top\n[servers]\na = { url = 'u', tools = { allow = ['x'] } } # inline\n",
        "# top\n[servers]\na = { url = 'u' }\n",
        "# top\nservers.a.url = 'u' # dotted\nservers.a.tools.allow = ['x']\n",
    ],
)
def test_a_value_is_set_wherever_it_stands_and_everything_else_stays(text: str) -> None:
    wanted = tomllib.loads(text)
    wanted["servers"]["a"].setdefault("tools", {})["deny"] = ["t"]
    changed = set_value(text, ("servers", "a", "tools", "deny"), ["t"])
    assert tomllib.loads(changed) == wanted
    assert all(line in changed.splitlines() for line in text.splitlines() if line.startswith("# "))
    assert changed.count("#") == text.count("#")


def test_a_value_is_not_set_below_one_that_is_no_table() -> None:
    with pytest.raises(CannotChange):
        set_value("servers = 1\n", ("servers", "a", "tools", "deny"), [])
