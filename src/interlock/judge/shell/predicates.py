"""Predicates that rows of `programs.txt` name with `does`: uses that take more than a pattern to recognise.

Those of a module of its own have its name before theirs: `git.cleans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from interlock.judge.shell import embedded, environment
from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.disclosures import is_secret_file
from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.shell.folders import is_inside
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import known, lists
from interlock.judge.shell.quoting import quoted_spans
from interlock.judge.shell.sed import sed_effects, sed_scripts
from interlock.judge.shell.values import UNKNOWN
from interlock.judge.shell.wrappers import run_on_matches
from interlock.judge.shell.written_files import without_own_writes
from interlock.judge.tables import name_set


def _run_by_find(use: ProgramUse) -> Iterator[str]:
    for option, program in pairwise([*use.arguments, ""]):
        if option in ("-exec", "-execdir", "-ok", "-okdir"):
            yield program.rpartition("/")[2]


def runs_deleter(use: ProgramUse) -> bool:
    """`find -exec rm`."""
    return any(name in lists()["deleters"] for name in _run_by_find(use))


def runs_other(use: ProgramUse) -> bool:
    """`find -exec` of a program that is not known to only look at each match."""
    harmless = lists()["deleters"] | lists()["find-runs"]
    commands = run_on_matches("find", use.arguments)
    return any(
        command[0].rpartition("/")[2] not in harmless and command[:-1] not in _CHECKS_SYNTAX for command in commands
    )


_CHECKS_SYNTAX = [
    ["python", "-m", "py_compile"], ["python3", "-m", "py_compile"], ["php", "-l"], ["node", "--check"],
    ["bash", "-n"], ["sh", "-n"], ["gofmt", "-l"], ["shellcheck"],
]  # fmt: skip


def overwrites_system(use: ProgramUse) -> bool:
    """`dd of=/etc/passwd`."""
    return any(word.startswith("of=") and compiled("<WRITE>").search(word[3:]) for word in use.arguments)


def stops_guard(use: ProgramUse) -> bool:
    """A service manager is told to end a service that keeps watch."""
    words = [_SERVICE.sub("", word) for word in use.arguments]
    if lists()["guards"].isdisjoint(words):
        return False
    stops = not lists()["stops"].isdisjoint(use.arguments)
    return stops or any(word.lower().rstrip('"').endswith("=no") for word in use.arguments)


def kills_guard(use: ProgramUse) -> bool:
    """A service that keeps watch is killed by name, or by a pattern with the name as one of its alternatives."""
    words = (_ALTERNATIVES.split(word.lower()) for word in use.arguments if len(word) < 400)
    return any(not lists()["guards"].isdisjoint(parts) for parts in words)


_SERVICE = re.compile(r"(?:_enable)?=(?:\"?NO\"?)?$|\.service$|^-(?:f|x)$", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"[|()^$\s]+")


def sed_runs(use: ProgramUse) -> bool:
    """The script runs commands, or cannot be read."""
    return not sed_does(use).isdisjoint(("runs", "unknown"))


def sed_writes(use: ProgramUse) -> bool:
    return "writes" in sed_does(use)


def sed_does(use: ProgramUse) -> frozenset[str]:
    return frozenset(effect for script in sed_scripts(use.arguments) for effect in sed_effects(script))


def _modules(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each module that `python -m` runs, with the word behind it."""
    for index, word in enumerate(arguments[:4]):
        if word == "-m":
            yield tuple([*arguments[index + 1 : index + 3], "", ""][:2])  # type: ignore[misc]
        elif word.startswith("-m"):
            yield word[2:], arguments[index + 1] if index + 1 < len(arguments) else ""
        elif not word.startswith("-"):
            return


def makes_environment(use: ProgramUse) -> bool:
    return any(module in ("venv", "virtualenv") for module, _ in _modules(use.arguments))


def runs_module(use: ProgramUse) -> bool:
    """`python -m` of a module that installs or runs other code; `python -m pip list` only looks."""
    for module, verb in _modules(use.arguments):
        if module == "pip" and verb in lists()["pip-looks"]:
            return bool(known("pip").refused(ProgramUse("pip", _after_module(use.arguments))))
        if module in lists()["python-modules"]:
            return True
    return False


def module_shows_secret(use: ProgramUse) -> bool:
    """`python -m json.tool credentials.json`."""
    shows = any(module in lists()["showing-modules"] for module, _ in _modules(use.arguments))
    return shows and any(is_secret_file(word) for word in use.arguments)


