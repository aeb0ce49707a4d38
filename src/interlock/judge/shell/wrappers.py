"""Commands inside commands: what a program runs that is given another program in its own arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from interlock.judge.shell.flags import operands
from interlock.judge.shell.guesses import guessed_commands, is_query
from interlock.judge.shell.programs import Program, Wrapper, known

_ONLY_AFTER_DASHES = frozenset({("debug",), ("develop",), ("enter",)})
_NAME_FIRST = frozenset({("explore",), ("set-script",)})
"""Verbs with a name before the command."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_OPTION = re.compile(r"^(?:-(?:-[\w-]+=|\w)|\w+(?:\.[\w:-]+)+=)")
"""The option or setting that a text is written behind: `-c'ls -l'`, `--command='ls -l'`, `scripts.list='ls -l'`."""
_NO_RUNNERS = frozenset({"copier", "editor", "lister", "mentions", "shell", "writer"})
"""Kinds of programs that run nothing, or are judged by all they are given."""
_FD = frozenset({"fd", "fdfind"})
_FIND = frozenset({"find", "gfind"})
_RUN_ON_MATCHES = _FD | _FIND
_FD_RUNS = re.compile(r"-[^-xXedtoEScjg]*[xX]")
"""Behind one of the other letters, the rest of the word is its value."""
_MAX_TAILS = 12
_MAX_ENDS = 3
_MAX_FREE = 2
"""Plain words that are no values of options: the container and the command."""
_PACKAGE_VERBS = frozenset({"adduser", "rm"})
_PLAIN = Wrapper(frozenset(), frozenset(), frozenset(), 0, joins=False, assigns=False)


