from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cases import each_case
from example_counts import example_count
from interlock.discovery.entries import RISK_LEVELS, Identity, ToolEntry, from_definition, parameters_of
from interlock.discovery.errors import DiscoveryError
from interlock.discovery.index import ToolIndex
from interlock.discovery.queries import Filters
from processor_work import work_of


def tool(server: str, name: str, description: str = "", **more: Any) -> ToolEntry:
    return from_definition(server, {"name": name, "description": description}, **more)


@pytest.fixture
def index() -> ToolIndex:
    index = ToolIndex()
    for entry in (
        tool("files", "read_file", "Read the contents of a file at the given path", risk_level="safe"),
        tool("files", "delete_file", "Delete a file", risk_level="dangerous"),
        tool("mail", "send_email", "Send an email to a person", risk_level="moderate"),
        tool("sky", "get_forecast", "Weather forecast for a city", risk_level="safe", status="disconnected"),
        tool("bank", "convert_currency", "Convert an amount between currencies", risk_level="safe"),
    ):
        index.put(entry)
    return index


def names(index: ToolIndex, query: str, **more: Any) -> list[str]:
    return [hit.entry.name for hit in index.search(query, **more).hits]


def test_the_tool_that_says_what_is_asked_comes_first(index: ToolIndex) -> None:
    assert names(index, "read file contents from disk")[0] == "read_file"


def test_a_query_in_other_words_still_finds_the_tool(index: ToolIndex) -> None:
    assert names(index, "how many euro is that in usd")[0] == "convert_currency"


def test_another_word_for_the_same_thing_in_a_name_outweighs_the_word_itself_in_passing(index: ToolIndex) -> None:
    index.put(tool("disk", "list_directory"))
    index.put(ToolEntry("disk", "export_report", parameters=(("target", "Folder for the finished pages"),)))
    assert names(index, "what is in the folder")[0] == "list_directory"


def test_a_related_word_outweighs_a_minor_one_where_no_tool_has_the_word_itself(index: ToolIndex) -> None:
    index.put(tool("travel", "hotel_search"))
    index.put(tool("city", "transit", "Stops of ferries and trams nearby"))
    assert names(index, "accommodation nearby")[0] == "hotel_search"


def test_what_a_query_found_before_is_not_held_against_what_changed_since(index: ToolIndex) -> None:
    asked = "weather forecast for a city"
    before = names(index, asked)
    assert names(index, asked) == before == ["get_forecast"]
    index.put(tool("storm", "weather_alerts", "Weather alerts and a forecast for a city"))
    assert set(names(index, asked)) == {"get_forecast", "weather_alerts"}
    index.remove(("sky", "get_forecast"))
    assert names(index, asked) == ["weather_alerts"]


@pytest.mark.parametrize("said", ["get_current_time", "getCurrentTime", "clock__get_current_time", "get-current-time"])
def test_a_tool_that_is_named_comes_first(index: ToolIndex, said: str) -> None:
    index.put(tool("clock", "get_current_time", "Now"))
    for place in ("current time of the city", "time of the current", "current times"):
        index.put(tool("clock", place.replace(" ", "_"), f"Tell the current time, the {place}, in the city of Tokyo"))
    assert names(index, f"Use the '{said}' function for the current time in the city of Tokyo")[0] == "get_current_time"


def test_each_step_of_a_task_gets_its_tool(index: ToolIndex) -> None:
    found = names(index, "Read the file at the path notes.txt, all of its contents. Then email Ann.", limit=2)
    assert sorted(found) == ["read_file", "send_email"]


def test_a_query_of_any_length_is_read_to_its_end(index: ToolIndex) -> None:
    filler = "The quarterly figures of the third department were late again and nobody knows quite why. " * 2_000
    for query in (f"{filler} Read the file contents.", f"Read the file contents. {filler}", "file " * 100_000):
        assert names(index, query)[0].endswith("_file")


def test_every_step_of_a_task_without_full_stops_gets_its_tool(index: ToolIndex) -> None:
    found = names(index, "convert the amount to another currency, then email it and delete the file", limit=3)
    assert sorted(found) == ["convert_currency", "delete_file", "send_email"]


def test_a_question_for_the_time_finds_the_clock(index: ToolIndex) -> None:
    index.put(tool("clock", "get_current_time", "Get current time in a specific timezone"))
    index.put(
        tool("files", "get_file_info", "Retrieve metadata about a file: size, creation time, last modified time, type")
    )
    assert names(index, "what time is it")[0] == "get_current_time"


