"""Runs the official conformance suite: its server leg against our server and hubs, its client leg against our client.

Ends with 0 only if everything that a revision requires passes. Further checks of the suite are reported apart.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
import forking
from conformance.packages import NODE, PLACE, folder, install
from conformance.subjects import HERE, SOURCE, fixture, hub_before

OLD, NEW = "2025-11-25", "2026-07-28"
ERA: Final = {OLD: "legacy", NEW: "modern"}
SUITE: Final = folder("conformance")
STAMP: Final = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
LISTED: Final = re.compile(r"^\s*- (\S+) \[([\d,-]+|extension)\]$", re.MULTILINE)
RUN_SECONDS: Final = 300
SHOWN: Final = 300
"""Characters of a complaint."""
TASKS: Final = "tasks-"
"""The prefix of the names of scenarios for the tasks extension. They count wherever the fixture has tasks."""
EXTENSIONS: Final = frozenset(
    {
        "auth/client-credentials-jwt",
        "auth/client-credentials-basic",
        "auth/enterprise-managed-authorization",
        "auth/wif-jwt-bearer",
    }
)
"""Scenarios of extensions that our client has; they run once, at the newest revision."""
UNJUDGED: Final = frozenset({"tasks-status-notifications"})
"""Scenarios that the suite itself skips, whatever the server does."""
POLLING: Final = "server-sse-polling"
"""Not required by the suite. It judges only servers that close the stream of a call, as our server's fixture does."""
PATIENCE: Final = ("--timeout", "280000")
"""The suite starts all clients of a run at once."""
AT_ONCE: Final = 4
"""The suite mostly waits for its own timers; two cores carry so many runs."""


class Check(msgspec.Struct):
    """One check of a scenario, as the suite writes it."""

    name: str
    status: str
    errorMessage: str = ""


class Outcome(msgspec.Struct):
    """The result of one run of the suite: checks by scenario."""

    required: dict[str, list[Check]]
    beyond: dict[str, list[Check]] = {}
    seconds: float = 0

    @property
    def failed(self) -> list[str]:
        return [name for name, checks in self.required.items() if not holds(checks)]


class Leg(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    revision: str
    run: Callable[[], Outcome]

    def __call__(self) -> Outcome:
        started = time.monotonic()
        try:
            outcome = self.run()
        except Exception as cause:
            # One leg that cannot be run is told with the others, not instead of them.
            outcome = Outcome({"the whole leg": [Check("Run", "FAILURE", repr(cause))]})
        outcome.seconds = time.monotonic() - started
        return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="run only the server leg, against this MCP endpoint")
    parser.add_argument("--only", default="", help="only the legs whose name has this in it")
    parser.add_argument("--revision", choices=(OLD, NEW), help="only this one")
    options = parser.parse_args()
    install()
    legs = [leg for leg in every_leg(options.url) if options.only in leg.name]
    if options.revision:
        legs = [leg for leg in legs if leg.revision == options.revision]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda leg: leg(), legs))
    # The suite has timers of its own, and on a busy machine they end too early.
    for place, leg in enumerate(legs):
        if outcomes[place].failed:
            show([leg], [outcomes[place]])
            print(f"{leg.name}, {leg.revision}: once more, alone")
            outcomes[place] = leg()
    show(legs, outcomes)
    return 1 if not legs or any(outcome.failed for outcome in outcomes) else 0


def every_leg(url: str | None) -> Iterator[Leg]:
    """Every row of the table, the longest first."""
    for revision in (NEW, OLD):
        if url is not None:
            yield server_leg(url, revision, partial(given, url))
            continue
        yield server_leg("hub, SDK server", revision, partial(behind, "sdk_server.py", ERA[revision]))
        yield server_leg("hub, our server", revision, partial(behind, "server.py", ERA[revision]), tasks=True)
        other = ERA[OLD if revision == NEW else NEW]
        for whose, script in (("our", "server.py"), ("SDK", "sdk_server.py")):
            crossed = partial(behind, script, other)
            yield server_leg(f"hub, {whose} server, {other}", revision, crossed)
        yield server_leg("our server", revision, partial(fixture, "server.py"), tasks=True, polls=revision == OLD)
    if url is None:
        core, extensions = client_scenarios()
        for revision, scenarios in core.items():
            yield Leg("our client", revision, partial(run_client, revision, scenarios))
        for scenario in extensions:
            yield Leg("our client", NEW, partial(run_client_extension, scenario))


@contextlib.contextmanager
def behind(script: str, era: str) -> Iterator[str]:
    """A fixture behind a hub."""
    with fixture(script) as url, hub_before(url, era) as view:
        yield view


@contextlib.contextmanager
def given(url: str) -> Iterator[str]:
    """A server that someone else runs."""
    yield url


