"""Reads the descriptions of public servers' tools from their packages.

    python bench/gather_definitions.py FILE NAMES… --judge

NAMES are `npm:NAME` and `pypi:NAME`, or files with one on each line. A package is downloaded and unpacked; nothing of
it is installed or run. FILE gets one JSON line for each description (`server`, `name`, `text`); `--judge` judges them
and prints each one that is flagged, with the words that caused it, and the rates. No description is part of this
repository.

FILE may also be the `lists.jsonl` of `bench/gather_tools.py`, one line for each server (`server`, `tools`). Then whole
tools are judged as well: one flagged parameter takes its tool.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

DOWNLOAD_WITHIN_S = 60.0
MAX_BYTES = 4_000_000
"""Larger source files are not read: they are bundles of other packages."""
SHORTEST = 20
SPEAKS_MCP = re.compile(rb"modelcontextprotocol|fastmcp|FastMCP|mcp\.server|tools/list")
UNICODE_ESCAPE = re.compile(r"\\u(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{4}))")
ESCAPES = {"n": "\n", "t": "\t", "r": ""}
_STRING = r"""(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`)"""
DESCRIBED = re.compile(
    rf"(?:\bdescription\s*:\s*|\.describe\(\s*|\.(?:tool|registerTool)\(\s*['\"`][\w.-]+['\"`],\s*){_STRING}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--judge", action="store_true")
    arguments = parser.parse_args()
    names = [name for given in arguments.names for name in _names(given)]
    if names:
        with arguments.file.open("a", encoding="utf-8") as out, ThreadPoolExecutor(arguments.jobs) as workers:
            for name, found in zip(names, workers.map(gather, names), strict=True):
                print(f"{name}: {found if isinstance(found, str) else len(found)}", flush=True)
                for tool, text in [] if isinstance(found, str) else found:
                    out.write(json.dumps({"server": name, "name": tool, "text": text}, ensure_ascii=False) + "\n")
    if arguments.judge:
        judge(arguments.file)


def gather(package: str) -> list[tuple[str, str]] | str:
    """The descriptions in a package, each once, or why there are none."""
    registry, _, name = package.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        try:
            _download(registry, name, Path(folder))
        except (OSError, ValueError, subprocess.SubprocessError) as cause:
            return f"not read: {str(cause)[:120]}"
        files = [file for file in Path(folder).rglob("*") if file.is_file() and "node_modules" not in file.parts]
        sources = [file for file in files if file.suffix in (".py", ".js", ".mjs", ".cjs", ".ts")]
        texts = [file.read_bytes() for file in sources if file.stat().st_size <= MAX_BYTES]
        if not any(SPEAKS_MCP.search(text) for text in texts):
            return "it is no server"
        found: dict[str, str] = {}
        for file, text in zip(sources, texts, strict=False):
            read = in_python if file.suffix == ".py" else in_javascript
            for tool, description in read(text.decode("utf-8", "replace")):
                if len(description) >= SHORTEST:
                    found.setdefault(description, tool)
        return [(tool, description) for description, tool in found.items()]


def in_python(text: str) -> Iterator[tuple[str, str]]:
    """Docstrings of functions under a `tool` decorator, and `description` arguments of any call."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorated = (ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list)
            if any(name.rpartition(".")[2] in ("tool", "prompt", "resource") for name in decorated):
                yield node.name, ast.get_docstring(node) or ""
        elif isinstance(node, ast.Call):
            given = {word.arg: word.value for word in node.keywords}
            said, name = given.get("description"), given.get("name")
            if isinstance(said, ast.Constant) and isinstance(said.value, str):
                yield str(name.value) if isinstance(name, ast.Constant) else "", said.value


def in_javascript(text: str) -> Iterator[tuple[str, str]]:
    """Strings after `description:`, in `.describe(…)`, and behind the name in `.tool(…)`."""
    for found in DESCRIBED.finditer(text):
        raw = next(group for group in found.groups() if group is not None)
        raw = UNICODE_ESCAPE.sub(lambda match: chr(min(int(match[1] or match[2], 16), 0x10FFFF)), raw)
        # A sign beyond the first plane is written as two escapes, which are one character.
        raw = raw.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        yield "", re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), raw, flags=re.DOTALL)


def judge(file: Path) -> None:
    """Judge every description as that of a tool, and every whole tool, and print the rates."""
    from interlock.judge.definitions import judge_definition

    texts: dict[tuple[str, str], str] = {}
    tools: list[tuple[str, dict[str, Any]]] = []
    for line in file.read_text("utf-8").splitlines():
        row = json.loads(line)
        if "text" in row:
            texts[row["server"], row["text"]] = row["name"]
        for tool in row.get("tools", ()):
            tools.append((row["server"], tool))
            texts.update(((row["server"], text), tool["name"]) for text in in_definition(tool))
    spoken = {key: judge_definition({"name": "tool", "description": key[1]}) for key in texts}
    whole = [(server, tool["name"], judge_definition(tool)) for server, tool in tools]
    said = [(server, texts[server, text], found) for (server, text), found in spoken.items()]
    for server, name, findings in whole or said:
        if findings:
            print(f"{server} {name}: {findings[0].rule}: {findings[0].message}")
    print(_rate("texts", spoken.values()))
    if whole:
        print(_rate("tools", (findings for _, _, findings in whole)))
    by_server: dict[str, bool] = {}
    for server, _, findings in whole or said:
        by_server[server] = by_server.get(server, False) or bool(findings)
    print(_rate("servers", by_server.values()))


def in_definition(value: object) -> Iterator[str]:
    """The texts of a definition that are long enough to say something."""
    if isinstance(value, str):
        if len(value) >= SHORTEST:
            yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from in_definition(item)


def _rate(of: str, found: Iterable[object]) -> str:
    flagged = [bool(each) for each in found]
    return f"{len(flagged)} {of}: {sum(flagged)} flagged ({sum(flagged) / max(1, len(flagged)):.2%})"


def _names(given: str) -> list[str]:
    file = Path(given)
    return file.read_text("utf-8").split() if not given.startswith(("npm:", "pypi:")) and file.exists() else [given]


def _download(registry: str, name: str, folder: Path) -> None:
    if registry == "npm":
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), name]
    else:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "-d",
            str(folder),
            name,
        ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_WITHIN_S, check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["failed"])[-1])
    for file in list(folder.iterdir()):
        if file.suffix == ".whl":
            with zipfile.ZipFile(file) as archive:
                archive.extractall(folder / "unpacked")
        elif file.suffix == ".tgz":
            with tarfile.open(file) as archive:
                archive.extractall(folder / "unpacked", filter="data")


if __name__ == "__main__":
    main()
