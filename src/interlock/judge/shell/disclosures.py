"""Files that leave their place: secrets that a command copies, packs or shows, and files that it sends to a host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.environment import is_secret
from interlock.judge.shell.flags import operands, option_values, uses_flag
from interlock.judge.shell.folders import is_inside
from interlock.judge.shell.git import verb_of
from interlock.judge.shell.hosts import stays_here
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.words import with_names
from interlock.judge.shell.wrappers import run_on_matches
from interlock.judge.tables import name_set

_COPY_VALUES = frozenset(
    {"-t", "--target-directory", "-m", "--mode", "-o", "--owner", "-g", "--group", "-S", "--suffix"}
)


def is_secret_file(word: str) -> bool:
    return compiled("<SECRETS>|<SECRET_FILE>").search(word) is not None


def copies_secret(use: ProgramUse) -> bool:
    """`cp .env notes.txt`: a file of secrets gets a name that does not say so, or leaves the project."""
    words = operands(use.arguments, _COPY_VALUES)
    folders = list(option_values(use.arguments, "-t", "--target-directory", "mogS"))
    sources, target = (words, f"{folders[-1]}/") if folders else (words[:-1], words[-1] if words else "")
    if not any(is_secret_file(source) for source in sources):
        return False
    if ":" in target:
        return True  # a container, or another machine
    keeps_name = target.endswith("/") or target in (".", "..") or is_secret_file(target)
    return not (keeps_name and is_inside(target) and not target.startswith("/"))


def filters_secret(use: ProgramUse) -> bool:
    """`jq . .env`; in `jq .env package.json` the first word is the filter."""
    return any(is_secret_file(word) for word in operands(use.arguments)[1:])


def finds_secret(use: ProgramUse) -> bool:
    """`find . -name .env -exec cat {} +`: the command would be refused with the name of the file."""
    tested = [value for test, value in pairwise(use.arguments) if test in _FIND_TESTS]
    found = [name for name in with_names(tested) if is_secret_file(name)]
    for command in run_on_matches("find", use.arguments):
        program = program_name(command[0])
        arguments = [found[0] if found and word == "{}" else word for word in command[1:]]
        if found and known(program).refused(ProgramUse(program, arguments)):
            return True
    return False


def fd_shows_secret(use: ProgramUse) -> bool:
    """`fd -H '^\\.env$' -x cat`: the command would be refused with the name of the file."""
    commands = list(run_on_matches("fd", use.arguments))
    if not commands:
        return False
    end = max((at for at, word in enumerate(use.arguments) if _MAY_RUN.match(word)), default=0)
    searched = use.arguments[:end]
    unsure = any(_REGEX.search(word) or _AWAY.search(word) for word in searched)
    shows = any(program_name(command[0]) in _SHOW_CONTENTS for command in commands)
    if shows and (unsure or uses_flag(searched, _HIDDEN, "edtoEScjg") is not None):
        return True
    names = [_REGEX_MARKS.sub("", word) for word in use.arguments]
    names += [f"*.{name.lstrip('.')}" for name in names[:end]]
    names += [f"*.{ending}" for ending in option_values(use.arguments, "-e", "--extension", "dtoEScjg")]
    found = [name for name in with_names(names) if is_secret_file(name)]
    return any(
        known(program_name(command[0])).refused(ProgramUse(program_name(command[0]), [*command[1:], name]))
        for command in commands
        for name in found[:_MAX_NAMES]
    )


_SHOW_CONTENTS = name_set("cat cut egrep fgrep grep head jq nl tail")
_HIDDEN = frozenset({"-H", "--hidden", "-u", "--unrestricted"})
_REGEX = re.compile(r"[\[({|+]|\.[*?]")
"""A pattern of which it is not told what it matches."""
_AWAY = re.compile(r"(?:^|=)[~/]|(?:^|[=/])\.\.(?:/|$)")
"""A folder that is none of the project."""
_MAY_RUN = re.compile(r"-[^-]*[xX]|--ex")
_REGEX_MARKS = re.compile(r"[\\^$]")
_MAX_NAMES = 8
_FIND_TESTS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename"})


def greps_secret(use: ProgramUse) -> bool:
    """`grep KEY .env`; not the pattern itself, and not `grep -q`, which shows nothing of the file."""
    if uses_flag(use.arguments, _NAMES_MATCHES, "eABCmfd") is not None:
        return False
    words = operands(use.arguments, _GREP_VALUES)
    given = uses_flag(use.arguments, frozenset({"-e", "--regexp", "-f", "--file", "--files"}), "ABCmd") is not None
    searched = [*option_values(use.arguments, "-g", "--glob"), *option_values(use.arguments, "--", "--include")]
    searched += [f".aws/{name}" for name in searched]
    return any(is_secret_file(word) for word in with_names([*searched, *(words if given else words[1:])]))


_GREP_VALUES = name_set(
    "-e --regexp -f --file -A --after-context -B --before-context -C --context -m --max-count -d -D --include --exclude"
    " --exclude-dir -g --glob -t --type -T --type-not --iglob --max-depth -j --threads"
)


def shows_names(use: ProgramUse) -> bool:
    """`cut -d= -f1 .env`, `sed 's/=.*//' .env`, `awk -F= '{print $1}' .env`: the names of variables alone."""
    options, words = [word for word in use.arguments if word[:1] == "-"], operands(use.arguments, _NAME_OPTIONS)
    if use.name == "cut":
        fields = [*option_values(use.arguments, "-f", "--fields", "d")]
        return [*option_values(use.arguments, "-d", "--delimiter", "f")] == ["="] and fields == ["1"]
    if use.name == "sed":
        return set(options) <= {"-E", "-r"} and words[:1] == ["s/=.*//"]
    return options in (["-F="], ["-F"]) and words[:1] in (["{print $1}"], ["{ print $1 }"])


_NAME_OPTIONS = frozenset({"-F"})


def gets_secrets(use: ProgramUse) -> bool:
    """`kubectl get cm,secret -o yaml`: secrets with their values, wherever the words stand."""
    words = operands(use.arguments, _KUBE_VALUES)
    if words[:1] != ["get"] or not any(_KUBE_SECRET.match(kind) for word in words[1:] for kind in word.split(",")):
        return False
    return any(_SHOWS_VALUES.match(form) for form in option_values(use.arguments, "-o", "--output", "nlLfAw")) or any(
        option_values(use.arguments, "--", "--template")
    )


_KUBE_VALUES = name_set(
    "-n --namespace --context --kubeconfig --cluster --user -s --server -o --output -l --selector -f --filename"
    " --field-selector --sort-by --template -L --label-columns --chunk-size --token --as -k --kustomize"
)
_KUBE_SECRET = re.compile(r"secrets?(?:[/.]|$)")
_SHOWS_VALUES = re.compile(r"y|j|go|custom|t")


def shows_state(use: ProgramUse) -> bool:
    """`terraform state pull`, `show` and `output -json`; one output by name, unless the name is that of a secret."""
    words = operands(use.arguments)
    if words[:2] == ["state", "pull"]:
        return True
    in_json = uses_flag(use.arguments, frozenset({"-json", "--json"}), "*") is not None
    if words[:1] == ["show"]:
        return in_json or len(words) == 1 or any(is_secret_file(word) for word in words)
    return words[:1] == ["output"] and ((in_json and len(words) == 1) or any(is_secret(word) for word in words[1:]))


def shows_key(use: ProgramUse) -> bool:
    """`openssl pkey -in key.pem`: a private key is printed. `-pubout`, `-out` and `-noout` without `-text` do not."""
    words = use.arguments
    if use.operands[:1] not in [["pkey"], ["rsa"], ["ec"], ["dsa"], ["pkcs8"], ["pkcs12"]] or "-in" not in words:
        return False
    return _PUBLIC.isdisjoint(words) and ("-text" in words or _NOT_SHOWN.isdisjoint(words))


_PUBLIC = name_set("-pubout -pubin -RSAPublicKey_out -text_pub -nokeys -export")
_NOT_SHOWN = name_set("-noout -out")


def transfers_secret(use: ProgramUse) -> bool:
    """`scp id_rsa host:`, `rsync .env host:`; not a key to log in with, and not what is left out."""
    return any(is_secret_file(word) for word in operands(use.arguments, _TRANSFER_VALUES))


_TRANSFER_VALUES = name_set(
    "-i -c -F -J -l -o -P -S -D -X -e --rsh -f --filter --exclude --include --exclude-from --include-from -T --temp-dir"
    " --log-file --password-file --bwlimit --max-size --min-size --port --timeout --chmod --chown --backup-dir"
)


def packs_secret(use: ProgramUse) -> bool:
    """`tar czf a.tgz .env`, `zip a.zip id_rsa`; not what an option leaves out."""
    if use.name == "tar" and not _CREATES.match(" ".join(use.arguments)):
        return False
    return any(is_secret_file(word) for word in _packed(use.arguments))


def _packed(arguments: Sequence[str]) -> Iterator[str]:
    skipped = False
    for word in arguments:
        if word.startswith("-"):
            skipped = word in ("-x", "-xr!", "--exclude", "--exclude-from", "-X", "-T", "-f", "-C")
        elif not skipped:
            yield word
        elif word != "-x":
            skipped = False


_CREATES = re.compile(r"-?[a-zA-Z]*[cru]|.*--(?:create|append|update)\b")


def git_shows_secret(use: ProgramUse) -> bool:
    """`git show HEAD:.env`, `git log -p -- .env`; not the names of files alone, and not what a pathspec leaves out."""
    verb, rest = verb_of(use.arguments)
    if verb == "add":
        shows = uses_flag(rest, frozenset({"-n", "--dry-run"})) is None
    elif verb in ("log", "stash", "reflog"):
        shows = uses_flag(rest, _PATCHES, "nSGLU") is not None
    elif verb == "grep":
        shows = uses_flag(rest, _NAMES_MATCHES, "eABCmf") is None
    else:
        shows = verb in _SHOWS and (
            uses_flag(rest, _SUMMARIES, abbreviated=False) is None or uses_flag(rest, _PATCHES, "nSGLU") is not None
        )
    return shows and any(is_secret_file(word) for word in rest if not word.startswith((":!", ":^", ":(exclude")))


_SHOWS = name_set("show diff blame annotate cat-file archive difftool whatchanged format-patch bundle")
_PATCHES = frozenset({"-p", "-u", "--patch", "-U", "--unified", "--patch-with-stat", "--word-diff", "-L", "--cc", "-c"})
_SUMMARIES = name_set("--stat --name-only --name-status --numstat --shortstat --summary --quiet -e -t -s")
_NAMES_MATCHES = frozenset(
    {"-l", "--files-with-matches", "-L", "--files-without-match", "-c", "--count", "-q", "--quiet", "--silent"}
)


def sends_file(use: ProgramUse) -> bool:
    """`curl -T a.zip https://…`: a file, or what comes in, is sent to a host that is not this machine."""
    return any(_is_upload(word) for word in _sent(use)) and not stays_here(use.arguments)


def _sent(use: ProgramUse) -> Iterator[str]:
    arguments = use.arguments
    if use.name == "wget":
        yield from (f"@{value}" for value in option_values(arguments, "--", "--body-file"))
        yield from (f"@{value}" for value in option_values(arguments, "--", "--post-file"))
        return
    if use.name != "curl":
        yield from (f"={word}" for word in operands(arguments) if _FORM_FILE.match(word))
        return
    yield from (f"={value}" for value in option_values(arguments, "-T", "--upload-file", _CURL_LETTERS))
    yield from (f"={value}" for value in option_values(arguments, "-F", "--form", _CURL_LETTERS) if "=@" in value)
    yield from (f"={value}" for value in option_values(arguments, "-F", "--form", _CURL_LETTERS) if "=<" in value)
    for short, long in (("-d", "--data"), ("--", "--data-binary"), ("--", "--data-ascii"), ("--", "--json")):
        yield from option_values(arguments, short, long, _CURL_LETTERS)
    for value in option_values(arguments, "--", "--data-urlencode", _CURL_LETTERS):
        yield _NAME_OF_FIELD.sub("", value)


def _is_upload(word: str) -> bool:
    """A body from a file of text, such as the JSON of a request, or from a pipe, is a request and no upload."""
    return word.startswith("=") or (word.startswith("@") and not _BODY.search(word))


_CURL_LETTERS = "HAbeumwxyYzCEPrtoXKcDhQ"
_NAME_OF_FIELD = re.compile(r"^[\w.-]+(?=@)")
_BODY = re.compile(r"(?i)^@(?:-|.*\.(?:json5?|jsonl|ndjson|xml|ya?ml|graphql|gql|txt|csv|html?|md|form|proto))$")
_FORM_FILE = re.compile(r"[\w.\[\]-]+@(?!\w+\.\w+/)[\w./~-]+$")
