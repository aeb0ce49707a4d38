"""Expansions that change a value are followed as bash makes them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.shell import ShellRules, judge_shell
from interlock.judge.shell.changes import MAX_CHARS, changed, changed_name

BASH = shutil.which("bash")
TEXTS = ["", ".env", "a.b.c", "aXbXc", "/etc/sha/dow", "aaa", "Mixed Case.TXT", "x*y?z", "*.txt"]
CHANGES = [
    "/a/b", "//a/b", "/#a/b", "/%c/d", "/a", "//X", "/./_", "//?/-", "/b*/z", "/%b*/z", "/#*b/z",
    "/#/r", "/%/m", "//*/rm", "/*/z", "/%*/z", "/#*/z", "/", "//", "//b/", "/%?/_", "/#?/_",
    "#a", "##*.", "#*.", "%.*", "%%.*", "%c", "#?", "%?", "##*", ",", ",,", "^", "^^", ":1", ":1:2", ":0:99", ":9",
]  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_each_change_is_that_of_bash() -> None:
    assert BASH is not None
    lines = [f"x={text!r}; printf '%s\\n' \"${{x{change}}}\"" for change in CHANGES for text in TEXTS]
    said = subprocess.run([BASH, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    made = [changed(f"${{x{change}}}", text) for change in CHANGES for text in TEXTS]
    assert [texts[0] for texts in made] == said.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    "source",
    [
        "${x}",
        "${x/$y/b}",
        "${x/[ab]/c}",
        "${!x}",
        "${x@P}",
        "${x/*a*b/d}",
        "${x/%x*x*y/}",
        "${x/a/&b}",
        "${x///}",
        "${x////b}",
        "${x:010}",
        "${x:3:010}",
        "${x/a/\n&}",
        "${x:\u0663}",
    ],
)
def test_a_change_that_is_not_plain_is_not_followed(source: str) -> None:
    assert changed_name(source) is None


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize("option", ["-u", "-s"])
def test_random_changes_are_those_of_bash(locale: str, option: str) -> None:
    """Of those that are followed, each is one of the values that the judge expects."""
    assert BASH is not None
    random = Random(f"{locale}{option}")
    cases = [
        (f"${{x{_random_change(random)}}}", "".join(random.choices("aAbB./-*? é#%", k=random.randrange(9))))
        for _ in range(2_000)
    ]
    cases = [(source, text) for source, text in cases if changed_name(source) is not None]
    assert len(cases) > 1_000
    lines = [f"shopt {option} nocasematch", *(f"x='{text}'; printf '%s\\0' \"{source}\"" for source, text in cases)]
    environment = {"LC_ALL": locale}
    said = subprocess.run([BASH, "-c", "\n".join(lines)], capture_output=True, check=True, env=environment)
    values = said.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    made = [changed(source, text) for source, text in cases]
    assert len(values) == len(cases)
    wrong = [
        (source, text, value, texts)
        for (source, text), value, texts in zip(cases, values, made, strict=True)
        if texts and value not in texts
    ]
    assert not wrong
    plain = [text.isascii() and source.isascii() for source, text in cases]
    assert [bool(texts) for texts in made] == plain


def _random_change(random: Random) -> str:
    pattern = "".join(random.choices("aAbB.?*-/ é#%", k=random.randrange(5)))
    kind = random.choice(["/", "//", "/#", "/%", "#", "##", "%", "%%", ",", ",,", "^", "^^", ":"])
    if kind[0] in ",^":
        return kind
    if kind == ":":
        return f":{random.choice(['0', '1', '2', '010', '07', '11'])}{random.choice(['', ':0', ':1', ':02', ':3'])}"
    new = "".join(random.choices("cC-*? ", k=random.randrange(4)))
    return f"{kind}{pattern}/{new}" if kind[0] == "/" and random.random() < 0.8 else f"{kind}{pattern}"


@settings(max_examples=200)
@given(st.text(max_size=40), st.text(max_size=2 * MAX_CHARS))
def test_no_text_breaks_it(change: str, text: str) -> None:
    source = f"${{x{change}}}"
    if changed_name(source) is not None:
        assert bool(changed(source, text)) == (len(text) <= MAX_CHARS and text.isascii() and change.isascii())


@pytest.mark.parametrize(
    "command",
    [
        "x=m; ${x/#/r} -rf ~",
        "x=r; ${x/%/m} -rf ~",
        "x=a; ${x//*/rm} -rf ~",
        "shopt -s nocasematch; x=Z; ${x/z/rm} -rf ~",
        f"x=rm{'a' * MAX_CHARS}; ${{x%%a*}} -rf ~",
    ],
)
def test_a_program_that_a_change_hides_is_found(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True))


DELETES = (Path(__file__).parent / "recursive_deletes.txt").read_text("utf-8").splitlines()


@each_case("command", [line for line in DELETES if not line.startswith("#")])
def test_a_recursive_delete_is_found_however_its_words_are_made(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True))


@each_case(
    "command",
    [
        "f=$(mktemp); echo a > $f; cat $f; rm $f",
        "for f in $(ls *.tmp); do rm $f; done",
        "find . -name '*.orig' | while read -r f; do rm \"$f\"; done",
        'while IFS= read -r f; do rm -f "$f"; done < list.txt',
        'for f in *.rej; do rm -f "$f" "$f.bak"; done',
        "IFS=,; for x in $LIST; do echo $x; done",
        "IFS=$'\\n'; for f in $(find . -name '*.py'); do wc -l \"$f\"; done",
        'x=a.txt; rm "${x%.txt}.md"',
        'files=(a b); rm "${files[@]}"',
        'files=(a b c); cp "${files[@]:1}" out/',
        'for f in src/*.ts; do mv "$f" "${f%.ts}.js"; done',
        'declare -A m=([a]=1 [b]=2); for k in "${!m[@]}"; do echo "$k ${m[$k]}"; done',
        'out=$(mktemp); npm test > "$out" 2>&1; tail "$out"; rm -f "$out" coverage.tmp',
        'rm -f "$TMPFILE" out.log',
        "cmd='npm test'; $cmd",
        'opts=(-q -x); pytest "${opts[@]}" tests',
        "printf -v d '%03d' 5; touch \"file$d.txt\"",
    ],
)
def test_ordinary_values_pass(command: str) -> None:
    assert judge_shell(command, ShellRules(everyday=True)) == ()
