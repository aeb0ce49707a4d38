"""Words that are not known before a command runs, where they may be options, programs or code that do harm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

from interlock.judge.shell.conditions import ProgramUse, all_hold
from interlock.judge.shell.flags import operands, option_values
from interlock.judge.shell.followed import FollowedScript
from interlock.judge.shell.programs import Program, is_listed, known, lists, program_name
from interlock.judge.shell.script import Command, Word
from interlock.judge.shell.sed import sed_scripts
from interlock.judge.shell.values import INSERTED, UNKNOWN
from interlock.judge.shell.wrappers import inner_commands

_IN_QUOTES = re.compile(r"\$\{\"([^{}]*)\}")
_SEVERAL = re.compile(r"\$@|\$\{(?:!|.*@)", re.DOTALL)
"""An expansion that may be several words in quotes, too: `$@`, `${a[@]}`, `${x:-$@}`, `${!x}`."""
_MAX_PROGRAMS = 8
"""Words of a wrapper among which the program that it runs is looked for."""
_RUN_ON_INPUT = frozenset({"parallel", "xargs"})
_MAX_WORDS = 16
"""Words that are not known, of one command."""


def unknown_code(command: Command, followed: FollowedScript) -> Word | None:
    """A word of code for an interpreter or for another shell that holds the output of a command."""
    name, *arguments = [word.template or word.text for word in command.words]
    code = _code(program_name(name), arguments)
    for word in command.words[1:] if code else ():
        if any(map(followed.is_output, INSERTED.findall(word.template))) and any(
            word.template.endswith(each) for each in code
        ):
            return word
    return None


def _code(name: str, arguments: Sequence[str]) -> list[str]:
    """The arguments that are code."""
    program = known(name)
    if program.language:
        return [following for option, following in pairwise(arguments) if option[:1] == "-"]
    if "shell" in program.kinds:
        return list(arguments[:2])
    if program.wrapper is not None and program.wrapper.joins:
        return list(arguments)
    if name in ("sed", "gsed"):
        return sed_scripts(arguments)
    if "awk" in name or name in ("mongo", "mongosh"):
        return list(arguments)
    return [text for text in inner_commands(name, arguments)[1] if text]


def worst_readings(command: Command, followed: FollowedScript) -> Iterator[tuple[Word, list[str]]]:
    """Argument lists in which one word that is not known is an option or a program that does harm."""
    program = known(program_name(command.words[0].text))
    words = [(at, word) for at, word in enumerate(command.words) if at and word.dynamic]
    unknown = [
        at for at, word in words if not _is_free_value(word, program, followed) and _may_be_options(word, followed)
    ]
    read = [followed.first_reading(word) for word in command.words] if unknown else []
    for at in unknown if len(unknown) <= _MAX_WORDS else (*unknown[: _MAX_WORDS - 1], unknown[-1]):
        word = command.words[at]
        before, behind = list(chain.from_iterable(read[:at])), list(chain.from_iterable(read[at + 1 :]))
        for worst in _worst(before):
            if len(worst) == 1 or not (word.quoted or followed.is_one_word(word)):
                yield word, [*before, *worst, *behind]


def readings_of_input(command: Command, followed: FollowedScript) -> Iterator[tuple[Word, list[str]]]:
    """Argument lists of a command that makes arguments of its input: programs, and options where it lists no names."""
    argv = [text for each in command.words for text in followed.first_reading(each)]
    runner = next((at for at, word in enumerate(argv[:_MAX_PROGRAMS]) if program_name(word) in _RUN_ON_INPUT), None)
    if runner is None:
        return
    mark = next(option_values(argv[runner:], "-I", "--replace", "EPLadns"), "{}")
    given = [["sudo"], [UNKNOWN]]
    producer = followed.producer_of(command)
    if producer not in lists()["lists-names"]:
        plain = [program_name(word) for word in argv[runner + 1 :] if word[:1] != "-"]
        given += [list(words) for name in plain[:_MAX_PROGRAMS] for words, _ in known(name).worst]
        given += [followed.printed_words(command)] if producer in ("echo", "printf") else []
    for words in given:
        replaced = [word.replace(mark, words[0]) for word in argv[runner + 1 :]] if words else []
        if replaced and replaced != argv[runner + 1 :]:
            yield command.words[0], [*argv[: runner + 1], *replaced]
        elif words:
            yield command.words[0], [*argv, *words]


def _is_free_value(word: Word, program: Program, followed: FollowedScript) -> bool:
    """`--author="$(…)"`: one word, and the value of an option that takes any."""
    if word.template.partition("=")[0] not in program.free_values or followed.sets_any or _SEVERAL.search(word.text):
        return False
    return word.quoted or INSERTED.findall(word.template) == _IN_QUOTES.findall(word.marked)


def _may_be_options(word: Word, followed: FollowedScript) -> bool:
    """Whether the output of a command may make a word an option, or several words with options among them."""
    names = INSERTED.findall(word.template)
    if not word.quoted or any(name.endswith("[@]") or name == "@" for name in names):
        return any(map(followed.is_output, names))
    first = names[0] if names and word.template.lstrip("-").startswith("${") else ""
    # A name in quotes that a loop or `read` sets is mostly that of a file.
    return followed.is_output(first) and (first[:1] == "$" or first not in followed.turns | followed.outputs)


def _worst(before: Sequence[str]) -> Iterator[Sequence[str]]:
    """The worst words that may stand behind the first words of a command."""
    name = program_name(before[0])
    program = known(name)
    if program.language and operands(before[1:]):
        return  # the arguments of a script are its own
    acting = [name]
    if program.wrapper is not None or program.passes or not is_listed(name):
        plain = [word for word in before[1:] if word[:1] != "-"]
        acting += map(program_name, plain[:_MAX_PROGRAMS])
        if is_listed(name) and (not program.passes or len(plain) > (name in lists()["container-tools"])):
            yield from (["sudo"], ["sudo", "sudo"])
    for each in acting:
        for words, conditions in known(each).worst:
            if all_hold(conditions, ProgramUse(each, [*before[1:], *words])):
                yield words
