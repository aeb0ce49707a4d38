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
    pairs: frozenset[str] = frozenset()
    """Options that take the next two arguments."""


def _wrapper(
    values: str = "",
    operands: int = 0,
    strings: str = "",
    *,
    joins: bool = False,
    assigns: bool = False,
    pairs: str = "",
) -> Wrapper:
    return Wrapper(names(values), operands, names(strings), joins, assigns, names(pairs))


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
    "wsl": _wrapper("-d --distribution -u --user --cd"),
    "bwrap": _wrapper(
        "--dev --proc --tmpfs --chdir --dir --unsetenv --uid --gid --hostname --remount-ro --file",
        pairs="--bind --ro-bind --dev-bind --bind-try --ro-bind-try --symlink --setenv --bind-data",
    ),
    "proot": _wrapper("-r --rootfs -b --bind -w --pwd -q --qemu -k -S -R"),
    "xvfb-run": _wrapper("-n --server-num -e --error-file -f --auth-file -s --server-args -p --xauth-protocol -w"),
    "gdb": _wrapper("-d --directory -s --symbols -e --exec -c --core -cd --cd -b -l -tty --tty"),
    "screen": _wrapper("-S -t -c -h -p -e -T -L -s -Logfile"),
    "dtach": _wrapper("-e -r -E -z", 1),
    "abduco": _wrapper("-e", 1),
    "tsp": _wrapper("-L -S -D -W"),
    "hyperfine": _wrapper("-w --warmup -r --runs -m -M -n --export-json", joins=True),
    "watchexec": _wrapper("-e --exts -w --watch -i --ignore -f --filter -d --debounce -s --signal", joins=True),
    "gtimeout": _wrapper("-s --signal -k --kill-after", 1),
    "gnice": _wrapper("-n --adjustment"),
    "gstdbuf": _wrapper("-i -o -e"),
    "mpirun": _wrapper("-n -np -c -H --host --hostfile -x -mca"),
    "mpiexec": _wrapper("-n -np -c -H --host --hostfile -x -mca"),
    "srun": _wrapper("-n -N -p -t -c -J -A -w -o -e"),
    "uftrace": _wrapper("", 1),
    "heaptrack": _wrapper("-o -p"),
    "rr": _wrapper("-o", 1),
    "lldb": _wrapper("-f -c -p -n -s -S -o -O"),
    "cgexec": _wrapper("-g"),
    "schroot": _wrapper("-c -u -d --chroot --user --directory"),
    "nsjail": _wrapper("-c --chroot -u -g -M"),
    "lxc-execute": _wrapper("-n -f"),
    "lxc-attach": _wrapper("-n"),
    "pdsh": _wrapper("-w -x -l -f", joins=True),
    "clush": _wrapper("-w -x -g", joins=True),
    "pssh": _wrapper("-h -H -l -t -o -e", joins=True),
    "dsh": _wrapper("-m -g -f", joins=True),
    "entr": _wrapper(),
    "trickle": _wrapper("-u -d -w -t -l"),
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
    "rlwrap": _wrapper("-f -H -l -p -s -C -b -q"),
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
    "cronic arch jc "
):
    WRAPPERS.setdefault(_name, _NONE)

PREFIXED: dict[str, tuple[tuple[str, ...], ...]] = {
    "docker": (("exec",), ("container", "exec"), ("compose", "exec"), ("compose", "run")),
    "podman": (("exec",), ("container", "exec"), ("unshare",)),
    "buildah": (("unshare",), ("run",)),
    "crictl": (("exec",),),
    "ctr": (("task", "exec"), ("tasks", "exec")),
    "bun": (("x",),),
    "nerdctl": (("exec",),),
    "kubectl": (("exec",), ("run",), ("debug",)),
    "ip": (("netns", "exec"),),
    "tmux": (
        ("new-session",),
        ("new",),
        ("new-window",),
        ("neww",),
        ("split-window",),
        ("splitw",),
        ("respawn-pane",),
        ("respawn-window",),
        ("display-popup",),
        ("popup",),
        ("pipe-pane",),
    ),
    "apptainer": (("exec",), ("run",)),
    "singularity": (("exec",), ("run",)),
    "distrobox": (("enter",),),
    "toolbox": (("run",),),
    "flatpak-spawn": (("--",),),
    "chezmoi": (("execute-template",),),
    "mise": (("exec",), ("x",)),
    "asdf": (("exec",),),
    "nix": (("run",), ("shell",), ("develop",)),
    "devbox": (("run",),),
    "devcontainer": (("exec",),),
    "lima": (("--",),),
    "limactl": (("shell",),),
    "colima": (("ssh",),),
    "incus": (("exec",),),
    "ddev": (("exec",),),
    "lando": (("ssh",),),
    "fly": (("ssh", "console"),),
    "heroku": (("run",),),
    "gcloud": (("compute", "ssh"),),
    "chamber": (("exec",),),
    "aws-vault": (("exec",),),
    "envchain": (("--",),),
    "dotenvx": (("run",),),
    "infisical": (("run",),),
    "systemd-inhibit": (("--",),),
    "cargo": (("watch",),),
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
    "npm": (("exec",), ("explore",)),
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

_ONLY_AFTER_DASHES = frozenset({("debug",), ("develop",), ("enter",)})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def inner_commands(program: str, arguments: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """What a wrapper would run: argument lists, and texts that go to a shell."""
    if program == "command" and arguments[:1] in (["-v"], ["-V"]):
        return [], []
    prefixes = PREFIXED.get(program)
    if prefixes is not None:
        return _after_prefix(arguments, prefixes), []
    if program == "alias":
        return [], [value for _, equals, value in (word.partition("=") for word in arguments) if equals and value]
    wrapper = WRAPPERS.get(program)
    if program == "setarch" and arguments[:1] and arguments[0].startswith("-"):
        wrapper = _NONE  # the architecture is left out
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
                index += 3 if argument in wrapper.pairs else 2 if _takes_next(argument, wrapper.values) else 1
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


def _takes_next(argument: str, values: frozenset[str]) -> bool:
    """`-n 5`, and `-dmS name`: the last letter of a cluster takes the next argument, unless the first took the rest."""
    if argument in values:
        return True
    cluster = len(argument) > 2 and argument[1] != "-" and argument[:2] not in values
    return cluster and f"-{argument[-1]}" in values


def _after_prefix(arguments: Sequence[str], prefixes: tuple[tuple[str, ...], ...]) -> list[list[str]]:
    plain = [argument for argument in arguments if not argument.startswith("-")]
    for prefix in prefixes:
        if prefix == ("--",):
            return [list(arguments[arguments.index("--") + 1 :])] if "--" in arguments else []
        if tuple(plain[: len(prefix)]) == prefix:
            if "--" in arguments:
                return [list(arguments[arguments.index("--") + 1 :])]
            if prefix in _ONLY_AFTER_DASHES:
                return []
            rest = arguments[arguments.index(prefix[-1]) + 1 :]
            # Where the command starts depends on the tool: each tail that begins with a plain word is a candidate.
            return [list(rest[at:]) for at, word in enumerate(rest[:6]) if not word.startswith("-")][:4]
    return []
