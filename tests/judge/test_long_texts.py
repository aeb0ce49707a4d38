"""Long texts of peers are searched in pieces, with turns for other threads, and no text costs more than its length."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import tree_sitter
import tree_sitter_bash
from hypothesis import given
from hypothesis import strategies as st

from interlock.judge import regexes
from interlock.judge.arguments import FoundArgument
from interlock.judge.regexes import find_in_pieces
from interlock.judge.shell import ShellRules, judge_shell
from interlock.judge.shell.grammar import LOCK, is_costly, syntax_tree
from interlock.judge.urls import urls_in_text
from interlock.judge.validators import Rules, judge_value, names_in
from processor_work import work_of

LONG = 400_000
WORD = re.compile(r"(?<!a)[ab]{1,7}(?=c|$)")


@given(st.text("abc ", max_size=60), st.integers(1, 12))
def test_a_search_in_pieces_finds_what_one_search_finds(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regexes, "PIECE_CHARS", piece)
        found = [match.span() for match in find_in_pieces(WORD, text, 8)]
    assert found == [match.span() for match in WORD.finditer(text)]


def test_an_address_that_stands_across_two_pieces_is_found() -> None:
    for before in range(8_150, 8_200):
        text = " " * before + "http://169.254.169.254/latest " + " " * 20_000
        assert urls_in_text(text) == ((before, before + 29),)
        assert judge_value("metadata", FoundArgument("text", "a", text, {}), Rules()), before


@pytest.fixture
def short_turns() -> Iterator[None]:
    """Threads take turns as in a running hub."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize(
    ("kind", "piece"), [("command", "echo $(a;b|c) && "), ("code", "os.system('x')\n"), ("text", "\n")]
)
def test_t38_no_argument_is_searched_in_one_go(kind: str, piece: str) -> None:
    found = FoundArgument(kind, "a", piece * (LONG // len(piece)), {})  # type: ignore[arg-type]

    def judge() -> None:
        for validator in ("readonly", "network_restricted") if kind == "text" else ("network_restricted",):
            judge_value(validator, found, Rules(inferred=True))
        names_in(found)

    assert min(longest_turn(judge) for _ in range(3)) < 0.25


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("text", ["((" + "@a" * 4_000, "(( " + "a@" * 4_000])
def test_t38_a_command_that_its_grammar_reads_again_and_again_is_questioned_in_turns(text: str) -> None:
    assert [finding.rule for finding in judge_shell(text)][:1] == ["shell.unparsable"]
    # It takes a few milliseconds in all, of which one turn may take a good part, but never nearly all.
    assert min(longest_turn(lambda: judge_shell(text)) for _ in range(3)) < 0.75
    assert work_of(lambda: judge_shell(text)) < 5_000_000


PARTS = [*"()[]{}$`\"'\\;&|<>\n @#=*?aé", "((", "[[ ", "<<E\n", "E\n", "@a", "if ", "then ", "for a in ", "case ", "🎉"]


@given(st.lists(st.sampled_from(PARTS), max_size=40).map("".join), st.sampled_from([1, 30]))
def test_a_command_that_is_parsed_in_parts_has_the_tree_of_the_whole_text(text: str, times: int) -> None:
    source = (text * times).encode()
    if is_costly(source):
        return
    with LOCK:
        found = syntax_tree(source)
        whole = tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language())).parse(source).root_node
        assert found is None or str(found) == str(whole)


def longest_turn(function: Callable[[], object]) -> float:
    """The longest part of a function during which no other thread runs, as a share of its processor time."""
    thread = threading.Thread(target=function)
    began = last = time.process_time()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        time.sleep(0)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest / (time.process_time() - began)


@pytest.mark.parametrize("text", ["x " + "/*x" * 2_700, "x" + "--" * 4_000, "/*x" * 2_700, "update " + "a " * 4_000])
def test_t38_remarks_without_an_end_cost_no_more_than_their_length(text: str) -> None:
    assert work_of(lambda: judge_value("readonly", FoundArgument("text", "a", text, {}), Rules())) < 500_000


@pytest.mark.parametrize("piece", ["/**/", "/**/ ", "-- a\n", "/***/", "\n"])
def test_t38_remarks_before_a_text_cost_no_more_than_their_length(piece: str) -> None:
    found = FoundArgument("text", "a", piece * 25 + "x", {})
    assert work_of(lambda: judge_value("readonly", found, Rules())) < 50_000
    statement = FoundArgument("text", "a", piece * 25 + "drop table t", {})
    assert judge_value("readonly", statement, Rules()), "it is found behind remarks"


@pytest.mark.parametrize(
    "statement",
    [
        *(remark + "drop table t" for remark in ("/*" + "x" * 20_000 + "*/", "-- a\n" * 4_000, " " * 20_000)),
        *(f"/**/drop{blanks}table{blanks}t" for blanks in (" " * 9_000, "\n" * 9_000, " \t" * 5_000)),
        f"insert{' ' * 8_190}into t values (1)",
        *("DELETE/**/FROM users", "drop -- x\n table t", "; delete from x", "(delete from x)", "\ufeffdelete from t"),
        *("explain analyze delete from t", "update only t set a = 1", "update t as u set a = 1"),
        f"update {' ' * 9_000}t set a = 1",
        f"with a({'b, ' * 5_000}c) as (select 1) delete from t",
    ],
)
def test_a_statement_is_judged_wherever_blanks_and_remarks_stand(statement: str) -> None:
    assert judge_value("readonly", FoundArgument("text", "a", statement, {}), Rules())


@pytest.mark.parametrize(
    "text", ["With regards, " + "we write. " * 2_000, "Update: " + "all is well. " * 2_000, " " * 20_000]
)
def test_a_long_text_is_no_statement(text: str) -> None:
    assert not judge_value("readonly", FoundArgument("text", "a", text, {}), Rules())


def test_a_here_document_in_quotes_may_hold_any_number_of_operators() -> None:
    lines = "\n".join(f"if (a[{at}] && b) {{ c(d | e); }}" for at in range(150))
    assert judge_shell(f"cat > src/a.ts <<'EOF'\n{lines}\nEOF\nnpm test", ShellRules(everyday=True)) == ()
    assert judge_shell(f"cat > src/a.ts <<'EOF'\n{lines}\nEOF\nsudo reboot", ShellRules(everyday=True))
    for text in (f"cat <<EOF\n{lines}\nEOF", f"echo \"<<'EOF'\n\"; {lines}\nEOF", f"cat <<'EOF'\n{lines}"):
        assert is_costly(text.encode())
