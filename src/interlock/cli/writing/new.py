"""`interlock new`: creates a server project that runs, with a test that passes."""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path

import click

from interlock.cli.terminal.failures import WrongUsage
from interlock.cli.terminal.show import json_option, plain, say, show_json

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}\Z")

_TAKEN = frozenset({"interlock", "msgspec", "pytest", "test"})

_SERVER = '''\
"""{title}: tools for agents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from interlock import Server
from interlock.signatures import InputField

server = Server("{name}", "0.1.0")


class Count(msgspec.Struct, frozen=True):
    """The counts of a text."""

    words: int
    characters: int


@server.tool(category="text", tags=["words"], version="0.1.0")
async def count(text: Annotated[str, InputField(description="The text to count", max_length=10_000)]) -> Count:
    """Count the words and characters of a text."""
    return Count(len(text.split()), len(text))


@server.resource("{name}://about", mime_type="text/plain", ttl_ms=60_000)
async def about() -> str:
    """The purpose of this server."""
    return "{title} counts words."


if __name__ == "__main__":
    server.run()
'''

_TEST = '''\
"""Tests of the tools. The client talks to the server in this process."""

from __future__ import annotations

import asyncio

from interlock import Client

from {module} import server


def test_a_text_is_counted() -> None:
    async def counted() -> object:
        async with Client(server) as client:
            return (await client.call_tool("count", {{"text": "two words"}}))["structuredContent"]

    assert asyncio.run(counted()) == {{"words": 2, "characters": 9}}


def test_wrong_arguments_are_refused_with_the_reason() -> None:
    async def refused() -> dict[str, object]:
        async with Client(server) as client:
            return await client.call_tool("count", {{"text": 7}})

    result = asyncio.run(refused())
    assert result["isError"]
    assert "text: Type mismatch" in str(result["content"])
'''

_PROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["interlock"]

[dependency-groups]
dev = ["pytest"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

_README = """\
# {title}

```sh
interlock dev {module}.py        # run it, restart it after each change, and show each call
uv run pytest                    # its tests (or `python -m pytest`, where pytest and interlock are installed)
interlock add ./{module}.py      # put it behind your hub
```
"""


@click.command()
@click.argument("name")
@click.option(
    "--in", "folder", type=click.Path(path_type=Path, file_okay=False), default=".", help="Where to create it."
)
@json_option
def new(name: str, folder: Path, as_json: bool) -> None:
    """Create a server project with a passing test.

    \b
    Example:
      interlock new weather
    """
    if not _NAME.match(name):
        raise WrongUsage(f"`{name}` is not a valid server name", "use a-z, 0-9, - and _, and start with a letter")
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module in _TAKEN:
        raise WrongUsage(f"a file {module}.py would hide a Python module of the same name", "choose another name")
    project = folder.expanduser().absolute() / name
    if project.exists():
        raise WrongUsage(f"{project} exists already", "choose another name, or remove it")
    words = {"name": name, "module": module, "title": name.replace("-", " ").replace("_", " ").capitalize()}
    files = {f"{module}.py": _SERVER, f"test_{module}.py": _TEST, "pyproject.toml": _PROJECT, "README.md": _README}
    project.mkdir(parents=True)
    for file, text in files.items():
        (project / file).write_text(text.format(**words), "utf-8")
    with (project / "pyproject.toml").open("a", encoding="utf-8") as end:
        end.write(_checkout())
    if as_json:
        show_json({"made": str(project), "files": list(files)})
        return
    say(plain(f"Created {project}: {', '.join(files)}."))
    say(f"  $ cd {name}")
    say(f"  $ interlock dev {module}.py")
    say("  $ uv run pytest")
    say(f"  $ interlock add ./{module}.py")


def _checkout() -> str:
    """Where uv finds Interlock, if it was installed from a folder and not from a package index."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = urlsplit(json.loads(distribution("interlock").read_text("direct_url.json") or "{}").get("url", ""))
    except PackageNotFoundError:
        return ""
    folder = Path(url2pathname(origin.path))
    if origin.scheme != "file" or not folder.is_dir():
        return ""
    return f"\n[tool.uv.sources]\ninterlock = {{ path = {json.dumps(str(folder))}, editable = true }}\n"
