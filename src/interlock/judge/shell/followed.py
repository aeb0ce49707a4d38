"""A shell text whose variables are followed to their values, for each policy that judges its parts one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product, takewhile

from interlock.judge.shell import environment
from interlock.judge.shell.budget import READING, WorkBudget
from interlock.judge.shell.conditions import ProgramUse
from interlock.judge.shell.flags import operands
from interlock.judge.shell.folders import PROJECT, folder_after, from_project, from_root, is_outside, moved, placed
from interlock.judge.shell.followed_values import ANY, BETWEEN, SET_BY_SHELL, FollowedValues
from interlock.judge.shell.inputs import READ_COMMANDS, printed, reader_of, sources_of
from interlock.judge.shell.pipes import find_pipes
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.script import Command, Redirect, Script, Setting, Word, words_in
from interlock.judge.shell.values import ALL_ELEMENTS, INSERTED, UNKNOWN
from interlock.judge.shell.words import secrets_among
from interlock.judge.shell.wrappers import inner_commands

_MAX_PLACED = 400
"""Words of a command that runs outside the project."""
_NAME = re.compile(r"[A-Za-z_]\w*")


class FollowedScript(FollowedValues):
    """One text of joined commands: its variables, and what its redirections give to which command."""

    def __init__(
        self,
        script: Script,
        budget: WorkBudget,
        inherited: Mapping[str, Sequence[str]] | None = None,
        *,
        within: bool = False,
    ) -> None:
        """`inherited` has the variables of the text around it, by name. `within` is whether there is such a text."""
        super().__init__(script, budget, inherited)
        self._within = within
        self._set = SET_BY_SHELL | self.values.keys()
        self._maybe: set[int] = set()
        """Where commands start that run in the folder before a `cd` if it fails."""
        self._folders = self._follow_folders()
        self.pipes = find_pipes(script)
        self._shared: dict[str, list[str]] | None = None
        """The variables that commands of the text may read, once they were asked for."""

    def _follow_folders(self) -> dict[int, str]:
        """The folder that a command runs in, by where the command starts."""
        folders = {}
        folder = PROJECT
        moves = {move.start: move for move in self.script.moves}
        left: list[tuple[Setting, str]] = []
        for command in sorted(self.script.commands, key=lambda each: each.start):
            while left and left[-1][0].process <= command.start:
                folder = left.pop()[1]
            folders[command.start] = folder
            if any(move.end <= command.start for move, _ in left):
                self._maybe.add(command.start)
            if command.start in moves:
                left.append((moves[command.start], folder))
            if command.words and command.words[0].text in ("cd", "pushd") and self._budget.spend_on_value(len(folder)):
                targets = self.texts(command.words[1]) if len(command.words) > 1 else [""]
                after = [folder_after(folder, words_in(command)[:1] + target.split()) for target in targets]
                folder = next(filter(is_outside, after), after[-1])
        return folders

    def redirected(self, redirect: Redirect, target: str) -> str:
        """The file of a redirection, from the project. `..` may still be inside the project, so it counts as inside."""
        before = [start for start in self._folders if start <= redirect.start]
        folder = self._folders[max(before)] if before else PROJECT
        return target if folder.startswith("..") else placed(folder, from_project(folder, target))

    def readings(self, command: Command) -> Iterator[list[str]]:
        """The argument lists that a command may become, with each of the values that its variables are given."""
        if not command.words:
            return
        name = program_name(command.words[0].text)
        body = self._input_of(command)
        program = known(name)
        cost = READING + command.end - command.start
        first = operands([word.text for word in command.words[1:]])[:1] if program.language else None
        if first == ["-"] or (body and first == []):
            # Alone, an interpreter is refused for what it may read.
            codes = self._inserted_code(body) if body and self.input_is_known(command) else []
            yield from [[name, program.code_option, code] for code in codes] or [[name]]
            # Options may give it other code: `python3 -c'…' <<< x`.
            options = list(takewhile(_OPTION.match, [word.text for word in command.words[1:]]))
            if options:
                yield [name, *options, _SCRIPT]
            return
        given = self._codes_behind(name, command, body) if body and not program.language else []
        if given:
            yield from given
            return
        # The length of a command bounds the first readings of its own parts.
        free = not self._within
        acting = self._acting(name, command.words)
        for choice in self._choices(command.words, self._strictest(acting, command.words)):
            if not free and not self._budget.spend(cost):
                return  # refused as too many
            free = False
            argv = [text for word in command.words for text in self._read(word, choice, name)]
            argv = self._without_filtered(command, argv or [UNKNOWN])
            folder = self._folders[command.start]
            if folder and command.start in self._maybe:
                yield list(argv)
            if folder:
                argv = moved(argv, from_project, folder, self._budget)
            if folder and name == "rm":
                argv = moved(argv, from_root, folder, self._budget)
            if name == "dd":
                argv = [_STRICTEST[name] if word == f"of={UNKNOWN}" else word for word in argv]
            yield [*argv, body] if body and program.reads_sql else argv
            if body and name in READ_COMMANDS:
                yield [*argv, *body.splitlines()[:_MAX_PLACED]]
            found = self._names_given(command) if name == "xargs" else []
            if found:
                yield [*argv, *found]
            if is_outside(folder):
                if len(argv) > _MAX_PLACED:
                    self._budget.exceed()
                yield moved(argv[:_MAX_PLACED], placed, folder, self._budget)

        if acting == "rm" and (argv := self._with_options(command.words)):
            yield argv

    def _codes_behind(self, name: str, command: Command, body: str) -> list[list[str]]:
        """`uv run python - <<EOF` with the code as an argument, where the program runs the interpreter as it is."""
        texts = words_in(command)
        at = next((at for at, text in enumerate(texts[:_MAX_WRAPPERS]) if known(program_name(text)).language), 0)
        plain = not any(word.dynamic or word.pattern for word in command.words)
        inner, shell_texts = inner_commands(name, texts[1:]) if at and plain else ([], [])
        if texts[at:] not in inner or shell_texts or operands(texts[at + 1 :])[:1] not in (["-"], []):
            return []
        option = known(program_name(texts[at])).code_option
        end = texts.index("-", at) if "-" in texts[at:] else len(texts)
        codes = self._inserted_code(body) if self.input_is_known(command) else []
        return [[*texts[:end], option, code, *texts[end + 1 :]] for code in codes]

    def _acting(self, name: str, words: Sequence[Word]) -> str:
        """The program of a command, or the one that it runs where that can do harm with some options."""
        if known(name).wrapper is None:
            return name
        inner = (program_name(word.text) for word in words[1:_MAX_WRAPPERS] if not word.dynamic)
        return next((each for each in inner if each in _STRICTEST), name)

    def _with_options(self, words: Sequence[Word]) -> list[str]:
        """`rm "$x" a` as `rm -rf a`, where the text sets `x` to a word that is not known; nothing without any."""
        options = [word for word in words if self._may_be_option(word)]
        names = {name for word in options for name in INSERTED.findall(word.template)}
        argv = []
        for word in words:
            if word in options:
                argv.append("-rf")
            elif not word.template.startswith(tuple(f"${{{name}}}" for name in names)):
                argv += self._read(word, self._choices([word])[0])
        argv += [UNKNOWN] if len(names & self.unknown) > 1 else []
        at = next((at for at, word in enumerate(argv) if program_name(word) == "rm"), 0)
        return argv if options and operands(argv[at + 1 :]) else []

    def _may_be_option(self, word: Word) -> bool:
        """Whether an unknown value of a variable that the text or the shell sets may make a word an option."""
        if not word.template.startswith(("${", "-")) or not _LETTERS.fullmatch(INSERTED.sub("", word.template)):
            return False
        names = INSERTED.findall(word.template)
        shell_sets = any(
            name not in self.values and name[: -3 if name.endswith(ALL_ELEMENTS) else None] in self._set
            for name in names
        )
        return shell_sets or not self.unknown.isdisjoint(names)

    def _names_given(self, command: Command) -> list[str]:
        """Files of secrets that the command before a pipe names: `find . -name .env | xargs cat`."""
        return [name for left, right in self.pipes if right is command for name in secrets_among(words_in(left))]

    def _without_filtered(self, command: Command, argv: list[str]) -> list[str]:
        """`env | grep NODE` as `printenv NODE`: a filter leaves some of the variables that a command lists."""
        if argv[0].rpartition("/")[2] not in _LISTINGS or not environment.lists_all(ProgramUse(argv[0], argv[1:])):
            return argv
        following = next((right for left, right in self.pipes if left is command), None)
        left = environment.names_left(words_in(following)) if following is not None else None
        return argv if left is None else ["printenv", *(left or [UNKNOWN])]

    def given_to_shell(self, command: Command, *, runs: bool) -> Iterator[str]:
        """Texts that go to a shell elsewhere or later: the input of `ssh` and `at`. `runs`: it surely is one."""
        body = self._input_of(command)
        name = program_name(command.words[0].text) if command.words else ""
        wrapper = known(name).wrapper
        if body and (runs or (wrapper is not None and wrapper.joins)):
            yield body

    def handed_on(self, command: Command) -> dict[str, list[str]]:
        """The variables that a command of the text may read, with their values: those of the text, and its own."""
        if self._shared is None:
            names = filter(_NAME.fullmatch, self.values.keys() | self.unknown)
            unsure = self.unknown | (set(self.values) - _exported(self.script))
            more = {name: [UNKNOWN] if name in unsure else [] for name in names}
            self._shared = {name: [*self.values.get(name, ()), *unknown] for name, unknown in more.items()}
            self._shared |= {ANY: [UNKNOWN]} if self.sets_any else {}
        if command.words and command.words[0].text == "trap":  # this shell runs the text itself
            own = {name: [UNKNOWN] if name in self.unknown else [] for name in self._shared}
            return {name: [*self.values.get(name, ()), *unknown] for name, unknown in own.items()}
        own = {name: self.texts(value) for name, value in command.assignments}
        # `env x=a sh -c …` sets variables, too, and other programs take such words for something else.
        for name, _, text in (word.text.partition("=") for word in command.words[1:] if not word.dynamic):
            if _NAME.fullmatch(name):
                own[name] = [*own.get(name, self._shared.get(name, [])), text]
        return self._shared | own

    def _strictest(self, program: str, words: Sequence[Word]) -> dict[str, str]:
        """The worst values of names that the text sets to words which cannot be followed."""
        if program not in _STRICTEST or not self.unknown:
            return {}
        lists = {name for word in words for name in INSERTED.findall(word.template) if name.endswith(ALL_ELEMENTS)}
        split = {word.template[2:-1] for word in words if not word.quoted and INSERTED.fullmatch(word.template)}
        split = {name for name in split - self.turns if self._open or self._is_open(name)}
        names = lists | (split if program in ("rm", "dd") else set())
        return dict.fromkeys(names & self.unknown, _STRICTEST[program])

    def _input_of(self, command: Command) -> str:
        """The text that a command reads: a here-document, a here-string, or what `echo` or `printf` gives it."""
        for redirect in self.script.redirects:
            if (redirect.body or redirect.operator == "<<<") and reader_of(redirect, self.script.commands) is command:
                return redirect.body or "\n".join(self.texts(redirect.target) if redirect.target is not None else ())
        for left, right in self.pipes:
            if right is command and left.words[0].text in ("echo", "printf"):
                choices = self._choices(left.words[1:])
                texts = [
                    [text for word in left.words[1:] for text in self._read(word, each, "echo")] for each in choices
                ]
                return "\n".join([printed([left.words[0].text, *words]) or " ".join(words) for words in texts])
        return ""

    def _inserted_code(self, body: str) -> list[str]:
        """Code as it is written, and with each of the values that its variables may have; nothing if not followed."""
        names = [name for name in dict.fromkeys(_REFERENCE.findall(body)) if name in self.values]
        choices = list(islice(product(*(self.values[name] for name in names)), _MAX_CODES + 1)) if names else []
        if len(choices) > _MAX_CODES or any(name in names for name in _CHANGED.findall(body)):
            return []
        return [body, *(_with_values(body, dict(zip(names, choice, strict=True))) for choice in choices)]

    def producer_of(self, command: Command) -> str:
        """The program whose output a command reads, through filters that leave some of its lines."""
        for _ in self.pipes:
            left = next((left for left, right in self.pipes if right is command), None)
            if left is None or left.words[0].text not in _FILTERS:
                return left.words[0].text if left is not None else ""
            command = left
        return ""

    def printed_words(self, command: Command) -> list[str]:
        """The words that `echo` or `printf` gives to a command."""
        return self._input_of(command).split()

    def input_is_known(self, command: Command) -> bool:
        """Whether all that a command reads is in the text itself."""
        sources = sources_of(command, self.script, self.pipes)
        if not sources and not self._within:
            return True
        source = sources[0] if len(sources) == 1 else None
        if isinstance(source, Command):
            return all(map(self.is_known, source.words)) and printed(words_in(source)) is not None
        if source is None or source.operator == "<":
            return False
        if source.target is not None:
            return source.operator == "<<<" and self.is_known(source.target)
        span = range(source.start, source.end)
        expands = any(each.kind == "substitution" and each.start in span for each in self.script.operators)
        return not expands and not any(map(self.is_output, _REFERENCE.findall(source.body)))


def _exported(script: Script) -> set[str]:
    """Variables that a program which the text starts surely has."""
    found = set(script.exports)
    for words in map(words_in, script.commands):
        if words[:1] == ["export"]:
            found |= set(words[1:])
        elif words[:2] == ["set", "-a"]:
            found |= {setting.name for setting in script.settings}
    return found


def _with_values(body: str, values: Mapping[str, str]) -> str:
    return _PLAIN.sub(lambda match: values.get(match[1], match[0]), body)


_MAX_WRAPPERS = 8
_FILTERS = frozenset({"grep", "head", "sort", "tail", "uniq"})
_MAX_CODES = 4
_REFERENCE = re.compile(r"\$\{?[!#]?(\w+)")
_PLAIN = re.compile(r"\$(?=\w|\{\w+\})\{?(\w+)\}?")
_CHANGED = re.compile(r"\$\{(?!\w+\})[!#]?(\w+)")
"""`${x:1}`, `${x/a/b}`, `${!x}`."""
_LETTERS = re.compile(r"[A-Za-z-]*")
_OPTION = re.compile(r"-.")
_SCRIPT = "script"
"""The name of a script, in the place of the input that an interpreter reads."""
_STRICTEST = {
    "rm": f"-rf{BETWEEN}/",
    "find": f"/{BETWEEN}-delete",
    "dd": "of=/dev/sda",
    "git": "--force",
}
"""The worst that a list of unknown words can be, of programs where it is harm."""
_LISTINGS = frozenset({"env", "printenv", "export", "declare", "typeset", "set"})