def inner_commands(name: str, arguments: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The commands that a program would run: argument lists, and texts that go to a shell."""
    if name == "command" and arguments[:1] in (["-v"], ["-V"]):
        return [], []
    program = known(name)
    if program.passes:
        inner = _after_verb(arguments, program)
        texts = [text for word, text in pairwise([*arguments, ""]) if word in program.pass_texts]
        texts += [text for word, _, text in (word.partition("=") for word in arguments) if word in program.pass_texts]
        # A word with blanks is a text for the shell that the program starts.
        if inner is not None and "starts-shell" in program.kinds:
            texts += [_OPTION.sub("", word) for word in arguments if " " in word.strip()]
        # `pnpm sudo ls` and `bun run sudo ls` run a program that no script is named after. `pnpm rm` removes a package.
        if inner is None and "starts-shell" in program.kinds and "remover" in program.kinds:
            inner, guessed = guessed_commands(arguments, _PACKAGE_VERBS)
            texts += guessed
        inner = [tail for tail in inner or [] if not (tail and is_query(tail[0]))]
        texts += [tail[0] for tail in inner if tail and " " in tail[0].strip()]  # `hatch run 'sudo ls'`
        return inner, [text for text in texts if text]
    if name in _RUN_ON_MATCHES:
        return list(run_on_matches(name, arguments)), []
    if "texts" in program.kinds:
        return [], operands(arguments)
    if name == "alias":
        return [], [value for _, equals, value in (word.partition("=") for word in arguments) if equals and value]
    wrapper = program.wrapper
    if name == "setarch" and arguments[:1] and arguments[0].startswith("-"):
        wrapper = _PLAIN  # the architecture is left out
    if wrapper is not None:
        return _after_options(wrapper, arguments)
    if program.kinds & _NO_RUNNERS or program.language or program.reader is not None:
        return [], []
    return guessed_commands(arguments)


def run_on_matches(name: str, arguments: Sequence[str]) -> Iterator[list[str]]:
    """The commands that `find -exec` and `fd -x` run."""
    at = 0
    while name in _RUN_ON_MATCHES and at < len(arguments):
        glued = _program_behind(name, arguments[at])
        if glued is not None:
            start, ends = at + 1, (";", "+") if name in _FIND else (";",)
            at = next((end for end in range(start, len(arguments)) if arguments[end] in ends), len(arguments))
            yield [*([glued] if glued else []), *arguments[start:at]] or [""]
        at += 1


def _program_behind(name: str, option: str) -> str | None:
    """The program that is glued to an option of `fd` (`-xrm`, `--exec=rm`), if any; None for any other option."""
    if name in _FIND:
        return "" if option in ("-exec", "-execdir", "-ok", "-okdir") else None
    if option.startswith("--"):
        long, _, program = option.partition("=")
        return program if len(long) > 4 and "--exec-batch".startswith(long) else None
    found = _FD_RUNS.match(option)
    return option[found.end() :].removeprefix("=") if found is not None else None


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
            following = " ".join(arguments[index + 1 : index + 2])
            if name in wrapper.texts:
                texts.append(value if equals else following)
                index += 1 if equals else 2
            elif (at := _text_letter(argument, wrapper)) > 0:
                texts.append(argument[at + 1 :] or following)
                index += 1 if argument[at + 1 :] else 2
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
    if rest and wrapper.joins and rest[0].startswith(":::"):
        return [], [*texts, *rest[1:]]  # `parallel ::: a b` runs each argument
    if rest and wrapper.joins:
        return [], [*texts, " ".join(rest)]
    return ([rest] if rest else []), texts


def _text_letter(argument: str, wrapper: Wrapper) -> int:
    """Where a cluster such as `-qec` has the letter of an option whose value is shell text; 0 without any."""
    for at, letter in enumerate(argument[1:] if argument[1] != "-" else "", 1):
        if f"-{letter}" in wrapper.texts:
            return at
        if f"-{letter}" in wrapper.values:
            return 0
    return 0


def _takes_next(argument: str, values: frozenset[str]) -> bool:
    """`-n 5`, and `-dmS name`: the last letter of a cluster takes the next argument, unless the first took the rest."""
    if argument in values:
        return True
    cluster = len(argument) > 2 and argument[1] != "-" and argument[:2] not in values
    return cluster and f"-{argument[-1]}" in values


def _after_verb(arguments: Sequence[str], program: Program) -> list[list[str]] | None:
    """The commands behind a verb after which there is one; None without such a verb."""
    dashes = arguments.index("--") if "--" in arguments else len(arguments)
    found = [list(arguments[dashes + 1 :])] if dashes < len(arguments) else []
    shell, has_verb = "starts-shell" in program.kinds, False
    several = "; " in " ".join((*arguments, ""))
    # More than one may be the verb: the first word behind an option may be its value.
    for verb in program.passes:
        ends = [0] if verb == ("--",) else _ends_of_verb(arguments[:dashes], verb, several)
        has_verb = has_verb or bool(ends)
        if verb == ("--",) or verb in _ONLY_AFTER_DASHES:
            continue
        if len(ends) > _MAX_ENDS:
            return [[""]]
        # The dashes may be those of the command, too: `pnpm exec sudo -- ls`.
        most = 1 if "direct" in program.kinds and verb not in _NAME_FIRST else _MAX_FREE
        found += [tail for end in ends for tail in _tails(arguments[end:], most) if tail[0] != "." or shell]
    return found if has_verb else None


def _ends_of_verb(arguments: Sequence[str], verb: Sequence[str], several: bool) -> list[int]:
    """Where a verb may end. A plain word behind an option is its value or the verb: `kubectl -n exec exec pod ls`.

    `several` says that a `;` may end one command and begin another.
    """
    ends: list[int] = []
    matched = {0}
    before = ""
    for at, word in enumerate(arguments):
        if not word.startswith(("-", "+")):
            longer = {count + 1 for count in matched if verb[count] in (word, "*")}
            ends += [at + 1] if len(verb) in longer else []
            is_value = before.startswith("-") and "=" not in before
            matched = (matched if is_value else set()) | (longer - {len(verb)})
        matched = matched | {0} if word.endswith(";") else matched  # tmux runs several commands
        if not matched and not several:
            break
        before = word
    return ends


def _tails(rest: Sequence[str], most: int) -> list[list[str]]:
    """Each tail that begins with a plain word: where the command starts depends on the tool and on its options.

    `most` is how many plain words that are no values of options are looked at.
    """
    found: list[list[str]] = []
    free = 0
    for before, (at, word) in zip(("", *rest), enumerate(rest), strict=False):
        if word.startswith(("-", "+")):
            continue
        found.append(list(rest[at:]))
        free += not before.startswith("-") or "=" in before
        if free == most:
            break
    # With more options than that, any word may be the command: the one without a name is refused.
    return found if len(found) <= _MAX_TAILS else [[""]]
