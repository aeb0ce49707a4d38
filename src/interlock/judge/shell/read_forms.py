"""Programs with a language or verbs of their own: a form says why a use of one writes, or None if it only reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from interlock.judge.shell import embedded, programs
from interlock.judge.shell.flags import names, operands, option_values, uses_flag
from interlock.judge.shell.git import judge_git
from interlock.judge.shell.read_tools import TOOL_FORMS
from interlock.judge.shell.sed import sed_effects, sed_scripts


def _find(arguments: Sequence[str]) -> str | None:
    used = uses_flag(arguments, frozenset({"-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-ok", "-okdir"}), "*")
    return f"{used} writes" if used else None


def ran_by(name: str, arguments: Sequence[str]) -> Iterator[list[str]]:
    """The commands that `find -exec` and `fd -x` run."""
    at = 0
    if name in ("fd", "fdfind"):
        runs = next((at for at, word in enumerate(arguments) if word in _FD_RUNS), None)
        if runs is not None:
            yield list(arguments[runs + 1 :]) or [""]
    while name in ("find", "gfind") and at < len(arguments):
        if arguments[at] in ("-exec", "-execdir"):
            start = at + 1
            at = next((end for end in range(start, len(arguments)) if arguments[end] in (";", "+")), len(arguments))
            yield list(arguments[start:at]) or [""]
        at += 1


_FD_RUNS = frozenset({"-x", "--exec", "-X", "--exec-batch"})


def _awk(arguments: Sequence[str]) -> str | None:
    if uses_flag(
        arguments,
        frozenset(
            {
                *("-f", "--file", "-E", "--exec", "-i", "--include", "-l", "--load", "-d", "-p", "-o"),
                *("--dump-variables", "--profile", "--pretty-print", "--debug"),
            }
        ),
        "Fv",
    ):
        return "the program or a library comes from a file, or something is dumped to one"
    for word in arguments:
        if embedded.awk_runs(word) or embedded.awk_writes(word):
            return "the program writes files or runs commands"
    return None


def _sed(arguments: Sequence[str]) -> str | None:
    if uses_flag(arguments, frozenset({"-i", "--in-place", "-I", "-f", "--file"}), "elE"):
        return "it edits in place, or runs a script file"
    if any(sed_effects(script) for script in sed_scripts(arguments)):
        return "the script writes files, runs commands or cannot be read"
    return None


_CURL_WRITES = names(
    "-O --remote-name --remote-name-all -J --remote-header-name -T --upload-file -d --data "
    "--data-raw --data-binary --data-ascii "
    "--data-urlencode -F --form --form-string -c --cookie-jar -D --dump-header --trace --trace-ascii --stderr -K "
    "--config --libcurl "
    "--etag-save --hsts --alt-svc --output-dir -Q --quote --json --mail-from --mail-rcpt --create-dirs --engine "
    "--unix-socket "
    "--abstract-unix-socket --ssl-sessions --append -a"
)
_CURL_VALUES = "HAbeumwxyYzCEPrt"
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def _curl(arguments: Sequence[str]) -> str | None:
    writes = _CURL_WRITES
    if uses_flag(arguments, names("-G --get"), _CURL_VALUES + "oX", abbreviated=False):
        writes = writes - names("-d --data --data-raw --data-binary --data-ascii --data-urlencode")
    used = uses_flag(arguments, writes, _CURL_VALUES + "oX")
    if used:
        return f"{used[:30]!r} writes or sends something"
    for value in option_values(arguments, "-X", "--request", _CURL_VALUES):
        if value.upper() not in _READ_METHODS:
            return f"the method {value!r} changes something"
    for value in option_values(arguments, "-o", "--output", _CURL_VALUES):
        if value not in ("-", "/dev/null"):
            return "it writes a file"
    return "it writes a file" if any("%output{" in word for word in arguments) else None


def _wget(arguments: Sequence[str]) -> str | None:
    if uses_flag(
        arguments, frozenset({"--post-data", "--post-file", "--method", "--body-data", "--body-file", "--use-askpass"})
    ):
        return "it sends something"
    if uses_flag(
        arguments,
        frozenset(
            {
                "-o",
                "--output-file",
                "-a",
                "--append-output",
                "-e",
                "--execute",
                "--save-cookies",
                "--warc-file",
                "--rejected-log",
            }
        ),
        "OPtTwQUDAR",
    ):
        return "it writes a log or runs a setting"
    joined = " ".join(arguments)
    return None if re.search(r"--spider|-\w*O ?-(?:\s|$)|--output-document[= ]-(?:\s|$)", joined) else "it saves a file"


_GIT_READS = names(
    "log status diff show blame annotate grep ls-files ls-tree ls-remote cat-file rev-parse "
    "rev-list describe shortlog name-rev "
    "merge-base for-each-ref show-ref show-branch var version help whatchanged diff-tree diff-files diff-index "
    "count-objects fsck verify-commit "
    "verify-tag verify-pack check-ignore check-attr check-mailmap check-ref-format cherry range-diff "
    "get-tar-commit-id patch-id "
    "request-pull merge-tree show-index"
)
_GIT_SUBREADS = {
    "stash": {"list", "show"},
    "worktree": {"list"},
    "submodule": {"status", "summary"},
    "notes": {"list", "show"},
    "bisect": {"log", "view", "visualize"},
    "bundle": {"verify", "list-heads"},
    "remote": {"show", "get-url"},
    "reflog": {"show", "exists"},
    "lfs": {"ls-files", "status", "env", "locks"},
    "config": {"get", "list"},
    "sparse-checkout": {"list"},
    "maintenance": set[str](),
    "replace": set[str](),
}
_GIT_WRITE_FLAGS = frozenset(
    {"--output", "-O", "--open-files-in-pager", "--ext-diff", "--upload-pack", "--exec", "--textconv", "--lost-found"}
)


def _git(arguments: Sequence[str]) -> str | None:
    if next(judge_git(arguments), None) is not None:
        return "it runs programs or deletes files"
    words = operands(arguments, frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace"}))
    if not words:
        return None
    verb, rest = words[0], words[1:]
    flags = list(arguments[list(arguments).index(verb) + 1 :])
    if uses_flag(flags, _GIT_WRITE_FLAGS, "SGnLlMCUBDX" if verb != "grep" else "eAmBCf", abbreviated=True):
        return "an option writes a file or runs a program"
    if verb in _GIT_READS:
        return None
    if verb == "branch":
        return _git_list(rest, flags, "-d -D -m -M -c -C -f -u -t --delete --move --copy --force "
        "--set-upstream-to --track "
                         "--unset-upstream --edit-description --no-track --create-reflog")  # fmt: skip
    if verb == "tag":
        return _git_list(
            rest, flags, "-d --delete -a --annotate -s --sign -m --message -F --file -f --force -u --local-user"
        )
    if verb == "config":
        reads = uses_flag(
            flags,
            names("--get --get-all --get-regexp --get-urlmatch --list -l --get-color --get-colorbool"),
        )
        names_one = len(rest) == 1 and "." in rest[0] and not any(flag in _GIT_CONFIG_EDITS for flag in flags)
        return None if reads or names_one or rest[:1] in (["get"], ["list"]) else "it sets a value"
    if verb == "archive":
        return "it writes a file" if uses_flag(flags, frozenset({"-o", "--output", "--remote"})) else None
    if verb == "symbolic-ref":
        deletes = uses_flag(flags, frozenset({"-d", "--delete", "-m"}), "")
        return None if len(rest) <= 1 and not deletes else "it sets a reference"
    if verb in _GIT_SUBREADS:
        first = rest[0] if rest else ""
        bare_reads = verb in ("remote", "reflog", "notes", "submodule") and not rest
        return None if bare_reads or first in _GIT_SUBREADS[verb] else f"git {verb} {first} changes the repository"
    return f"git {verb[:30]} changes the repository, or is not known to only read"


_GIT_CONFIG_EDITS = names("--unset --unset-all --add --replace-all --edit -e --rename-section --remove-section")
_GIT_LISTS = names(
    "-l --list -a --all -r --remotes --contains --no-contains --merged --no-merged --points-at "
    "--show-current --format --sort -n -v --verify"
)


def _git_list(rest: Sequence[str], flags: Sequence[str], writes: str) -> str | None:
    if uses_flag(flags, frozenset(writes.split()), "n"):
        return "an option changes references"
    return (
        None
        if not rest or uses_flag(flags, _GIT_LISTS - {"-v", "-a", "-r", "--all", "--remotes"})
        else "it creates a reference"
    )


_IP_READS = ("show", "list", "lst", "get", "monitor", "help", "identify", "pids", "ls")


def _ip(arguments: Sequence[str]) -> str | None:
    if uses_flag(arguments, frozenset({"-b", "-batch", "--batch"}), "*"):
        return "it runs a batch of changes"
    words = operands(arguments, frozenset({"-f", "-family", "-rc", "-n", "-netns", "-l", "-loops"}))
    if len(words) < 2 or ("monitor".startswith(words[0]) and words[0] not in ("m", "ma")):
        return "ip runs a program in a namespace" if words[:1] == ["netns"] and len(words) > 2 else None
    verb = words[1]
    if words[0].startswith("neti") or words[0] == "netns":
        return None if verb in ("list", "show", "identify", "pids", "monitor") else "it changes network namespaces"
    sets = verb == "s" and "link".startswith(words[0])  # of `ip link`, the letter means `set`
    if any(read.startswith(verb) for read in _IP_READS) and not sets:
        return None
    return f"ip {words[0][:20]} {verb[:20]} changes the network"


_EXIF_WRITES = re.compile(
    r"^-(?!(?:if|p|api|filename_?)$)[\w:*.#+-]*[-+^<]?<?=|^-\w+<|^-(?:o|w|W|overwrite_original\w*|"
    r"delete_original!?|restore_original|tagsfromfile|stay_open|execute\d*|config|if\d*|geotag|csv=.*|"
    r"j(?:son)?=.*|textout!?|tagout!?|TAGOUT|rename\w*)$",
    re.IGNORECASE,
)


def _exiftool(arguments: Sequence[str]) -> str | None:
    return "it writes tags or files" if any(_EXIF_WRITES.match(word) for word in arguments) else None


_CLOUD_READS = re.compile(
    r"^(?:describe|list|get|show|ls|search|lookup|head|view|status|help|info|version|query|filter|batch-get|"
    r"scan|read|tail|validate|preview|estimate|simulate|check|count|decode|verify|wait|diff|explain)(?:$|-)"
)
_CLOUD_WRITES = re.compile(
    r"^(?:get-object|get-credentials|create|delete|update|set|add|remove|rm|cp|mv|put|start|stop|run|deploy|"
    r"import|export|ssh|scp|"
    r"reset|restart|attach|detach|patch|scale|apply|install|login|logout|sync)(?:$|-|:)"
)
_CLOUD_VALUES = names(
    "--profile --region --output --project -o -g --resource-group --subscription --query --format --filter"
)


def _cloud(arguments: Sequence[str]) -> str | None:
    words = operands(arguments, _CLOUD_VALUES)
    reads = any(_CLOUD_READS.match(word) for word in words[1:5]) and not any(
        _CLOUD_WRITES.match(word) for word in words[:5]
    )
    return None if reads or not words else f"{' '.join(words[:3])[:40]!r} is not known to only read"


def _aws(arguments: Sequence[str]) -> str | None:
    words = operands(arguments, _CLOUD_VALUES)
    verb = words[1] if len(words) > 1 else ""
    reads = _CLOUD_READS.match(verb) and not _CLOUD_WRITES.match(verb)
    return None if reads or not words else f"{' '.join(words[:2])[:40]!r} is not known to only read"


def _dc(arguments: Sequence[str]) -> str | None:
    return "it runs a command" if any("!" in word for word in arguments) else None


_SQLITE_MODES = names(
    "-readonly -header -noheader -csv -json -line -list -column -box -table -markdown -html -quote -tabs -batch -bail "
    "-echo -safe -stats -ascii -jsonlines -latex"
)


def _database(arguments: Sequence[str]) -> str | None:
    """A client is read-only when it is given SQL that only reads, and nothing else to do."""
    from interlock.judge.sql import judge_readonly_sql

    arguments = [word for word in arguments if word not in _SQLITE_MODES]
    if uses_flag(
        arguments,
        frozenset({"-f", "--file", "-o", "--output", "-L", "--log-file", "-init", "-cmd", "--tee", "--pager", "-i"}),
        "dhUpPDuSr",
    ):
        return "it reads commands from a file or writes output to one"
    given = [*option_values(arguments, "-c", "--command"), *option_values(arguments, "-e", "--execute")]
    if not given:
        given = [
            word
            for word in arguments
            if re.match(r"\s*(?:with|select|insert|update|delete|drop|create|alter|pragma|attach|\.)\b|\.", word, re.I)
        ]
    if not given:
        return (
            None if uses_flag(arguments, frozenset({"-l", "--list"})) else "it waits for commands that are not judged"
        )
    if any(
        text.lstrip().startswith(("\\", "."))
        and not re.match(r"\s*(?:\\[dlz]\w*\+?|\.(?:tables|schema|databases|indexes|help))\b", text)
        for text in given
    ):
        return "a client command may write or run something"
    return (
        "the SQL writes"
        if any(judge_readonly_sql(text) for text in given if not text.lstrip().startswith(("\\", ".")))
        else None
    )


def _refuses(flags: str, values: str = "") -> Callable[[Sequence[str]], str | None]:
    wanted = frozenset(flags.split())

    def form(arguments: Sequence[str]) -> str | None:
        used = uses_flag(arguments, wanted, values)
        return f"{used} writes or runs something" if used else None

    return form


FORMS: dict[str, Callable[[Sequence[str]], str | None]] = {
    "find": _find, "gfind": _find,
    "awk": _awk, "gawk": _awk, "mawk": _awk, "nawk": _awk,
    "sed": _sed, "gsed": _sed,
    "curl": _curl, "wget": _wget,
    "git": _git, "ip": _ip,
    "exiftool": _exiftool,
    **dict.fromkeys(("gcloud", "az", "doctl", "ibmcloud", "heroku", "flyctl"), _cloud),
    "aws": _aws,
    "dc": _dc,
    "psql": _database, "sqlite3": _database, "mysql": _database, "mariadb": _database, "duckdb": _database,
    "man": _refuses(" ".join(programs.CODE_FLAG_SETS["man"][0]), programs.CODE_FLAG_SETS["man"][1]),
    "info": _refuses("-o --output --dribble --restore"),
    "date": _refuses("-s --set", "dfrI"),
    **TOOL_FORMS,
}  # fmt: skip
"""Programs judged by a form; those that are also in the table of readers must satisfy both."""
