"""Every judge answers any input within its time, the same way twice, and without an exception."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from interlock.judge.definitions import judge_definition
from interlock.judge.findings import Finding
from interlock.judge.instructions import judge_instructions
from interlock.judge.names import judge_against, judge_name
from interlock.judge.paths import judge_path
from interlock.judge.regexes import judge_regex
from interlock.judge.results import judge_result
from interlock.judge.secrets import judge_secrets, redact
from interlock.judge.text import judge_text, show_hidden, strip_hidden
from interlock.judge.urls import judge_url, judge_urls_in_text
from processor_work import is_little_work, speed, work_of

SIZE = 65_536
MAX_WORK = 7_000_000
PART = 4
"""A quarter of the size is judged first. Work that grows with the square of the size is sixteen times that in all."""
WHOLE = ("definition", "result")
"""They are made of the others, so they get the longer way of each text alone."""
DEAR = (*WHOLE, "instructions")
"""A quarter of the size never shows that all of it is little work for them."""

Judge = Callable[[str], object]

JUDGES: dict[str, Judge] = {
    "text": judge_text,
    "strip": strip_hidden,
    "show": show_hidden,
    "instructions": judge_instructions,
    "secrets": judge_secrets,
    "redact": redact,
    "result": judge_result,
    "definition": lambda text: judge_definition({"name": "x", "description": text}),
    "name": judge_name,
    "against": lambda text: judge_against("a", text, [("b", text + "x")]),
    "url": judge_url,
    "urls in text": judge_urls_in_text,
    "path": lambda text: judge_path(text, ["/srv"]),
    "path of 4 KB": lambda text: judge_path(text[:4000], ["/srv"]),
    "regex": judge_regex,
    "regex of 4 KB": lambda text: judge_regex(text[:4000]),
}

PIECES = [
    *(
        "a",
        " ",
        "\n",
        "\r",
        "\t",
        "\x00",
        "\x1b",
        "\x1b]",
        "\x1b[1",
        "%",
        "%25",
        "%c0%ae",
        "&",
        "&#65;",
        "<!--",
        "![",
        "((",
    ),
    *(
        "[",
        "\\",
        "/",
        "../",
        "....//",
        ". ",
        "..;",
        "a;",
        "{",
        "~",
        "$",
        "@",
        ":",
        "http://",
        "http://a@",
        "//",
        "key=",
        "eyJ",
    ),
    *(
        "do not tell ",
        "ignore all ",
        "QUJD",
        "41",
        "send it to ",
        "when the a is called ",
        "-----BEGIN PRIVATE KEY-----",
    ),
    *(
        "é",
        "а",
        "aа ",
        "好",
        "\u200b",
        "\u200d",
        "x\u200b",
        "👨\u200d",
        "\ufe0f",
        "\U000e0041",
        "\u0301",
        "\ud800",
        "\u2800",
    ),
    *("(a+)+", "(a|a)*", "a{9}", "[a", "A b ", "I g n o r e ", "0x2e", "．", "a.b.", "1.1.1.1 ", "password: ", "sk-"),
]


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    # A process compiles these patterns once, on first use. This test does not measure that.
    for judge in JUDGES.values():
        judge("Do not tell the user. password: x1y2z3a4b5c6 é")


@pytest.mark.slow
@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_takes_a_tenth_of_a_second_for_64_kilobytes_of_anything(name: str) -> None:
    judge = JUDGES[name]
    slow, unit = {}, speed()
    # Each piece alone, and with one letter at the end that sends the whole text down the longer way.
    for piece, end in product(PIECES, ("é",) if name in WHOLE else ("", "é")):
        times = SIZE // len(piece.encode("utf-8", "surrogatepass"))
        part = partial(judge, piece * (times // PART) + end)
        if name not in DEAR and is_little_work(part, MAX_WORK / PART**2, unit):
            continue  # all of it takes no longer than allowed, unless the work grows faster than the square
        text = piece * times + end
        work = work_of(partial(judge, text), tries=1)
        if work > MAX_WORK:  # once more: a neighbour on the machine is not the judge's fault
            work = work_of(partial(judge, text))
        if work > MAX_WORK:
            slow[piece, end] = work
    assert not slow


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_says_the_same_twice(name: str) -> None:
    for piece in PIECES:
        text = piece * 20
        assert JUDGES[name](text) == JUDGES[name](text)


def test_findings_are_plain_values() -> None:
    (finding,) = judge_name("")
    assert isinstance(finding, Finding)
    with pytest.raises(AttributeError):
        finding.rule = "x"  # type: ignore[misc]
