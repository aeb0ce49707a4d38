"""Programs that run another program given in their own arguments, and where in the arguments it stands."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from interlock.judge.shell.flags import names


class Wrapper(msgspec.Struct, frozen=True):
    """How a wrapper reads its arguments up to the inner command."""

    values: frozenset[str] = frozenset()
    """Options that take the next argument as their value."""
    operands: int = 0
    """Arguments of its own that come before the inner command."""
    strings: frozenset[str] = frozenset()
    """Options whose value is itself shell text."""
    joins: bool = False
    """The remaining arguments are joined and given to a shell (`watch`, `ssh`)."""
    assigns: bool = False
    """`NAME=value` may come before the inner command."""


def _wrapper(
    values: str = "", operands: int = 0, strings: str = "", *, joins: bool = False, assigns: bool = False
) -> Wrapper:
    return Wrapper(frozenset(values.split()), operands, frozenset(strings.split()), joins, assigns)


_NONE = _wrapper()
WRAPPERS: dict[str, Wrapper] = {
    "env": _wrapper("-u --unset -C --chdir", strings="-S --split-string", assigns=True),
    "sudo": _wrapper("-u -g -h -p -C -D -r -t -T -U --user --group --host --prompt --chdir", assigns=True),
    "doas": _wrapper("-u -C"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c --class -n --classdata -p -P -u"),
    "chrt": _wrapper("-T -P -D -p", 1),
    "taskset": _wrapper("-p", 1),
    "numactl": _wrapper("-i -N -m -C -p --interleave --cpunodebind --membind --physcpubind --preferred"),
    "timeout": _wrapper("-s --signal -k --kill-after", 1),
    "stdbuf": _wrapper("-i --input -o --output -e --error"),
    "time": _wrapper("-f --format -o --output"),
    "strace": _wrapper("-e -o -s -p -E -u -P -a -I -O -S -b -X"),
    "ltrace": _wrapper("-e -o -s -p -u -a -A -D -F -l -n -w -x"),
    "watch": _wrapper("-n --interval", joins=True),
    "xargs": _wrapper("-a --arg-file -d --delimiter -E -I -L -n -P -s --max-args --max-procs --max-lines --max-chars"),
    "parallel": _wrapper("-a -j -I -n -N -L -S --jobs --arg-file --sshlogin --joblog --results", joins=True),
    "flock": _wrapper("-w --timeout -E", 1, "-c --command"),
    "script": _wrapper("-o -m -E -B -I -O -T", strings="-c --command"),
    "ssh": _wrapper("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B", 1, joins=True),
    "chroot": _wrapper("--userspec --groups", 1),
    "setarch": _wrapper("", 1),
    "choom": _wrapper("-n --adjust -p --pid"),
    "prlimit": _wrapper("-p --pid"),
    "systemd-run": _wrapper("-p --property -u --unit -t --description --slice -E --setenv --uid --gid -M"),
    "firejail": _wrapper(),
    "bwrap": _wrapper("--bind --ro-bind --dev --proc --tmpfs --chdir --setenv"),
    "entr": _wrapper(),
    "daemonize": _wrapper("-a -c -e -o -p -l -u -E"),
    "start-stop-daemon": _wrapper("-p --pidfile -n --name -u --user", strings="", operands=0),
    "run-parts": _wrapper("--arg --regex -a -u"),
    "faketime": _wrapper("", 1),
    "logsave": _wrapper("", 1),
    "sshpass": _wrapper("-p -f -d -P"),
    "cpulimit": _wrapper("-l --limit -p --pid -e --exe"),
    "ssh-agent": _wrapper("-a -t"),
    "perf": _wrapper("-e -o -p -C", 1),
    "direnv": _wrapper("", 2),
    "rlwrap": _wrapper("-f -H -p -s -C -b -q"),
    "su-exec": _wrapper("", 1),
    "gosu": _wrapper("", 1),
    "dotenv": _wrapper("-f -e"),
    "npx": _wrapper("-p --package", strings="-c --call"),
    "bunx": _wrapper(),
    "multitime": _wrapper("-n -I -i -o -q -r -s -b"),
    "valgrind": _wrapper(),
}
for _name in names(
    "coproc nohup setsid command builtin exec busybox toybox coreutils unbuffer chronic ifne catchsegv fakeroot "
    "fakechroot proot torsocks torify proxychains proxychains4 eatmydata caffeinate setlock softlimit envdir "
    "dbus-run-session dbus-launch distcc ccache nocache pexec aoss grc aa-exec linux32 linux64 tini dumb-init "
    "cronic "
):
    WRAPPERS.setdefault(_name, _NONE)

PREFIXED: dict[str, tuple[tuple[str, ...], ...]] = {
    "docker": (("exec",), ("container", "exec"), ("compose", "exec")),
    "podman": (("exec",), ("container", "exec")),
    "nerdctl": (("exec",),),
    "kubectl": (("exec",),),
    "oc": (("exec",), ("rsh",)),
    "lxc": (("exec",),),
    "poetry": (("run",),),
    "pipenv": (("run",),),
    "pdm": (("run",),),
    "uv": (("run",),),
    "rye": (("run",),),
    "hatch": (("run",),),
    "conda": (("run",),),
    "bundle": (("exec",),),
    "npm": (("exec",),),
    "pnpm": (("exec",), ("dlx",)),
    "yarn": (("exec",), ("dlx",)),
    "direnv": (("exec",),),
    "doppler": (("run",),),
    "op": (("run",),),
    "adb": (("shell",), ("exec-out",)),
    "multipass": (("exec",),),
    "machinectl": (("shell",),),
    "vagrant": (("ssh",),),
    "git": (("bisect", "run"), ("submodule", "foreach")),
    "bear": (("--",),),
}
"""Tools with a subcommand that runs the rest of their arguments; after `--` when there is one."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def inner_commands(program: str, arguments: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """What a wrapper would run: argument lists, and texts that go to a shell."""
    prefixes = PREFIXED.get(program)
    if prefixes is not None:
        return _after_prefix(arguments, prefixes), []
    if program == "alias":
        return [], [value for _, equals, value in (word.partition("=") for word in arguments) if equals and value]
    wrapper = WRAPPERS.get(program)
    if wrapper is None:
        return [], []
    return _after_options(wrapper, arguments)


def _after_options(wrapper: Wrapper, arguments: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    texts: list[str] = []
    index = 0
    left = wrapper.operands
    while index < len(arguments):
        argument = arguments[index]
        if argument == "--":
            index += 1
            if left == 0:
                break
            continue
        if argument.startswith("-") and len(argument) > 1:
            name, equals, value = argument.partition("=")
            short = argument[:2]
            if name in wrapper.strings:
                texts.append(value if equals else " ".join(arguments[index + 1 : index + 2]))
                index += 1 if equals else 2
            elif short in wrapper.strings and not argument.startswith("--"):
                texts.append(argument[2:] or " ".join(arguments[index + 1 : index + 2]))
                index += 1
            else:
                index += 2 if argument in wrapper.values else 1
        elif wrapper.assigns and _ASSIGNMENT.match(argument):
            index += 1
        elif left:
            left -= 1
            index += 1
        else:
            break
    rest = list(arguments[index:])
    if rest and wrapper.joins:
        texts.append(" ".join(rest))
        return [], texts
    return ([rest] if rest else []), texts


def _after_prefix(arguments: Sequence[str], prefixes: tuple[tuple[str, ...], ...]) -> list[list[str]]:
    plain = [argument for argument in arguments if not argument.startswith("-")]
    for prefix in prefixes:
        if prefix == ("--",):
            return [list(arguments[arguments.index("--") + 1 :])] if "--" in arguments else []
        if tuple(plain[: len(prefix)]) == prefix:
            if "--" in arguments:
                return [list(arguments[arguments.index("--") + 1 :])]
            rest = arguments[arguments.index(prefix[-1]) + 1 :]
            # Where the command starts depends on the tool: each tail that begins with a plain word is a candidate.
            return [list(rest[at:]) for at, word in enumerate(rest[:6]) if not word.startswith("-")][:4]
    return []