def server_leg(
    name: str,
    revision: str,
    subject: Callable[[], AbstractContextManager[str]],
    *,
    tasks: bool = False,
    polls: bool = False,
) -> Leg:
    """Everything that a revision asks of a server; with `tasks` what the extension asks too, if the suite has it."""

    def run() -> Outcome:
        with subject() as url:
            checks = suite("server", "--url", url, "--requirements", revision)
        wanted = required_of_servers(revision) + [POLLING] * polls
        if tasks:
            wanted += [name for name in checks if name.startswith(TASKS) and name not in UNJUDGED]
        beyond = {scenario: said for scenario, said in checks.items() if scenario not in wanted}
        return Outcome({scenario: checks.get(scenario, []) for scenario in wanted}, beyond)

    return Leg(name, revision, run)


def run_client(revision: str, scenarios: list[str]) -> Outcome:
    """Every scenario of a revision with our client, in one run of the suite, which starts a client for each of them."""
    checks = suite("client", "--command", client(), "--suite", "all", "--spec-version", revision, *PATIENCE)
    return Outcome({scenario: checks.get(scenario, []) for scenario in scenarios})


def client() -> str:
    """The command of our client."""
    return shlex.join(("env", f"PYTHONPATH={SOURCE}", *forking.command(str(HERE / "client.py"))))


def run_client_extension(scenario: str) -> Outcome:
    """One scenario of an extension with our client."""
    checks = suite("client", "--command", client(), "--scenario", scenario, *PATIENCE)
    return Outcome({scenario: [check for said in checks.values() for check in said]})


def suite(*arguments: str) -> dict[str, list[Check]]:
    """Runs the suite; its checks by scenario."""
    with tempfile.TemporaryDirectory() as results:
        command = [NODE, str(SUITE / "dist" / "index.js"), *arguments, "-o", results]
        quiet = subprocess.DEVNULL
        # Node compiles the suite once for all runs.
        env = {**os.environ, "NODE_COMPILE_CACHE": str(PLACE / "compiled")}
        subprocess.run(command, env=env, timeout=RUN_SECONDS, stdout=quiet, stderr=quiet, check=False)
        return {
            scenario_of(path.parent.relative_to(results)): msgspec.json.decode(path.read_bytes(), type=list[Check])
            for path in Path(results).rglob("checks.json")
        }


def scenario_of(results: Path) -> str:
    """`server-tools-list-2026-01-01T00-00-00-000Z` is the scenario tools-list."""
    return STAMP.sub("", results.as_posix()).removeprefix("server-")


def required_of_servers(revision: str) -> list[str]:
    """The names under `server:` in the suite's own list of requirements."""
    text = (SUITE / "requirements" / f"{revision}.yaml").read_text()
    section = re.search(r"^server:\n((?:  - .*\n)+)", text, re.MULTILINE)
    assert section is not None, "the suite writes its requirements otherwise than it did"
    return [line.strip()[2:] for line in section[1].splitlines()]


def client_scenarios() -> tuple[dict[str, list[str]], list[str]]:
    """The client scenarios of each revision, and those of the extensions that our client has."""
    command = [NODE, str(SUITE / "dist" / "index.js"), "list", "--client"]
    listed = subprocess.run(command, timeout=120, capture_output=True, text=True, check=True).stdout
    core: dict[str, list[str]] = {}
    extensions = []
    for name, applies in LISTED.findall(listed):
        if applies != "extension":
            for revision in applies.split(","):
                core.setdefault(revision, []).append(name)
        elif name in EXTENSIONS:
            extensions.append(name)
    return core, extensions


def holds(checks: list[Check]) -> bool:
    """Whether a scenario passes: something was checked, and nothing failed."""
    statuses = {check.status for check in checks}
    return "SUCCESS" in statuses and "FAILURE" not in statuses


def show(legs: list[Leg], outcomes: list[Outcome]) -> None:
    """One line a subject and revision, then whatever is not as it should be."""
    rows: dict[tuple[str, str], list[Outcome]] = {}
    for leg, outcome in zip(legs, outcomes, strict=True):
        rows.setdefault((leg.name, leg.revision), []).append(outcome)
    print(f"{'subject':<28} {'revision':<11} {'required':>9} {'beyond':>8} {'seconds':>8}")
    for (name, revision), runs in sorted(rows.items()):
        every = [checks for run in runs for checks in run.required.values()]
        beyond = [checks for run in runs for checks in run.beyond.values()]
        required = f"{sum(map(holds, every))}/{len(every)}"
        further = f"{sum(map(holds, beyond))}/{len(beyond)}" if beyond else ""
        print(f"{name:<28} {revision:<11} {required:>9} {further:>8} {sum(run.seconds for run in runs):>8.0f}")
    for (name, revision), runs in sorted(rows.items()):
        for line in [line for run in runs for line in complaints(run)]:
            print(f"{name}, {revision}: {line}")


def complaints(run: Outcome) -> Iterator[str]:
    """The checks with another result than expected."""
    for scenario, checks in run.required.items():
        for check in checks or [Check("Run", "FAILURE", "did not run")]:
            if check.status in ("FAILURE", "WARNING"):
                said = " ".join(check.errorMessage.split())
                yield f"{check.status.lower()} {scenario}: {check.name}: {said[:SHOWN]}"
    if missed := sorted(scenario for scenario, checks in run.beyond.items() if not holds(checks)):
        yield f"beyond what is required, not passed: {', '.join(missed)}"


if __name__ == "__main__":
    sys.exit(main())
