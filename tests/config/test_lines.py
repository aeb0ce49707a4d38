"""The line finder against documents whose lines are known because the test laid them out."""

from __future__ import annotations

import json
import tomllib

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.documents import parse_json
from interlock.config.lines import json_lines, toml_lines
from interlock.config.problems import KeyPath, Problem

TRICKY = '''\
# a comment with [brackets] and key = 1
top = 1
"quoted.key" = "a # no comment"
'lit eral' = 'x = 1'
a.b.c = true
text = """
not = "a key"
[not.a.table]
""" # after
raw = \'\'\'
also = 'not'\'\'\'
list = [
  1, # one
  "two, three",
  { x = 1, y.z = [2,
    3] },
]
[ table . sub ]
k = {}
[[many]]
n = 1
[[many]]
n = 2
[many.inner]
deep = 1979-05-27T07:32:00Z
'''


def test_every_key_of_a_tricky_document_is_found_on_its_line() -> None:
    lines = toml_lines(TRICKY)
    assert lines == {
        ("top",): 2,
        ("quoted.key",): 3,
        ("lit eral",): 4,
        ("a",): 5,
        ("a", "b"): 5,
        ("a", "b", "c"): 5,
        ("text",): 6,
        ("raw",): 10,
        ("list",): 12,
        ("list", 0): 13,
        ("list", 1): 14,
        ("list", 2): 15,
        ("list", 2, "x"): 15,
        ("list", 2, "y"): 15,
        ("list", 2, "y", "z"): 15,
        ("list", 2, "y", "z", 0): 15,
        ("list", 2, "y", "z", 1): 16,
        ("table",): 18,
        ("table", "sub"): 18,
        ("table", "sub", "k"): 19,
        ("many",): 20,
        ("many", 0): 20,
        ("many", 0, "n"): 21,
        ("many", 1): 22,
        ("many", 1, "n"): 23,
        ("many", 1, "inner"): 24,
        ("many", 1, "inner", "deep"): 25,
    }


def paths(value: object, at: KeyPath = ()) -> set[KeyPath]:
    """The model: every key and element of a parsed document."""
    inside: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return {at} - {()} | {path for key, inner in inside for path in paths(inner, (*at, key))}


texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\"'\\#[]{}=,"), max_size=8
)
scalars = texts | st.integers(-9, 9) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
documents = st.dictionaries(texts, values, max_size=5)


@given(documents)
def test_toml_paths_are_exactly_those_the_parser_finds(document: dict[str, object]) -> None:
    text = tomlkit.dumps(document)
    assert set(toml_lines(text)) == paths(tomllib.loads(text))


@given(documents, st.sampled_from([None, 1, "\t"]))
def test_json_paths_are_exactly_those_the_parser_finds(document: dict[str, object], indent: str | int | None) -> None:
    assert set(json_lines(json.dumps(document, indent=indent))) == paths(document)


@given(st.dictionaries(texts, st.none(), min_size=1, max_size=5), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_a_key_is_found_on_the_line_it_was_written_on(keys: dict[str, None], gaps: list[int]) -> None:
    text, expected, line = "", {}, 1
    for key, gap in zip(keys, gaps, strict=False):
        text += "# gap\n" * gap + f"{json.dumps(key, ensure_ascii=False)} = '''a\nb'''\n"
        expected[(key,)] = line + gap
        line += gap + 2
    assert toml_lines(text) == expected


def test_json_with_comments_and_trailing_commas_keeps_its_lines() -> None:
    text = '{\n  // "no": 1,\n  "url": "https://x//y", /* "no":\n 2 */\n  "list": [1, 2,],\n}'
    parsed = parse_json(text, "x.json")
    assert not isinstance(parsed, Problem)
    content, lines = parsed
    assert content == {"url": "https://x//y", "list": [1, 2]}
    assert lines()[("list",)] == 5


def test_a_key_written_twice_in_json_is_refused_at_its_second_line() -> None:
    problem = parse_json('{"a": {\n"b": 1,\n"b": 2}}', "x.json")
    assert isinstance(problem, Problem)
    assert (problem.line, "`b`" in problem.message) == (3, True)


def test_comments_that_never_end_are_read_in_linear_time() -> None:
    for text in ('\\"' * 200_000, "/*" * 200_000, '{"a": 1' + "," * 200_000):
        assert isinstance(parse_json(text, "x.json"), Problem)
