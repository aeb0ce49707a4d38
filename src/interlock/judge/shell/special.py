"""Programs whose arguments need more than a table of options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from interlock.judge.shell import embedded, programs
from interlock.judge.shell.flags import names, operands, option_values, uses_flag
from interlock.judge.shell.git import Verdict, judge_git
from interlock.judge.shell.sed import sed_effects, sed_scripts


def _rm(arguments: Sequence[str]) -> Iterator[Verdict]:
    if uses_flag(arguments, frozenset({"-r", "-R", "--recursive", "--no-preserve-root"})):
        yield "shell.recursive_delete", "removes whole directory trees", "delete the files by name, without -r"
    elif any(programs.ROOTS.match(word) or "*" in word or "?" in word for word in operands(arguments)):
        yield "shell.mass_delete", "deletes whatever matches a pattern", "name each file"
    elif any(programs.WRITE_TARGETS.search(word) for word in arguments):
        yield "shell.system_file", "deletes a file of the system", "delete below the working directory only"


_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DELETERS = frozenset({"rm", "unlink", "shred", "rmdir", "srm", "mv", "chmod", "chown", "dd", "truncate"})
_RUNNABLE = names(
    "ls stat file grep egrep fgrep wc head tail cat echo printf basename dirname md5sum sha1sum sha256sum du test "
    "readlink realpath cksum"
)


def _find(arguments: Sequence[str]) -> Iterator[Verdict]:
    for index, argument in enumerate(arguments):
        if argument in _FIND_RUNS:
            ran = arguments[index + 1] if index + 1 < len(arguments) else ""
            name = ran.rpartition("/")[2]
            if name in _DELETERS:
                yield "shell.mass_delete", f"runs {name!r} on every match", "list the matches, then act on each by name"
            elif name not in _RUNNABLE:
                yield "shell.runs_command", f"find runs {name or 'a command'!r} on every match", "list the matches only"


def _xargs(arguments: Sequence[str]) -> Iterator[Verdict]:
    names = {word.rpartition("/")[2] for word in arguments}
    if names & _DELETERS:
        yield "shell.mass_delete", "deletes or changes whatever comes in", "name each file"
    elif names & programs.SHELLS:
        yield "shell.runs_shell", "gives what comes in to a shell", "run the program directly"


def _script(arguments: Sequence[str]) -> Iterator[Verdict]:
    if not uses_flag(arguments, frozenset({"-c", "--command"})):
        yield "shell.runs_shell", "script starts a shell", "run the program directly"


def _getent(arguments: Sequence[str]) -> Iterator[Verdict]:
    if arguments[:1] in (["shadow"], ["gshadow"]):
        yield "shell.secret_file", "reads password hashes", "ask for the group or passwd table"


def _mount_options(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any("ssh_command" in word or "ProxyCommand" in word for word in arguments):
        yield "shell.runs_code", "a mount option names a program to run", "leave the option out"


def _dd(arguments: Sequence[str]) -> Iterator[Verdict]:
    for word in arguments:
        target = word.partition("=")[2]
        if word.startswith("of=") and (programs.DEVICE.match(target) or programs.WRITE_TARGETS.search(target)):
            yield "shell.destructive", f"overwrites {target!r}", "write to a regular file"
        elif word.startswith("if=") and programs.DEVICE.match(target):
            yield "shell.secret_file", f"reads all of {target!r}, past every permission", "read the files by name"


_MODE = re.compile(r"^0?[2-7][0-7]{3}$|^[ugoa]*[+=]\w*s|^[ugoa]*\+\w*t\w*s")
_OPEN_MODE = re.compile(r"^0?[0-7]?777$|^[ao]?\+rwx$|^a\+\w*w|^o\+\w*w|^ugo\+\w*w")


def _chmod(arguments: Sequence[str]) -> Iterator[Verdict]:
    words = operands(arguments)
    if any(_MODE.match(word) for word in words[:1]):
        yield "shell.privilege", "sets the set-user-id or set-group-id bit", "leave the mode without those bits"
    elif (
        words
        and _OPEN_MODE.match(words[0])
        and (uses_flag(arguments, frozenset({"-R", "--recursive"})) or _rooted(words[1:]))
    ):
        yield "shell.permissions", "lets everyone write", "give the least mode that works"
    else:
        yield from _recursive_on_root(arguments)


def _recursive_on_root(arguments: Sequence[str]) -> Iterator[Verdict]:
    if uses_flag(arguments, frozenset({"-R", "--recursive"})) and _rooted(operands(arguments)):
        yield "shell.permissions", "changes everything below a root", "name the files"


def _rooted(words: Sequence[str]) -> bool:
    return any(programs.ROOTS.match(word) and word not in (".", "./", "*", "./*") for word in words)


def _install(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(_MODE.match(mode) for mode in option_values(arguments, "-m", "--mode", "gotS")):
        yield "shell.privilege", "installs with a set-user-id bit", "leave the mode without those bits"


def _kill(arguments: Sequence[str]) -> Iterator[Verdict]:
    if "-1" in arguments[1:] or arguments[-1:] == ["1"] or (len(arguments) == 1 and arguments[0] == "-1"):
        yield "shell.destructive", "kills every process, or the first one", "name one process"


_BY_USER = names("-u -U --user --euid --uid")
_KILLER_VALUES = _BY_USER | names("-s --signal -g -G -P -t -o -y --ns --group --parent --older-than --younger-than")


def _kill_by_name(arguments: Sequence[str]) -> Iterator[Verdict]:
    words = operands(arguments, _KILLER_VALUES)
    if (uses_flag(arguments, _BY_USER, "sgGPt") and not words) or {".", ".*", ""}.intersection(words):
        yield "shell.destructive", "kills everything that somebody runs", "name the program"


_SSH_OPTIONS = re.compile(
    r"(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|RemoteCommand|ProxyUseFdpass|PKCS11Provider|"
    r"SecurityKeyProvider|XAuthLocation|SmartcardDevice|Match|Include)\b",
    re.IGNORECASE,
)


def _trace(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(word.lstrip("-o")[:1] in ("|", "!") for word in arguments if word):
        yield "shell.runs_code", "what is traced goes to a program", "write it to a file"


def _openssl(arguments: Sequence[str]) -> Iterator[Verdict]:
    if arguments[:1] == ["engine"] and any("/" in word or word.endswith(".so") for word in arguments):
        yield "shell.runs_code", "loads a library", "name an engine that is installed"


def _ssh(arguments: Sequence[str]) -> Iterator[Verdict]:
    for index, word in enumerate(arguments):
        value = (
            arguments[index + 1]
            if word == "-o" and index + 1 < len(arguments)
            else word[2:]
            if word.startswith("-o")
            else ""
        )
        if value and _SSH_OPTIONS.match(value.strip()):
            yield "shell.runs_code", "an ssh option names a program to run", "leave the option out"
        if uses_flag([word], frozenset({"-R"}), "bBcDeEFiIJlLmoOpPQSwW"):
            yield "shell.tunnel", "opens a way back in from the other host", "leave -R out"
        if word == "/":
            yield "shell.secret_file", "copies the whole machine", "name the files"
        if "ProxyCommand" in word:
            yield "shell.runs_code", "an ssh option names a program to run", "leave the option out"


def _awk(arguments: Sequence[str]) -> Iterator[Verdict]:
    for word in arguments:
        if embedded.awk_runs(word):
            yield "shell.runs_code", "the awk program runs commands", "leave system() and pipes out of it"
        elif embedded.awk_writes(word):
            yield "shell.writes", "the awk program writes files", "let it print only"
    if uses_flag(arguments, frozenset({"-E", "--exec", "-i", "--include", "-l", "--load"}), "Ffv"):
        yield "shell.runs_code", "awk is told to load code", "leave the option out"


def _sed(arguments: Sequence[str]) -> Iterator[Verdict]:
    for script in sed_scripts(arguments):
        effects = sed_effects(script)
        if effects & {"runs", "unknown"}:
            yield (
                "shell.runs_code",
                "the sed script runs commands, or cannot be read",
                "leave its e command and flag out",
            )
        elif "writes" in effects:
            yield "shell.writes", "the sed script writes files", "leave its w command out"


_PIP_LOOKS = names("list show freeze check --version -V help config debug inspect")


def _python(arguments: Sequence[str]) -> Iterator[Verdict]:
    for index, word in enumerate(arguments[:4]):
        module = (
            arguments[index + 1]
            if word == "-m" and index + 1 < len(arguments)
            else word[2:]
            if word.startswith("-m")
            else ""
        )
        if module in ("venv", "virtualenv") and any(programs.WRITE_TARGETS.search(each) for each in arguments):
            yield "shell.system_file", "writes to a directory of the system", "write below the working directory"
        if module == "pip" and set(arguments[index + 2 : index + 3]) & _PIP_LOOKS:
            return
        if module in programs.PYTHON_MODULES:
            yield "shell.runs_code", f"python -m {module} installs or runs other code", "run a script file"
        if not word.startswith("-"):
            break
    if arguments[-1:] == ["-"]:
        yield "shell.runs_code", "reads a program from its input", "name a script file"


def _vim(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(
        word.startswith("+") and re.search(r"[!:a-z]", word[1:]) and not word[1:].startswith("/") for word in arguments
    ):
        yield "shell.runs_code", "gives the editor a command to run", "open the file only"


_SOCAT = re.compile(r"(?:exec|system|shell|open|create|gopen|pipe)(?::|$)", re.IGNORECASE)


def _socat(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(_SOCAT.match(word.lstrip("'\"")) for word in arguments):
        yield "shell.runs_code", "socat is given a program or a file", "connect sockets only"


def _rsync(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(word.startswith(("--del", "--remove-source")) for word in arguments):
        yield "shell.recursive_delete", "rsync deletes what the source does not hold", "copy without --delete"
    for shell in option_values(arguments, "-e", "--rsh"):
        words = shell.split()
        if words[:1] != ["ssh"] or next(_ssh(words[1:]), None) is not None:
            yield (
                "shell.runs_code",
                "rsync is told which program to run",
                "let it use ssh, without options that run programs",
            )


_MOUNTS_HOST = re.compile(
    r"^--privileged|security\.privileged=true|^--(?:pid|net|network|ipc|uts|userns|cgroupns)=host|^--cap-add|^--device|^--security-opt"
    r"|(?:^|=|,)(?:src|source)=/(?:,|$|etc|root|var|proc|sys|home|run|boot)|^(?:-v=?|--volume=)?/(?::|(?:etc|root|"
    r"var/run|proc|sys|run|boot)\b.*:)"
)


def _containers(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any(_MOUNTS_HOST.search(word) for word in arguments):
        yield "shell.privilege", "the container is given the host", "leave host mounts and privileges out"
    for first, second in pairwise(arguments):
        if first in ("--pid", "--net", "--network", "--ipc", "--userns") and second == "host":
            yield "shell.privilege", "the container is given the host", "leave host namespaces out"


_INSTALLS = re.compile(r"(?:^|\s)(?:-[a-zA-Z]*[iUFS]|--(?:install|unpack|upgrade|freshen)|(?:local)?install|add|-U)\b")


def _packages(arguments: Sequence[str]) -> Iterator[Verdict]:
    if _INSTALLS.search(" ".join(arguments[:4])) and any(programs.PACKAGE_FILE.search(word) for word in arguments):
        yield "shell.runs_code", "installs a package file, whose scripts run", "install by name from a repository"
    elif any("-Invoke" in word or "::Run" in word for word in arguments):
        yield "shell.runs_code", "a package manager option names a program to run", "leave the option out"


def _parted(arguments: Sequence[str]) -> Iterator[Verdict]:
    if not uses_flag(arguments, frozenset({"-l", "--list"})) and "print" not in arguments:
        yield "shell.destructive", "changes the partitions of a disk", "list them only"


def _disks(arguments: Sequence[str]) -> Iterator[Verdict]:
    if not uses_flag(
        arguments, frozenset({"-l", "--list", "-s", "--show-geometry", "-d", "--dump", "-x", "--list-details"})
    ) and ("print" not in arguments):
        yield "shell.destructive", "changes the partitions of a disk", "list them only"


def _words(bad: str, rule: str, message: str, hint: str) -> Callable[[Sequence[str]], Iterator[Verdict]]:
    wanted = names(bad)

    def judge(arguments: Sequence[str]) -> Iterator[Verdict]:
        if wanted.intersection(arguments):
            yield rule, message, hint

    return judge


def _crontab(arguments: Sequence[str]) -> Iterator[Verdict]:
    if "-l" not in arguments:
        yield "shell.persistence", "changes what runs later", "list the table with -l"


def _sysctl(arguments: Sequence[str]) -> Iterator[Verdict]:
    if any("kernel.core_pattern" in word or "modprobe" in word or "uevent_helper" in word for word in arguments):
        yield "shell.runs_code", "a kernel setting names a program to run", "leave the setting alone"


def _systemctl(arguments: Sequence[str]) -> Iterator[Verdict]:
    yield from _power(arguments)
    if "set-environment" in arguments and any(_LOADS.match(word) for word in arguments):
        yield "shell.runs_code", "a variable for all units names code to load", "leave the variable alone"
    if "enable" in arguments and any("/" in word for word in arguments):
        yield "shell.persistence", "installs a unit from a file", "enable a unit by its name"


def _ansible(arguments: Sequence[str]) -> Iterator[Verdict]:
    for first, second in pairwise(arguments):
        if first in ("-m", "--module-name") and second in ("shell", "command", "raw", "script"):
            yield "shell.runs_code", "runs a command on other hosts", "use a module that does this one thing"


_LOADS = re.compile(
    r"(?:LD_|DYLD_|PYTHON|PERL|RUBY|NODE_|JAVA_|GIT_|BASH_|PATH\b|ENV\b|IFS\b|SHELL\b|EDITOR\b|PAGER\b)"
)
_firewall = _words(
    "-F --flush flush -X disable stop", "shell.destructive", "takes the firewall down", "change one rule at a time"
)
_power = _words(
    "poweroff reboot halt kexec emergency rescue link edit", "shell.destructive",
    "stops the machine or installs a unit", "ask for the state only",
)  # fmt: skip
_datasets = _words("destroy labelclear format luksFormat luksErase erase sanitize --make-bad-sector "
"--security-erase", "shell.destructive",
                   "destroys a disk or a pool", "list it only")  # fmt: skip

SPECIAL: dict[str, Callable[[Sequence[str]], Iterator[Verdict]]] = {
    "rm": _rm, "del": _rm, "unlink": _rm,
    "find": _find, "gfind": _find,
    "xargs": _xargs, "parallel": _xargs, "fd": _xargs,
    "dd": _dd, "dcfldd": _dd, "dc3dd": _dd,
    "chmod": _chmod, "chown": _recursive_on_root, "chgrp": _recursive_on_root, "install": _install,
    "kill": _kill, "pkill": _kill_by_name, "killall": _kill_by_name,
    "script": _script, "getent": _getent, "setfacl": _recursive_on_root, "chattr": _recursive_on_root,
    "git": judge_git,
    "ssh": _ssh, "scp": _ssh, "sftp": _ssh, "autossh": _ssh, "sshfs": _mount_options, "mosh": _ssh,
    "awk": _awk, "gawk": _awk, "mawk": _awk, "nawk": _awk, "busybox-awk": _awk,
    "sed": _sed, "gsed": _sed,
    "python": _python, "python2": _python, "python3": _python, "pypy": _python, "pypy3": _python,
    **dict.fromkeys(("vim", "vi", "view", "nvim", "ex", "gvim", "rvim", "rview", "vimdiff"), _vim),
    "socat": _socat, "socat1": _socat,
    "rsync": _rsync,
    "docker": _containers, "podman": _containers, "nerdctl": _containers, "ctr": _containers,
    "runc": _containers, "lxc": _containers, "incus": _containers,
    **dict.fromkeys(programs.PACKAGE_MANAGERS, _packages),
    "fdisk": _disks, "sfdisk": _disks, "gdisk": _disks, "sgdisk": _disks, "parted": _parted, "cfdisk": _disks,
    "iptables": _firewall, "ip6tables": _firewall, "nft": _firewall, "ufw": _firewall,
    "systemctl": _systemctl, "ansible": _ansible, "init": _words("0 6", "shell.destructive", "stops the "
    "machine", "leave it running"),
    "zpool": _datasets, "zfs": _datasets, "cryptsetup": _datasets, "nvme": _datasets, "hdparm": _datasets,
    "crontab": _crontab,
    "strace": _trace, "ltrace": _trace, "openssl": _openssl,
    "sysctl": _sysctl,
}  # fmt: skip
"""Each judge yields what is wrong with the arguments of its program."""
