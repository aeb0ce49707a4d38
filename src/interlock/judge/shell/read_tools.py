"""Developers' tools that can look without changing: checkers, formatters asked to check, clients asked to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from interlock.judge.shell.flags import names, operands, option_values, uses_flag

Form = Callable[[Sequence[str]], str | None]
"""Why a use of a program writes, or None when it only reads."""


def _only_with(flags: str, values: str = "") -> Form:
    """A formatter, which rewrites files unless it is told to check."""
    wanted = names(flags)

    def form(arguments: Sequence[str]) -> str | None:
        if uses_flag(arguments, wanted, values) is not None:
            return None
        return "without one of " + ", ".join(sorted(wanted)) + " it rewrites files"

    return form


def _unless(flags: str, values: str = "") -> Form:
    """A checker, which reads unless it is told to fix or to save a report."""
    writing = names(flags)

    def form(arguments: Sequence[str]) -> str | None:
        used = uses_flag(arguments, writing, values, abbreviated=False)
        return f"{used[:40]!r} writes or runs something" if used else None

    return form


def _ruff(arguments: Sequence[str]) -> str | None:
    verb = (operands(arguments) or [""])[0]
    if verb == "format":
        return _only_with("--check --diff")(arguments)
    if verb == "check":
        return _unless("--fix --fix-only --unsafe-fixes --add-noqa -o --output-file -w --watch")(arguments)
    return None if verb in ("rule", "linter", "config", "version", "help", "") else f"ruff {verb[:20]} may write"


_RPM_QUERIES = re.compile(r"^-(?:q[a-zA-Z]*|V[a-zA-Z]*|K|-query\w*|-verify|-checksig|-showrc|-querytags)$")
_RPM_WRITES = names(
    "--eval -E --pipe --define -D --import --rebuilddb --initdb --install --erase --upgrade --root --load"
)


def _rpm(arguments: Sequence[str]) -> str | None:
    used = uses_flag(arguments, _RPM_WRITES, "*")
    if used:
        return f"{used[:40]!r} writes or runs something"
    return None if any(_RPM_QUERIES.match(word) for word in arguments) else "without -q or -V it installs or removes"


_REDIS_READS = names(
    "get mget getrange strlen exists ttl pttl type keys scan dbsize info ping echo time llen lrange lindex scard "
    "smembers sismember srandmember sscan sinter sunion sdiff hget hgetall hkeys hvals hlen hmget hexists hscan zrange "
    "zrangebyscore zrevrange zcard zscore zrank zcount zscan xlen xrange xrevrange randomkey "
    "bitcount getbit pfcount geopos geodist geosearch lastsave role slowlog latency command monitor json.get dump lpos"
)
_REDIS_PAIRS = {
    "client": names("list info getname id"), "config": names("get"), "memory": names("usage stats doctor"),
    "object": names("encoding freq idletime refcount"), "slowlog": names("get len"), "latency": names("latest history"),
    "acl": names("list whoami cat getuser users"), "pubsub": names("channels numsub numpat"),
    "cluster": names("info nodes slots shards"), "xinfo": names("stream groups consumers"),
}  # fmt: skip


def _redis(arguments: Sequence[str]) -> str | None:
    if uses_flag(arguments, names("--eval --pipe -x --rdb --functions-rdb --cluster --ldb"), "hpsanriu"):
        return "it runs a script or saves a file"
    words = [
        word.lower()
        for word in operands(arguments, names("-h -p -s -a -n -r -i -u -d --user --pass --host --port --pattern"))
    ]
    if not words:
        scans = uses_flag(arguments, names("--scan --bigkeys --memkeys --hotkeys --stat --latency"))
        return None if scans else "it waits for commands that are not judged"
    verb, what = [*words, ""][:2]
    if verb in _REDIS_PAIRS:
        return None if what in _REDIS_PAIRS[verb] else f"redis {verb} {what[:20]} may write"
    return None if verb in _REDIS_READS else f"redis {verb[:20]} may write"


_GH_API_WRITES = names("-f --raw-field -F --field --input")


def _gh(arguments: Sequence[str]) -> str | None:
    """`gh api` is a GET until it is given fields or another method; the other verbs are the table's business."""
    if operands(arguments)[:1] != ["api"]:
        return None
    methods = [*option_values(arguments, "-X", "--method", "HqtpfF")]
    if any(method.upper() not in ("GET", "HEAD") for method in methods):
        return "the method changes something"
    if not methods and uses_flag(arguments, _GH_API_WRITES, "HqtpX"):
        return "fields make it a POST"
    return "graphql can change something" if "graphql" in arguments else None


def _service(arguments: Sequence[str]) -> str | None:
    reads = arguments == ["--status-all"] or list(arguments[1:]) == ["status"]
    return None if reads else "anything but status changes a service"


def _netcat(arguments: Sequence[str]) -> str | None:
    if uses_flag(arguments, names("-e -c --exec --sh-exec --lua-exec"), "wpsX"):
        return "it runs a program"
    return None if uses_flag(arguments, frozenset({"-z"}), "wpsX") else "without -z it sends what it is given"


def _go(arguments: Sequence[str]) -> str | None:
    return "it sets a variable" if arguments[:1] == ["env"] and {"-w", "-u"}.intersection(arguments) else None


def _poetry(arguments: Sequence[str]) -> str | None:
    return None if operands(arguments)[:1] != ["version"] or len(operands(arguments)) == 1 else "it sets the version"


