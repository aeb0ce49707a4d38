"""Names across servers: what they hold, what they resemble, and how they are exposed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from interlock.judge.names import MAX_EXPOSED_CHARS, exposed_name, judge_against, judge_name, skeleton


@each_case("name", ["read_file", "read-file", "tools.read", "Search the web", "a" * 128, "ns/tool", "a:b"])
def test_ordinary_names_pass(name: str) -> None:
    assert judge_name(name) == ()


@each_case("name", ["", "a" * 129, "read\u200b_file", "reаd_file", "ｒead", "a\nb", "$(id)", "<b>", "a\x1b[0m", "名前"])
def test_names_that_could_be_taken_for_something_else_are_refused(name: str) -> None:
    assert judge_name(name) != ()


@each_case("twin", ["reаd_file", "ｒｅａｄ_file", "read\u200b_file", "rеаd_filе", "réad_file", "read_fi1e"])
def test_a_name_that_looks_like_that_of_another_server_is_found(twin: str) -> None:
    assert [finding.rule for finding in judge_against("b", twin, [("a", "read_file")])] == ["name.lookalike"]


@each_case(("server", "name"), [("b", "read_file"), ("a", "reаd_file"), ("b", "read-file"), ("b", "Read_File")])
def test_the_same_or_a_plainly_different_name_is_no_twin(server: str, name: str) -> None:
    assert judge_against(server, name, [("a", "read_file")]) == ()


def test_an_exact_identity_is_exposed_as_it_is() -> None:
    assert exposed_name("github", "merge_pr") == "github__merge_pr"


@each_case(
    ("one", "other"),
    [
        (("a", "b__c"), ("a__b", "c")),
        (("a_", "b"), ("a", "_b")),
        (("a.b", "c"), ("a_b", "c")),
        (("a", "read file"), ("a", "read_file")),
        (("a", "x" * 60), ("a", "x" * 61)),
    ],
)
def test_identities_that_would_collide_are_told_apart(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert exposed_name(*one) != exposed_name(*other)


@given(st.text(max_size=80), st.text(max_size=80))
def test_every_exposed_name_fits_what_clients_accept(server: str, name: str) -> None:
    exposed = exposed_name(server, name)
    assert len(exposed) <= MAX_EXPOSED_CHARS
    assert exposed.isascii()
    assert all(char.isalnum() or char in "_-" for char in exposed)


TRICKY = st.tuples(st.text("ab_. ", max_size=6), st.text("ab_. ", max_size=6))


@given(TRICKY, TRICKY)
def test_two_identities_never_share_an_exposed_name(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (exposed_name(*one) == exposed_name(*other)) == (one == other)


@given(st.text(max_size=60))
def test_a_skeleton_has_no_skeleton_but_itself(name: str) -> None:
    assert skeleton(skeleton(name)) == skeleton(name)
