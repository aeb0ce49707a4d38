"""The documentation is true: what is made from the code is current, every example runs, every link leads somewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args, get_origin

import msgspec
import pytest

from cases import each_case
from interlock.config.load import load
from interlock.config.settings import Config

from .reference import DOCS, GENERATED, TABLES, between, field_texts, nested

ROOT = DOCS.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.glob("*.md")])


@each_case(("page", "name", "make"), GENERATED, ids=[name for _, name, _ in GENERATED])
def test_what_is_made_from_the_code_is_current(page: str, name: str, make: Callable[[], str]) -> None:
    found = between(name).search((DOCS / page).read_text())
    assert found, f"{page} has no part <!-- {name} -->"
    assert found[0] == f"<!-- {name} -->\n{make()}\n<!-- /{name} -->", "run `python -m tests.docs.reference`"


@each_case("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


@each_case("folder", ["bench", "src/interlock/hub/audit", "src/interlock/store"])
def test_the_readme_of_a_folder_names_every_file_of_it(folder: str) -> None:
    named = set(re.findall(r"`(\w+\.py)`", (ROOT / folder / "README.md").read_text()))
    assert named == {file.name for file in (ROOT / folder).glob("*.py")} - {"__init__.py"}


@each_case("page", PAGES, ids=lambda page: page.name)
def test_every_python_example_is_a_whole_program(page: Path) -> None:
    for example in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        names: dict[str, object] = {"__name__": "example"}
        exec(compile(ast.parse(example), str(page), "exec"), names)


def tables_under(struct: type[msgspec.Struct], path: str) -> Iterator[tuple[str, type[msgspec.Struct], str]]:
    """Every table below a struct: its path with `*` for names, its type, and the text of a row that describes it."""
    texts = field_texts(struct)
    for field in msgspec.structs.fields(struct):
        if field.name in getattr(struct, "derived", ()):
            continue
        mapped = get_origin(field.type) is dict
        types = get_args(field.type)[1:] if mapped else (field.type, *get_args(field.type))
        of = next((each for each in types if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)
        if of is None:
            continue
        below = f"{path}.{field.encode_name}{'.*' if mapped else ''}".removeprefix(".")
        yield below, of, "" if nested(field) else texts.get(field.name, "")
        yield from tables_under(of, below)


def test_every_table_of_the_configuration_is_documented_with_all_its_settings() -> None:
    documented = {re.sub(r"\b[A-Z]+\b", "*", title.strip("[]")): struct for title, struct in TABLES}
    missing = [
        path
        for path, struct, row in tables_under(Config, "")
        if documented.get(path) is not struct and not all(name in row for name in struct.__struct_encode_fields__)
    ]
    assert missing == []
    for title, struct in TABLES:
        shown = [field for field in msgspec.structs.fields(struct) if not nested(field)]
        hidden: frozenset[str] = getattr(struct, "derived", frozenset())
        undescribed = [field.name for field in shown if field.name not in {*field_texts(struct), *hidden}]
        assert undescribed == [], title


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_configuration_example_is_accepted(page: Path, tmp_path: Path) -> None:
    for number, example in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)):
        path = tmp_path / f"{number}.toml"
        path.write_text(example)
        fatal = [problem for problem in load(path, home=tmp_path).problems if problem.fatal]
        assert not fatal


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    told = (DOCS / "dependencies.md").read_text()
    named = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for requirement in named:
        name = re.split(r"[><=;\[ ]", requirement)[0]
        assert f"`{name}`" in told, f"docs/dependencies.md does not say why {name}"