def _terraform(arguments: Sequence[str]) -> str | None:
    return "it writes files" if operands(arguments)[:2] in (["providers", "mirror"], ["providers", "lock"]) else None


def _kubectl(arguments: Sequence[str]) -> str | None:
    """`-o` and `--output` are for the form of what is shown, `--output-directory` for a place."""
    saves = any(word.startswith("--output-d") for word in arguments)
    return "it writes files" if saves else None


def _identify(arguments: Sequence[str]) -> str | None:
    runs = any(re.match(r"\||(?i:msl|ephemeral|mvg|https?|url):", word) for word in arguments)
    return "it runs a program, a script or a transfer" if runs else None


def _npm_audit(arguments: Sequence[str]) -> str | None:
    return "audit fix rewrites the packages" if operands(arguments)[:2] == ["audit", "fix"] else None


def _python(arguments: Sequence[str]) -> str | None:
    """Only the modules of the standard library that print what they are given."""
    if list(arguments) in (["-V"], ["-VV"], ["--version"], ["--help"]):
        return None
    module = arguments[1] if len(arguments) > 1 and arguments[0] == "-m" else ""
    if module == "json.tool" and len(operands(arguments[2:], names("--indent"))) <= 1:
        return None
    if module in ("tokenize", "ast", "dis", "calendar", "site", "sysconfig", "platform", "tabnanny"):
        return None
    return "a program in another language can do anything"


def _only_version(arguments: Sequence[str]) -> str | None:
    reads = len(arguments) == 1 and arguments[0] in ("-v", "-V", "--version", "-version", "version", "--help")
    return None if reads else "anything but its version runs or writes something"


_FORMATTERS = {
    "black": "--check --diff --version", "isort": "-c --check --check-only --diff --version", "yapf": "-d --diff",
    "autopep8": "-d --diff --list-fixes", "rustfmt": "--check --version --print-config",
    "prettier": "-c --check -l --list-different --find-config-path --file-info --version",
    "tsc": "--noEmit --version -v --showConfig --listFilesOnly", "objcopy": "--version --info",
    "dprint": "--list-different", "taplo": "--check", "nixfmt": "-c --check", "ktlint": "--version",
}  # fmt: skip
"""Programs that rewrite files unless one of these is there."""
_ONE_DASH = {
    "gofmt": "-w -r", "goimports": "-w", "gofumpt": "-w", "clang-format": "-i", "actionlint": "-shellcheck -pyflakes",
    "nmap": "-oN -oX -oG -oA -oS --script --resume",
}  # fmt: skip
_CHECKERS = {
    "shfmt": "-w --write", "buf": "-o --output -w --write", "flake8": "--output-file --tee",
    "pylint": "--output --init-hook --load-plugins --generate-rcfile", "pycodestyle": "--output",
    "pydocstyle": "--output", "bandit": "-o --output", "stylelint": "--fix -o --output-file",
    "eslint": "--fix --fix-type -o --output-file --init --cache --rulesdir --resolve-plugins-relative-to",
    "markdownlint": "-f --fix -o --output", "tflint": "--init --fix", "jsonlint": "-i --in-place",
    "typos": "-w --write-changes --dump-config", "codespell": "-w --write-changes -i --interactive",
    "golangci-lint": "--fix --out-format", "htmlq": "-o --output", "pup": "-f --file-out", "mlr": "-I",
    "xsv": "-o --output", "qsv": "-o --output", "csvsql": "--insert --db", "rhash": "-o --output -u --update",
    "drill": "-f -w -q", "ncdu": "-o", "gdu": "-o", "glow": "-w", "wl-paste": "-w --watch", "tshark": "-w -X -F",
    "xsel": "-i --input -a --append -c --clear -x --exchange -d --delete -k --keep",
}  # fmt: skip
"""Programs that read unless one of these is there."""
_ALWAYS_READ = names(
    "shellcheck yamllint hadolint checkbashisms write-good ldd c++filt addr2line gron in2csv datamash envsubst ts "
    "mdcat cksfv ssdeep hashdeep dog doggo kdig procs dust duf erd onefetch loc pbpaste mtr"
)
_VERSION_ONLY = names(
    "node java javac ruby perl php rustc gcc clang g++ make cmake bash zsh vim nvim emacs docker-compose ssh iperf3"
)

TOOL_FORMS: dict[str, Form] = {
    **{name: _only_with(flags) for name, flags in _FORMATTERS.items()},
    **{name: _unless(flags) for name, flags in _CHECKERS.items()},
    **{name: _unless(flags, "*") for name, flags in _ONE_DASH.items()},
    **dict.fromkeys(_ALWAYS_READ, _unless("")),
    **dict.fromkeys(_VERSION_ONLY, _only_version),
    **dict.fromkeys(("python", "python3", "python2"), _python),
    "ruff": _ruff,
    "rpm": _rpm,
    "redis-cli": _redis,
    "valkey-cli": _redis,
    "gh": _gh,
    "service": _service,
    "npm": _npm_audit,
    "go": _go,
    **dict.fromkeys(("terraform", "tofu"), _terraform),
    "poetry": _poetry,
    "identify": _identify,
    **dict.fromkeys(("kubectl", "oc", "k"), _kubectl),
    **dict.fromkeys(("nc", "ncat", "netcat"), _netcat),
}
