from __future__ import annotations

from cases import each_case
from interlock.discovery.entries import from_definition
from interlock.discovery.index import ToolIndex
from interlock.discovery.query_terms import query_terms
from interlock.discovery.words import terms
from processor_work import work_of


@each_case(
    ("query", "as_if"),
    [
        ("show me the contents of config.yaml", "show me the contents of file"),
        ("find every .log under the root", "find every file under the root"),
        ("change the port in my-app.v2.toml?", "change the port in file?"),
        ("what do customers say in reviews.csv", "what do customers say in reviews.csv"),
        ("open https://www.github.com/a/b.html?c=d and read it", "open url github and read it"),
        ("what is new on news.example.com/today", "what is new on url news example today"),
        ("https://github.com/octocat/42/issues/5?q=x", "url github octocat issues"),
        ("https://me:secret@shop.example.org/cart", "url shop example cart"),
        ("mail bob@example.com", "mail bob@example.com"),
        ("update Node.js to v1.2.3", "update Node.js to v1.2.3"),
        ("the way to Washington D.C.", "the way to Washington D.C."),
        ("read the console.log of e.g. app.run(x)", "read the console.log of e.g. app.run(x)"),
        ("what is math.log of 5, and np.log of 2", "what is math log of 5, and np log of 2"),
        ("show server.log", "show file"),
        ("run deploy.sh on staging", "run script deploy on staging"),
        ("is backup-db.sh there", "is script backup db there"),
    ],
)
def test_file_names_and_addresses_are_read_as_what_they_are(query: str, as_if: str) -> None:
    assert query_terms(query) == terms(as_if)


def test_a_file_name_finds_the_tool_for_files_and_not_those_with_its_words() -> None:
    index = ToolIndex()
    for server, name, description in (
        ("ci", "config_helper", "Check a yaml config of the pipeline"),
        ("chart", "show_config", "Show the config of a chart as yaml"),
        ("files", "read_file", "Read a file"),
    ):
        index.put(from_definition(server, {"name": name, "description": description}))
    assert index.search("show config.yaml").hits[0].entry.name == "read_file"
    assert index.search("first open the pipeline, then read config.yaml").hits[0].entry.name == "read_file"


@each_case(
    "text",
    [
        "a-",
        "a.",
        ".",
        "http://",
        "www.",
        "x.com/",
        "https://a@",
        "x.com/abc/",
        "a.b.c.d.e.",
        "_",
        "-",
        "a.pdf.",
        "console.log",
        "math.log",
        "a.sh",
        "a.sh.",
    ],
)
def test_hostile_queries_cost_work_in_proportion_to_their_length(text: str) -> None:
    short, long = (text * (size // len(text)) for size in (2_048, 16_384))
    assert work_of(lambda: query_terms(long), tries=1) < 32 * work_of(lambda: query_terms(short), tries=1) + 20_000_000
