"""Random commands that make the words of `rm` in all ways of bash: none that deletes a tree passes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from interlock.judge.shell import ShellRules, judge_shell

BASH = shutil.which("bash")
COMMANDS = 150
VALUES = [
    "-rf", "rf", "r", "f", "-", "q-rf", "-rfq", "q", "-RF", "q,-rf", "rm", "ls", "mr", "'q -rf'", "'-r f'",
    "'-rf /home'", "'rm -rf'", "'a=-rf'",
]  # fmt: skip
NAMES = ["x", "y", "z"]
EXPANSIONS = [
    "$N", "$N", "$N", "${N}", "${N#q}", "${N%q}", "${N/q/}", "${N//q/-}", "${N:1}", "${N: 1}", "${N:1:3}", "${N,,}",
    "${N^^}", "${N[@]}", "${N[*]}", "${N[0]}", "${N[1]}", "${N[@]:1}", "${!N}", "${N:--rf}", "${N:+-rf}", "${N@L}",
    "${N@Q}", "${N##*q}", "${N%%q*}", "${N/ /}", "${N//,/ }", "${N/#q/}", "${N/%q/}", "$(echo $N)", "$(printf %s $N)",
    "$(echo $N | tr -d q)",
]  # fmt: skip
SETTINGS = [
    "N=V", "N=V", "N=V", "N=E", "N=E", "N+=V", "N+=E", "IFS=,", "IFS=", "declare -l N=-RF", "declare -n N=x",
    "printf -v N %s V", "printf -v N %s%s E V", "read N y <<< V", "read N x <<< E", "set -- E V", "N=(E V)", "N=(V E)",
    ": ${N:=-rf}", "for N in E V; do z=E; done", "N[0]=E", "export N", "unset N",
]  # fmt: skip
ENDS = [
    "rm E ~/w", "rm E ~/w", "rm E ~/w", "rm E", "E -rf ~/w", 'rm "$1" ~/w', 'rm "$@" ~/w', 'bash -c "rm E ~/w"',
    "export x y z; bash -c 'rm E ~/w'", "nice rm E ~/w",
]  # fmt: skip


def made(random: Random, text: str) -> str:
    """A pattern with a name, a value or an expansion for each of its capital letters."""

    def expansion() -> str:
        written = random.choice(EXPANSIONS).replace("N", random.choice(NAMES))
        return random.choice([written, f'"{written}"', written, f"-{written}", f'""{written}'])

    text = re.sub(r"\bE\b", lambda _: expansion(), text)
    text = re.sub(r"\bV\b", lambda _: random.choice(VALUES), text)
    return re.sub(r"\bN\b", lambda _: random.choice(NAMES), text)


def deletes_tree(line: str) -> bool:
    words = line.split()[1:]
    return any(re.fullmatch(r"<-[a-zA-Z]*[rR][a-zA-Z]*>", word) for word in words) and any(
        word[:2] != "<-" for word in words
    )


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize("seed", range(2))
def test_no_command_passes_with_which_bash_deletes_a_tree(seed: int, tmp_path: Path) -> None:
    assert BASH is not None
    for name in ("bash", "sh", "tr", "nice"):
        (tmp_path / name).symlink_to(shutil.which(name) or BASH)
    remover = tmp_path / "rm"
    remover.write_text('#!/bin/sh\nprintf "RM"; printf " <%s>" "$@"; echo\n', "utf-8")
    remover.chmod(0o755)
    random, harmful = Random(seed), list[str]()
    for _ in range(COMMANDS):
        settings = [random.choice(SETTINGS) for _ in range(random.randrange(1, 5))]
        command = "; ".join(made(random, part) for part in [*settings, random.choice(ENDS)])
        ran = subprocess.run(
            [BASH, "-c", command],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=tmp_path,
            env={"PATH": str(tmp_path), "HOME": "/home/u", "LC_ALL": "C"},
        )
        lines = ran.stdout.decode("utf-8", "replace").splitlines()
        harmful += [command] if any(line.startswith("RM") and deletes_tree(line) for line in lines) else []
    assert harmful
    assert [command for command in harmful if not judge_shell(command, ShellRules(everyday=True))] == []