@pytest.mark.parametrize(
    ("query", "name"),
    [("mysql", "MySQLQuery"), ("github", "GitHubSearch"), ("youtube", "YouTubeCaptions"), ("oauth", "OAuth2Login")],
)
def test_a_name_with_inner_capitals_is_found_as_one_word(index: ToolIndex, query: str, name: str) -> None:
    for each in ("MySQLQuery", "GitHubSearch", "YouTubeCaptions", "OAuth2Login"):
        index.put(tool("brands", each, f"Works with {each}"))
    assert names(index, query)[0] == name


def test_scores_fall_from_first_to_last_and_stay_within_one(index: ToolIndex) -> None:
    scores = [hit.score for hit in index.search("delete the file", limit=5).hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@each_case("strategy", ["hybrid", "keyword", "category"])
@each_case("limit", [1, 2, 7])
def test_equals_stand_in_the_order_of_their_names_whatever_was_added_first(strategy: str, limit: int) -> None:
    entries = [tool("s", f"archive_calendar_{n}", "Archive a calendar") for n in range(10)]
    for order in (entries, entries[::-1], entries[5:] + entries[:5]):
        index = ToolIndex()
        for entry in order:
            index.put(entry)
        expected = [f"archive_calendar_{n}" for n in range(limit)]
        assert names(index, "calendar", strategy=strategy, limit=limit) == expected


def test_nothing_in_common_means_no_hit_but_a_true_total(index: ToolIndex) -> None:
    found = index.search("qqqq")
    assert found.hits == ()
    assert found.total_available == 5


def test_filters_hold_whatever_the_score(index: ToolIndex) -> None:
    assert names(index, "delete file", filters=Filters(risk_level_max="safe")) == ["read_file"]
    assert names(index, "file mail weather", filters=Filters(server="sky")) == ["get_forecast"]
    assert names(index, "weather forecast", filters=Filters(status="connected")) == []
    assert names(index, "file", filters=Filters.read({"categories": ["Filesystem"]}))[0].endswith("_file")
    assert index.search("file", filters=Filters(server="files")).total_available == 2
    assert index.search("file", filters=Filters(server="unheard of")).total_available == 0


@pytest.mark.parametrize("as_set", [True, False])
def test_what_the_caller_may_not_see_is_neither_found_nor_counted(index: ToolIndex, as_set: bool) -> None:
    visible = frozenset({("files", "delete_file"), ("gone", "tool")})
    allowed = visible if as_set else visible.__contains__
    found = index.search("read file contents", allowed=allowed)
    assert [hit.entry.identity for hit in found.hits] == [("files", "delete_file")]
    assert found.total_available == 1


def test_a_set_of_visible_tools_follows_the_index(index: ToolIndex) -> None:
    allowed = frozenset({("files", "read_file"), ("new", "file_reader")})
    assert index.search("file", allowed=allowed).total_available == 1
    index.put(tool("new", "file_reader"))
    assert index.search("file", allowed=allowed).total_available == 2
    index.remove(("files", "read_file"))
    assert names(index, "file", allowed=allowed) == ["file_reader"]


def test_a_category_is_browsed_by_its_name(index: ToolIndex) -> None:
    index.put(tool("x", "zeta", "Something", declared_categories=["media/audio"]))
    assert names(index, "audio", strategy="category") == ["zeta"]
    assert names(index, "media", strategy="category") == ["zeta"]
    assert sorted(names(index, "filesystem", strategy="category")) == ["delete_file", "read_file"]


def test_while_few_meanings_are_known_the_nearest_of_them_does_not_push_words_away() -> None:
    def embed(texts: Sequence[str]) -> list[list[float] | None]:
        return [[1.0, 0.2] if "query" in text else [0.9, 0.9] if "tool 0" in text else None for text in texts]

    index = ToolIndex(embed)
    for number, word in enumerate(
        ["nothing", "boots", "umbrella", "picnic", "cousin", "sandwich", "lake", "train", "ticket"]
    ):
        index.put(from_definition("s", {"name": f"t{number}", "description": f"tool {number} about {word}"}))
    index.put(from_definition("s", {"name": "weather", "description": "forecast for a town"}))
    found = index.search("query: boots umbrella picnic cousin sandwich lake train weather forecast", "semantic")
    assert found.strategy == "semantic"
    assert found.hits[0].entry.name == "weather"


def test_without_vectors_semantic_says_that_words_decided(index: ToolIndex) -> None:
    assert index.search("file", "semantic").strategy == "keyword"
    assert index.search("file", "hybrid").strategy == "keyword"


def test_with_vectors_meaning_finds_what_words_do_not() -> None:
    meanings = {"purr": [1.0, 0.0], "bark": [0.0, 1.0]}

    def embed(texts: Any) -> Any:
        return [next((v for key, v in meanings.items() if key in text), None) for text in texts]

    index = ToolIndex(embed)
    index.put(tool("a", "cat", "purr"))
    index.put(tool("a", "dog", "bark"))
    found = index.search("xyzzy purring", "semantic")
    assert found.strategy == "semantic"
    assert found.hits[0].entry.name == "cat"
    assert index.search("dog", "hybrid").strategy == "keyword", "a query without a vector is ranked by words"


def test_meaning_that_few_tools_have_yet_does_not_outweigh_words() -> None:
    """Of two cosines that hardly differ, one is the highest all the same."""
    near: dict[str, list[float] | None] = {"sell_car": [1.0, 0.1], "rent_car": [1.0, 0.0]}
    near |= dict.fromkeys(("wash_car", "send_mail", "buy_car", "read_file", "list_files", "open_page", "add_user"))
    query = "rent a car"

    def embed(texts: Sequence[str]) -> list[Any]:
        return [[1.0, 0.1] if text == query else near[text.removeprefix("s ").replace(" ", "_")] for text in texts]

    index = ToolIndex(embed)
    for name in near:
        index.put(tool("s", name))
    found = index.search(query)
    assert found.strategy == "hybrid"
    assert found.hits[0].entry.name == "rent_car"


def test_a_tool_without_a_meaning_is_ranked_by_its_words_among_those_that_have_one() -> None:
    near: dict[str, list[float] | None] = {"rent_boat": [1.0, 0.2], "rent_flat": [1.0, 0.3], "rent_car": None}
    near |= {name: [0.0, 1.0] for name in ("send_mail", "read_file", "list_files", "open_page", "add_user")}
    query = "rent a car"

    def embed(texts: Sequence[str]) -> list[Any]:
        return [[1.0, 0.0] if text == query else near[text.removeprefix("s ").replace(" ", "_")] for text in texts]

    index = ToolIndex(embed)
    for name in near:
        index.put(tool("s", name))
    assert index.search(query).hits[0].entry.name == "rent_car"


def test_by_meaning_alone_a_tool_without_a_meaning_is_ranked_by_its_words() -> None:
    """It stands neither in the middle of the others, nor behind a meaning that is nearest and hardly near."""
    near: dict[str, list[float] | None] = {"send_mail": [0.2, 1.0], "add_user": [0.1, 1.0], "hire_boat": [1.0, 0.1]}
    near |= dict.fromkeys(("rent_car", "read_file"))
    query = "rent a car"

    def embed(texts: Sequence[str]) -> list[Any]:
        return [[1.0, 0.0] if text == query else near[text.removeprefix("s ").replace(" ", "_")] for text in texts]

    index = ToolIndex(embed)
    for name in near:
        index.put(tool("s", name))
    found = index.search(query, "semantic")
    assert found.strategy == "semantic"
    ranked = [hit.entry.name for hit in found.hits]
    assert sorted(ranked[:2]) == ["hire_boat", "rent_car"]
    assert ranked[2:] == ["send_mail", "add_user"]


@each_case(("least_alone", "found"), [(0.3, []), (0.05, ["cat"])])
def test_a_query_without_a_known_word_finds_a_tool_only_if_its_meaning_is_near(
    least_alone: float, found: list[str]
) -> None:
    meanings = {"purr": [1.0, 0.0, 0.0], "bark": [0.0, 1.0, 0.0], "qwzx": [0.1, 0.0, 1.0]}

    def embed(texts: Sequence[str]) -> list[Any]:
        return [next((vector for key, vector in meanings.items() if key in text), None) for text in texts]

    index = ToolIndex(embed, least_alone)
    index.put(tool("a", "cat", "purr"))
    index.put(tool("a", "dog", "bark"))
    assert [hit.entry.name for hit in index.search("qwzx qwzx").hits] == found
    assert index.search("qwzx dog").hits, "a known word is enough"


@pytest.mark.parametrize("query", ["", "   ", None, 7, ["file"]])
def test_a_query_that_is_none_is_refused(index: ToolIndex, query: Any) -> None:
    with pytest.raises(DiscoveryError, match="query"):
        index.search(query)


@pytest.mark.parametrize("strategy", ["", "fuzzy", None, 3, ["hybrid"]])
def test_an_unknown_strategy_is_refused(index: ToolIndex, strategy: Any) -> None:
    with pytest.raises(DiscoveryError, match="strategy"):
        index.search("file", strategy)


@pytest.mark.parametrize("limit", [0, -1, 101, True, 2.5, "5", None])
def test_a_limit_out_of_bounds_is_refused(index: ToolIndex, limit: Any) -> None:
    with pytest.raises(DiscoveryError, match="max_results"):
        index.search("file", limit=limit)


@each_case(
    ("raw", "part"),
    [
        ([], "filter"),
        ("safe", "filter"),
        ({"colour": "red"}, "filter"),
        ({"categories": "files"}, "categories"),
        ({"categories": [1]}, "categories"),
        ({"categories": ["/"]}, "categories"),
        ({"categories": ["a"] * 65}, "categories"),
        ({"risk_level_max": "harmless"}, "risk_level_max"),
        ({"risk_level_max": 1}, "risk_level_max"),
        ({"status": {}}, "status"),
        ({"server": ""}, "server"),
        ({"server": "x" * 300}, "server"),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused_by_name(raw: Any, part: str) -> None:
    with pytest.raises(DiscoveryError) as refused:
        Filters.read(raw)
    assert refused.value.part == part


def test_hostile_queries_cost_bounded_work(index: ToolIndex) -> None:
    for query in ("a b c d. " * 1_800, "'; DROP TABLE tools; --", "\x00" * 9_000, "((((" * 4_000, "漢" * 500_000):
        assert work_of(lambda query=query: index.search(query), tries=1) < 350_000_000


def test_an_embedder_is_shown_what_a_tool_is_for_and_its_parameters_only_if_that_is_short() -> None:
    schema = {"properties": {"repoName": {"description": "Which repository"}, "body": {"description": "Its text"}}}
    short = {"name": "create_issue", "description": "Open an issue", "inputSchema": schema}
    assert from_definition("github", short).text == (
        "github create issue. Open an issue. repo name Which repository. body Its text"
    )
    long = short | {"description": "Open an issue in a repository. " * 10}
    assert from_definition("github", long).text == f"github create issue. {long['description']}"
    assert from_definition("my-files", {"name": "read"}).text == "my files read"
    assert from_definition("tools-of-the-forest", {"name": "read"}).text == "read", "a field, not a service"


def test_a_hostile_schema_gives_bounded_parameters() -> None:
    deep: dict[str, Any] = {"description": "bottom"}
    for _ in range(500):
        deep = {"properties": {"next": deep}}
    assert len(parameters_of(deep)) <= 10
    wide = {"properties": {f"p{i}": {"enum": ["x"] * 1_000} for i in range(5_000)}}
    assert len(parameters_of(wide)) == 200
    assert parameters_of({"properties": [1], "items": 3, "anyOf": {"a": 1}}) == ()


def test_an_entry_that_is_none_is_refused(index: ToolIndex) -> None:
    with pytest.raises(DiscoveryError):
        from_definition("s", {"name": 3})
    with pytest.raises(DiscoveryError):
        index.put(ToolEntry("s", "n", risk_level="harmless"))


WORDS = ("read", "write", "salary", "payroll", "weather", "forecast", "mail", "delete", "euro", "city")
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)


def first_word(asked: Sequence[str]) -> list[list[float] | None]:
    """The meaning of a text: the place of its first word of `WORDS`, of which two have none."""
    known = [[WORDS.index(word) for word in text.replace(".", " ").split() if word in WORDS] for text in asked]
    places = [found[0] if found and found[0] > 1 else None for found in known]
    return [None if place is None else [float(place == each) for each in range(len(WORDS))] for place in places]


@given(
    st.lists(st.tuples(texts, texts, st.booleans()), min_size=1, max_size=14, unique_by=lambda one: one[0]),
    st.lists(st.sampled_from((*WORDS, "salaries", "forcast", "unheard")), min_size=1, max_size=4).map(" ".join),
    st.sampled_from(("keyword", "category", "hybrid", "semantic")),
)
@example([("salary", "salary", False)], "salary", "hybrid")
@example([("salary", "salary", False), ("read", "read", True)], "salary", "semantic")
@example(
    [("mail", "mail", True), ("city", "city", True), ("read", "mail", True), ("euro", "x", False)], "mail", "hybrid"
)
def test_a_search_says_nothing_of_tools_that_its_caller_may_not_see(
    tools: list[tuple[str, str, bool]], query: str, strategy: str
) -> None:
    """As if only those that may be seen were there: order, scores and all."""
    everything, seen = ToolIndex(first_word), ToolIndex(first_word)
    allowed = set[Identity]()
    for name, description, visible in tools:
        entry = tool("s", name.replace(" ", "_"), description, declared_categories=(description.split()[0],))
        everything.put(entry)
        if visible:
            seen.put(entry)
            allowed.add(entry.identity)
    found = everything.search(query, strategy, 10, allowed=frozenset(allowed))
    alone = seen.search(query, strategy, 10)
    assert (found.total_available, found.strategy) == (alone.total_available, alone.strategy)
    assert [(hit.entry.name, hit.score) for hit in found.hits] == [(hit.entry.name, hit.score) for hit in alone.hits]


def test_a_step_without_a_meaning_is_searched_by_its_words_and_the_others_by_both() -> None:
    index = ToolIndex(first_word)
    for name in ("salary_table", "weather_map", "write_book", "read_book", "mail_box"):
        index.put(tool("s", name))
    found = index.search("weather of the town, then read the book", "hybrid", 2, explain=True)
    assert found.strategy == "hybrid"
    why = {hit.entry.name: hit.why for hit in found.hits}
    assert (why["weather_map"][0], why["read_book"][0]) == ("step: weather of the town", "step: read the book")
    alone = index.search("weather of the town", "hybrid", 1, explain=True)
    assert not alone.hits[0].why[0].startswith("step:"), "a query of one step"


class IndexAgainstModel(RuleBasedStateMachine):
    """The index and a plain dictionary, under any order of changes."""

    identities = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["read_file", "send_mail", "list_users"]))

    def __init__(self) -> None:
        super().__init__()
        self.index = ToolIndex()
        self.model: dict[Identity, ToolEntry] = {}

    @rule(
        identity=identities,
        risk=st.sampled_from(RISK_LEVELS),
        status=st.sampled_from(["connected", "disconnected"]),
        category=st.sampled_from(["files", "files/read", "people"]),
        description=st.sampled_from(["a file", "mail for users", ""]),
    )
    def put(self, identity: Identity, risk: str, status: str, category: str, description: str) -> None:
        entry = tool(*identity, description, risk_level=risk, status=status, declared_categories=[category])
        self.index.put(entry)
        self.model[identity] = entry

    @rule(identity=identities)
    def remove(self, identity: Identity) -> None:
        assert self.index.remove(identity) == (self.model.pop(identity, None) is not None)

    @rule(
        risk=st.sampled_from([None, *RISK_LEVELS]),
        status=st.sampled_from([None, "connected"]),
        server=st.sampled_from([None, "a"]),
        paths=st.sampled_from([(), ("files",), ("people", "files/read")]),
        allowed=st.none() | st.frozensets(identities, max_size=4),
    )
    def search(self, risk: Any, status: Any, server: Any, paths: Any, allowed: Any) -> None:
        found = self.index.search(
            "file mail user read send list", limit=10, filters=Filters(paths, risk, status, server), allowed=allowed
        )
        expected = {
            identity
            for identity, entry in self.model.items()
            if (risk is None or RISK_LEVELS.index(entry.risk_level) <= RISK_LEVELS.index(risk))
            and (status is None or entry.status == status)
            and (server is None or entry.server == server)
            and (not paths or any((c + "/").startswith(p + "/") for c in entry.categories for p in paths))
            and (allowed is None or identity in allowed)
        }
        assert found.total_available == len(expected)
        assert {hit.entry.identity for hit in found.hits} <= expected
        assert all(hit.entry == self.model[hit.entry.identity] for hit in found.hits)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert len(self.index) == len(self.model)
        assert all(self.index.get(identity) == entry for identity, entry in self.model.items())
        counted = sum(self.index.categories().values())
        assert counted == sum(len(entry.categories) for entry in self.model.values())


TestIndexAgainstModel = IndexAgainstModel.TestCase
TestIndexAgainstModel.settings = settings(max_examples=example_count(20, 40), stateful_step_count=20, deadline=None)