def serves_folder(use: ProgramUse) -> bool:
    """`python -m http.server`, unless it listens on this machine only."""
    serves = any(module in lists()["serving-modules"] for module, _ in _modules(use.arguments))
    bound = list(option_values(use.arguments, "-b", "--bind"))
    return serves and not (bound and bound[-1] in _LOOPBACK)


def _after_module(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments of the module that `python -m` runs."""
    at = next(at for at, word in enumerate(arguments) if word.startswith("-m"))
    return arguments[at + (2 if arguments[at] == "-m" else 1) :]


def runs_other_python(use: ProgramUse) -> bool:
    """`pip --python X` starts X, which may be any program; `pip config edit --editor X`, too."""
    for word, following in pairwise([*use.arguments, ""]):
        name, equals, value = word.partition("=")
        if len(name) > 3 and "--editor".startswith(name):
            return True
        if len(name) > 3 and "--python".startswith(name):
            path = value if equals else following
            own = is_inside(path) and not path.startswith("/")
            if not own and not compiled("<SYSTEM_PYTHON>").match(path):
                return True
    return False


def rsync_runs(use: ProgramUse) -> bool:
    """`rsync -e` of a program other than ssh, or of ssh with an option that runs a program."""
    for shell in option_values(use.arguments, "-e", "--rsh"):
        words = shell.split()
        if words[:1] != ["ssh"] or known("ssh").refused(ProgramUse("ssh", words[1:])):
            return True
    return False


def sets_variable(use: ProgramUse) -> bool:
    """`env NAME=value` of a variable that can change what runs."""
    pairs = (word.partition("=") for word in use.arguments if not word.startswith("-"))
    risky = compiled("<RISKY_VARIABLES>")
    return any(equals and risky.match(name.removesuffix("%%")) for name, equals, _ in pairs)


_IP_READS = ("show", "list", "lst", "get", "monitor", "help", "identify", "pids", "ls")


def ip_changes(use: ProgramUse) -> bool:
    """`ip` with a verb that is no abbreviation of one that reads."""
    if uses_flag(use.arguments, frozenset({"-b", "-batch", "--batch"}), "*"):
        return True
    words = operands(use.arguments, frozenset({"-f", "-family", "-rc", "-n", "-netns", "-l", "-loops"}))
    if len(words) < 2 or ("monitor".startswith(words[0]) and words[0] not in ("m", "ma")):
        return words[:1] == ["netns"] and len(words) > 2
    verb = words[1]
    if words[0].startswith("neti") or words[0] == "netns":
        return verb not in ("list", "show", "identify", "pids", "monitor")
    sets = verb == "s" and "link".startswith(words[0])  # of `ip link`, the letter means `set`
    return sets or not any(read.startswith(verb) for read in _IP_READS)


_STATEMENT = re.compile(r"(?i)\s*(?:with|select|insert|update|delete|drop|create|alter|pragma|attach|\.)\b|\.")
_CLIENT_LOOKS = re.compile(r"\s*(?:\\[dlz]\w*\+?|\.(?:tables|schema|databases|indexes|help))\b")
_CLIENT_FILES = frozenset(
    {"-f", "--file", "-o", "--output", "-L", "--log-file", "-init", "-cmd", "--tee", "--pager", "-i"}
)


def client_writes(use: ProgramUse) -> bool:
    """A client of a database reads only when it is given SQL that only reads, and nothing else to do."""
    from interlock.judge.sql import judge_readonly_sql

    arguments = [word for word in use.arguments if word not in lists()["sqlite-modes"]]
    if uses_flag(arguments, _CLIENT_FILES, "dhUpPDuSr"):
        return True
    given = [*option_values(arguments, "-c", "--command"), *option_values(arguments, "-e", "--execute")]
    given = given or [word for word in arguments if _STATEMENT.match(word)]
    if not given:
        return not uses_flag(arguments, frozenset({"-l", "--list"}))
    own = [text for text in given if text.lstrip().startswith(("\\", "."))]
    if any(not _CLIENT_LOOKS.match(text) for text in own):
        return True
    return any(judge_readonly_sql(text) for text in given if text not in own)


def removes_made(use: ProgramUse) -> bool:
    """`rm -rf node_modules dist`: folders and files of the project that tools make again, by name."""
    words = operands(use.arguments)
    options = [word for word in use.arguments if word[:1] == "-" and word != "--"]
    plain = all(_REMOVAL.fullmatch(option) for option in options)
    endings = lists()["made-endings"] | lists()["leftover-endings"]
    return plain and bool(words) and all(_is_made(word, endings) for word in words)


def deletes_made(use: ProgramUse) -> bool:
    """`find . -name '*.pyc' -delete`, `find . -name __pycache__ -exec rm -rf {} +`."""
    starts = [word for word in use.arguments[: _first_test(use.arguments)] if word[:1] != "-"]
    named = [value for test, value in pairwise(use.arguments) if test in ("-name", "-iname")]
    ran = list(run_on_matches("find", use.arguments))
    removes = all(command[:1] == ["rm"] and command[-1] == "{}" and len(command) < 4 for command in ran)
    prints = any(word.startswith("-fprint") or word in ("-fls", "-ok", "-okdir") for word in use.arguments)
    acts = bool(ran) or "-delete" in use.arguments
    inside = all(is_inside(start) for start in starts)
    made = bool(named) and all(_is_made(name, lists()["made-endings"]) for name in named)
    return acts and removes and inside and made and not prints


def marks_programs(use: ProgramUse) -> bool:
    """`find . -name '*.sh' -exec chmod +x {} +`: scripts of the project may be run."""
    starts = use.arguments[: _first_test(use.arguments)]
    ran = list(run_on_matches("find", use.arguments))
    marks = all(command[:1] == ["chmod"] and command[1:] in _MAY_RUN for command in ran)
    acts = any(word in _FIND_ACTS or word.startswith("-fprint") for word in use.arguments)
    inside = all(is_inside(start) and UNKNOWN not in start for start in starts)
    return bool(ran) and bool(starts) and inside and marks and not acts


def mirrors_to_made(use: ProgramUse) -> bool:
    """`rsync -a --delete src/ dist/`: files are deleted in a folder that tools make again."""
    words = operands(use.arguments, _RSYNC_VALUES)
    target = words[1] if len(words) == 2 and UNKNOWN not in words[1] else ""
    made = not lists()["made-again"].isdisjoint(target.split("/")[:1])
    keeps = not any(word.startswith("--remove-source") for word in use.arguments)
    return made and is_inside(target) and ":" not in target and keeps


_RSYNC_VALUES = name_set("--exclude --exclude-from --filter --include --include-from")


def runs_on_matches(use: ProgramUse) -> bool:
    """`fd -x` of a program that is not known to look at each match, or to put it into another form."""
    harmless = lists()["find-runs"] | lists()["fd-runs"]
    return any(command[0] not in harmless for command in run_on_matches("fd", use.arguments))


_MAY_RUN = [[mode, "{}"] for mode in ("+x", "u+x", "a+x", "755")]
_FIND_ACTS = name_set("-delete -ok -okdir -fls")


def _first_test(arguments: Sequence[str]) -> int:
    return next((at for at, word in enumerate(arguments) if word[:1] in "-(!"), len(arguments))


def _is_made(path: str, endings: frozenset[str]) -> bool:
    # All that such a folder holds is no more than the folder.
    path = path.removesuffix("/*")
    if _TEMPORARY.fullmatch(path) and ".." not in path.split("/"):
        return True
    path = path.rstrip("/")
    name = path.rpartition("/")[2]
    made = name in lists()["made-again"] or any(name.endswith(ending) and name != ending for ending in endings)
    return made and is_inside(path) and "$" not in path


_TEMPORARY = re.compile(r"/tmp/(?![.]+(?:/|$))[\w.-]+(?:/[\w.-]+)*/?")  # noqa: S108 - a place, not a file made here
"""A folder among temporary files, by name."""
_REMOVAL = re.compile(r"-[rRfvdi]+|--(?:recursive|force|verbose|dir)")


def activates(use: ProgramUse) -> bool:
    """`source .venv/bin/activate`, `. ~/.nvm/nvm.sh`, `source .env`: files that set up a shell."""
    return len(use.arguments) == 1 and _ACTIVATION.fullmatch(use.arguments[0]) is not None


_ACTIVATION = re.compile(
    r"(?:(?!\.\.)[\w.-]+/)*(?:(?:bin|Scripts)/activate(?:[.-]\w+)?|\.env(?:\.[\w-]+)*|[\w-]*env\.sh)"
    r"|(?:~|_)/(?:(?!\.\.)[\w.-]+/)*bin/activate"
    r"|(?:~|_)/(?:\.nvm/nvm\.sh|\.cargo/env|nvm\.sh|\.sdkman/bin/sdkman-init\.sh|\.(?:bash|zsh)rc|\.(?:bash_|z)?profile)"
)


def runs_harmless_code(use: ProgramUse) -> bool:
    """Code in an argument, such as `python -c`, in which the judge of code finds nothing wrong."""
    from interlock.judge.code import CodeRules, judge_code

    program = known(use.name)
    code, at = "", 0
    for at, word in enumerate(use.arguments):
        if _GIVES_CODE[program.language].fullmatch(word):
            code = use.arguments[at + 1] if at + 1 < len(use.arguments) else ""
            break
        if not _BEFORE_CODE.fullmatch(word):
            return False
    files = use.arguments[at + 2 :] if code else []
    writes = program.language == "perl" and any("i" in word for word in use.arguments[: at + 1])
    if not code or (writes and not all(is_inside(file) for file in files)):
        return False
    named = (*files, *(code[start + 1 : end - 1] for start, end in quoted_spans(code, _QUOTED)))
    if any(is_secret_file(name) for name in named) or embedded.runs_process(code):
        return False
    if environment.code_shows_secrets(program.language, code) or _LOADS_SECRETS.search(code):
        return False
    if program.language == "javascript":
        code = _without_own_files(environment.without_plain_variables(code))
    elif program.language == "python":
        code = without_own_writes(code)
    return not judge_code(code, CodeRules(language=program.language))


def _without_own_files(code: str) -> str:
    """JavaScript without the uses of `fs` on files of the project, if there are no others."""
    rest = _FILE_BINDING.sub("", _FILE_CALL.sub(_as_text, code))
    return code if _FILE_MODULE.search(rest) else rest


def _as_text(match: re.Match[str]) -> str:
    path = match["path"]
    refused = compiled("<WRITE>|<HOOKS>|<SECRETS>|<SECRET_FILE>").search(path) is not None or not is_inside(path)
    return match[0] if refused else f"String({path!r}"


_FILE_REQUIRE = r"require\(\s*['\"](?:node:)?fs['\"]\s*\)"
_FILE_CALL = re.compile(
    rf"(?:{_FILE_REQUIRE}|\bfs)\.(?:(?:read|write|append)FileSync|existsSync|mkdirSync|readdirSync|statSync)"
    r"""\(\s*(?P<quote>['"])(?P<path>[\w./-]+)(?P=quote)"""
)
_FILE_BINDING = re.compile(rf"\b(?:const|let|var)\s+fs\s*=\s*{_FILE_REQUIRE}\s*;?")
_FILE_MODULE = re.compile(r"\bfs\b")
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\\n]|\\.)*+") for quote in "'\"`"}
_LOADS_SECRETS = re.compile(r"\bdotenv_values\s*\(")
_GIVES_CODE = {
    "python": re.compile(r"-[uBIsESq]*c"),
    "javascript": re.compile(r"-e|-p|-pe|--eval|--print"),
    "perl": re.compile(r"-[0-7]*[lnpwaiE]*e"),
    "ruby": re.compile(r"-[npl]*e"),
    "php": re.compile(r"-r"),
}
_BEFORE_CODE = re.compile(
    r"-[uBIsESlnpwai0-9]+|-W\w*|-X\w*|--input-type=module|--no-warnings|--"
    r"|-r(?:json|yaml|date|time|set|csv|pp|digest|benchmark)|importtime|dev|utf8|ignore|error"
    r"|-M(?:strict|warnings|utf8|(?:List|Scalar)::Util|Data::Dumper|JSON::PP|Time::(?:Local|HiRes))(?:=[\w,]+)?"
)


def runs_console_code(use: ProgramUse) -> bool:
    """`python manage.py shell -c` of code in which the judge of code finds something wrong."""
    words = operands(use.arguments)[:2]
    if len(words) < 2 or not words[0].endswith("manage.py") or not words[1].startswith("shell"):
        return False
    codes = option_values(use.arguments, "-c", "--command", "iv")
    return any(not runs_harmless_code(ProgramUse("python", ["-c", code])) for code in codes)


def runs_harmless_module(use: ProgramUse) -> bool:
    """`python -m pip install x` as `pip install x`, and `python -m cProfile script.py`."""
    if use.arguments[:1] != ["-m"] or len(use.arguments) < 3:
        return False
    module, rest = use.arguments[1], use.arguments[2:]
    if module == "pip":
        return not known("pip").refused(ProgramUse("pip", rest))
    return module in lists()["script-modules"] and any(word.endswith(".py") and is_inside(word) for word in rest)


_LOOPBACK = ("127.0.0.1", "localhost", "::1")
