"""Gathers the tool lists of public MCP servers: `python bench/gather_tools.py FOLDER --npm NAMES --pypi NAMES`.

Each package is installed into a temporary folder, started over stdio, and asked for its tools. The result is
`FOLDER/tools.jsonl` in the format that `bench/discovery.py` reads, `FOLDER/lists.jsonl` with the whole definitions (for
`bench/gather_definitions.py`), and with `--queries FILE` (as in `bench/queries`)
`FOLDER/queries.jsonl` beside it. No list is part of this repository.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

INSTALL_WITHIN_S = 300.0
ANSWER_WITHIN_S = 40.0

SERVERS = tomllib.loads((Path(__file__).parent / "queries/servers.toml").read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--npm", nargs="*", default=SERVERS["npm"])
    parser.add_argument("--pypi", nargs="*", default=SERVERS["pypi"])
    parser.add_argument("--further", action="store_true", help="the servers of bench/queries/further.txt instead")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--queries", type=Path, help="queries in the format of bench/queries")
    arguments = parser.parse_args()
    if arguments.further:
        arguments.npm, arguments.pypi = SERVERS["further_npm"], SERVERS["further_pypi"]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.queries:
        rows = "".join(json.dumps(query) + "\n" for query in read_queries(arguments.queries.read_text("utf-8")))
        (arguments.folder / "queries.jsonl").write_text(rows, "utf-8")
    packages = [(name, _npm) for name in arguments.npm] + [(name, _pypi) for name in arguments.pypi]
    with (
        (arguments.folder / "tools.jsonl").open("a", encoding="utf-8") as out,
        (arguments.folder / "lists.jsonl").open("a", encoding="utf-8") as lists,
        ThreadPoolExecutor(arguments.jobs) as workers,
    ):
        for name, tools in zip(
            [name for name, _ in packages], workers.map(lambda p: _listed(*p), packages), strict=True
        ):
            print(f"{name}: {len(tools) if isinstance(tools, list) else tools}", flush=True)
            for tool in tools if isinstance(tools, list) else []:
                out.write(json.dumps(_row(name, tool), ensure_ascii=False) + "\n")
            if isinstance(tools, list):
                lists.write(json.dumps({"server": name, "tools": tools}) + "\n")
            out.flush()


def read_queries(text: str) -> Iterator[dict[str, Any]]:
    """Queries with the tools they need: `query = server/tool | server/tool ; server/tool`."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    for number, line in enumerate(lines):
        query, _, needed = line.rpartition(" = ")
        gold = [[name.strip() for name in need.split("|")] for need in needed.split(";")]
        yield {"id": str(number), "query": query, "gold": gold}


def _listed(package: str, install: Any) -> list[dict[str, Any]] | str:
    """The tools of one package, or why there are none."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            command = install(package, Path(folder))
            extra = [part.format(folder=folder) for part in SERVERS["arguments"].get(package, [])]
            return _ask([*command, *extra], folder)
        except (OSError, ValueError, KeyError, StopIteration, subprocess.SubprocessError) as cause:
            return f"not listed: {str(cause)[:160]}"


def _npm(package: str, folder: Path) -> list[str]:
    _run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), package], folder)
    manifest = json.loads((folder / "node_modules" / package / "package.json").read_text("utf-8"))
    programs = manifest.get("bin") or manifest["main"]
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    return ["node", str(folder / "node_modules" / package / program)]


def _pypi(package: str, folder: Path) -> list[str]:
    python = folder / "venv/bin/python"
    uv = shutil.which("uv")
    if uv:
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], folder)
        # Most servers were written for the first version of the SDK and do not say so.
        _run([uv, "pip", "install", "--quiet", "--python", str(python), package, "mcp<2"], folder)
    else:
        _run([sys.executable, "-m", "venv", str(folder / "venv")], folder)
        _run([str(python), "-m", "pip", "install", "--quiet", package, "mcp<2"], folder)
    code = (
        "import importlib.metadata as m, sys; "
        f"print('\\n'.join(e.name for e in m.distribution({package!r}).entry_points if e.group == 'console_scripts'))"
    )
    named = _run([str(python), "-c", code], folder).split()
    program = next((name for name in named if "mcp" in name), named[0] if named else None)
    if program is None:
        raise ValueError("it brings no program")
    return [str(folder / "venv/bin" / program)]


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout


def _ask(command: list[str], folder: str) -> list[dict[str, Any]]:
    child = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            **dict.fromkeys(SERVERS["placeholders"], "placeholder"),
            **SERVERS["environment"],
            "HOME": folder,
        },
        start_new_session=True,
    )
    answers: queue.Queue[bytes] = queue.Queue()
    errors: list[bytes] = []
    threading.Thread(target=_pump, args=(child.stdout, answers.put), daemon=True).start()
    threading.Thread(target=_pump, args=(child.stderr, errors.append), daemon=True).start()
    try:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        _send(child, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        _answer(answers, 0)
        _send(child, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return list(_pages(child, answers))
    except (queue.Empty, OSError):
        said = b" ".join(errors[-2:]).decode(errors="replace").strip()
        raise ValueError(said[-160:] or "no answer") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _pages(child: subprocess.Popen[bytes], answers: queue.Queue[bytes]) -> Iterator[dict[str, Any]]:
    cursor = None
    for number in range(1, 50):
        params = {"cursor": cursor} if cursor else {}
        _send(child, {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": params})
        page = _answer(answers, number)["result"]
        yield from page["tools"]
        cursor = page.get("nextCursor")
        if not cursor:
            return


def _answer(answers: queue.Queue[bytes], number: int) -> dict[str, Any]:
    deadline = time.monotonic() + ANSWER_WITHIN_S
    while True:
        line = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict) and message.get("id") == number:
                if "error" in message:
                    raise KeyError(str(message["error"])[:160])
                return message


def _send(child: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert child.stdin is not None
    child.stdin.write(json.dumps(message).encode() + b"\n")
    child.stdin.flush()


def _pump(stream: Any, take: Any) -> None:
    for line in stream:
        take(line)


def _server(package: str) -> str:
    """The name that an operator would give a server: that of the package without what all of them have in common."""
    common = ("mcp", "server", "awslabs", "python", "tool")
    parts = [part for part in re.split(r"[-._]", package.rpartition("/")[2]) if part not in common]
    return "-".join(parts) or package


def _row(package: str, tool: dict[str, Any]) -> dict[str, Any]:
    server = SERVERS["names"].get(package) or _server(package)
    properties = (tool.get("inputSchema") or {}).get("properties") or {}
    params = {
        name: (said.get("description") or "") if isinstance(said, dict) else "" for name, said in properties.items()
    }
    description = tool.get("description") or ""
    return {
        "id": f"{server}/{tool['name']}",
        "server": server,
        "name": tool["name"],
        "description": description,
        "params": params,
    }


if __name__ == "__main__":
    main()
