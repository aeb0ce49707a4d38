"""The walkthrough of `docs/rooms.md`, command by command: each prints what the page says, on a real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import time

import forking

from .conftest import HERE, User

PAGE = (HERE.parents[1] / "docs" / "rooms.md").read_text()
SECTION = PAGE[PAGE.index("## From nothing to an approved change") : PAGE.index("## Agents as participants")]
ID = re.compile(r"Proposed as ([0-9a-f-]{36})")
PROMPT = "Fulfil it? [y/N]: "
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
WITHIN_S = 120


class Shell:
    """One shell on a pty, as a person uses it."""

    def __init__(self, user: User) -> None:
        programs = user.root / "bin"
        programs.mkdir()
        program = programs / "interlock"
        line = shlex.join(forking.command("-m", "interlock.cli"))
        program.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        program.chmod(0o755)
        environ = {**user.environ, "PATH": f"{programs}:{user.environ['PATH']}", "TERM": "dumb", "PS1": "", "PS2": ""}
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            env=environ,
            cwd=user.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._number = 0
        # Without an echo, the output is that of the programs alone.
        self.run("stty -echo cols 500; PS1=")

    def run(self, command: str, typed: str = "") -> str:
        """Run a command until it has ended. Types an answer when it is asked for one. Returns what was shown."""
        self._number += 1
        mark = f"<<{self._number}"
        os.write(self._ours, f"{command}; printf '%s>>' '{mark}'\n".encode())
        shown = ""
        deadline = time.monotonic() + WITHIN_S
        while f"{mark}>>" not in shown:
            assert time.monotonic() < deadline, (command, shown)
            if select.select([self._ours], [], [], 0.5)[0]:
                shown += os.read(self._ours, 65_536).decode(errors="replace")
            if typed and PROMPT in shown:
                os.write(self._ours, f"{typed}\n".encode())
                typed = ""
        return COLOURS.sub("", shown.replace("\r", ""))

    def close(self) -> None:
        self._process.kill()
        self._process.wait(WITHIN_S)
        os.close(self._ours)


def steps() -> list[tuple[str, list[str]]]:
    """Each command of the section, with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def test_the_walkthrough_does_what_it_says(user: User) -> None:
    user.config.parent.mkdir(parents=True)
    user.config.write_text('[hub]\nlisten = "127.0.0.1:0"\n')
    (example,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    (user.folder / "files.py").write_text(example)
    shell = Shell(user)
    ids: dict[str, str] = {}
    try:
        for command, wanted in steps():
            for told, actual in ids.items():
                command = command.replace(told, actual)
            answers = [line.removeprefix(PROMPT) for line in wanted if line.startswith(PROMPT)]
            shown = shell.run(command, *answers)
            for line in wanted:
                told_id, made = ID.search(line), ID.search(shown)
                if told_id is not None:
                    assert made is not None, (command, shown)
                    ids[told_id[1]] = made[1]
                    continue
                expected = line.partition("…")[0].strip() if not line.startswith(PROMPT) else PROMPT.strip()
                assert expected in shown, (command, shown)
        assert (user.folder / "third.txt").read_text() == "again"
    finally:
        shell.close()
        user.finished("down")
