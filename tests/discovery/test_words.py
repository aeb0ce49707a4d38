from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.discovery import words


@each_case(
    ("text", "expected"),
    [
        ("getUserID2", ["get", "user", "id", "2", "getuser", "userid"]),
        ("get_user_id_2", ["get", "user", "id", "2"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("MySQL", ["my", "sql", "mysql"]),
        ("GitHub", ["git", "hub", "github"]),
        ("YouTube", ["you", "tube", "youtube"]),
        ("iOS", ["i", "os", "ios"]),
        ("OAuth2", ["o", "auth", "2", "oauth2", "oauth"]),
        ("MySQLQuery", ["my", "sql", "query", "mysql", "sqlquery"]),
        ("GraphQL", ["graph", "ql", "graphql"]),
        ("what's Bob’s", ["what", "bob"]),
        ("files.read-all", ["files", "read", "all"]),
        ("Café ＡＢＣ", ["cafe", "abc"]),
        ("Übersicht öffnen", ["ubersicht", "offnen"]),
        ("файл прочитать", ["файл", "прочитать"]),
        ("ファイル", ["ファ", "ァイ", "イル"]),
        ("order 123e4567-e89b-12d3-a456-426614174000 of", ["order", "of"]),
        ("commit 3f786850e387550fdab836ed7e6dc881de23001b", ["commit"]),
        ("DEADBEEF0042 facade deadbeef", ["facade", "deadbeef"]),
        ("call 4915112345678 in 2024 at 90210", ["call", "in", "2024", "at", "90210"]),
        (
            "utf8 base64decoder sha256",
            ["utf", "8", "utf8", "base", "64", "decoder", "base64decoder", "sha", "256", "sha256"],
        ),
        ("", []),
        ("…!?", []),
    ],
)
def test_text_is_split_into_the_words_a_reader_sees(text: str, expected: list[str]) -> None:
    assert words.split(text) == expected


def test_a_name_in_plain_words_has_no_wholes() -> None:
    assert words.split("searchGitHub", wholes=False) == ["search", "git", "hub"]


@each_case(
    "family",
    [
        ("invoice", "invoices", "invoicing", "invoiced"),
        ("translate", "translates", "translating", "translated"),
        ("summary", "summaries"),
        ("plan", "planning", "planned", "plans"),
        ("search", "searches", "searching", "searched"),
        ("finance", "financed", "finances"),
    ],
)
def test_the_forms_of_one_word_share_a_stem(family: tuple[str, ...]) -> None:
    assert len({words.stem(word) for word in family}) == 1


@each_case("pair", [("new", "news"), ("buss", "bus"), ("sing", "s"), ("unit", "unite")])
def test_short_words_keep_their_difference_or_their_length(pair: tuple[str, str]) -> None:
    assert all(len(words.stem(word)) >= min(3, len(word)) for word in pair)


def test_stop_words_are_no_search_terms() -> None:
    assert words.terms("please give me the weather") == [words.stem("weather")]


@given(st.text(max_size=300))
def test_any_text_gives_bounded_lower_case_words(text: str) -> None:
    for word in words.split(text):
        assert 0 < len(word) <= words.MAX_WORD
        assert words.stem(word)


def test_a_huge_text_is_read_only_to_its_bound() -> None:
    assert len(words.split("ab " * 100_000)) <= words.MAX_TEXT


def test_a_huge_text_is_read_at_both_ends() -> None:
    found = words.split("first " + "ab " * 100_000 + "last")
    assert found[0] == "first"
    assert found[-1] == "last"
