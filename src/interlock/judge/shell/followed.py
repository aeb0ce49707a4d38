"""A shell text whose variables are followed to their values, for each policy that judges its parts one by one.

A value that cannot be followed exactly as bash makes it is unknown.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from interlock.judge.shell import environment
from interlock.judge.shell.budget import CHOICE, PATTERN, READING, WORD, Budget
from interlock.judge.shell.changes import changed
from interlock.judge.shell.conditions import Use
from interlock.judge.shell.flags import operands
from interlock.judge.shell.folders import PROJECT, folder_after, from_project, from_root, is_outside, placed
from interlock.judge.shell.inputs import READ_COMMANDS, RUN_LATER, reader_of
from interlock.judge.shell.patterns import compiled
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.script import Command, Redirect, Script, Value, Word
from interlock.judge.shell.values import TEMPORARY
from interlock.judge.shell.words import expanded, has_glob, unescaped, with_names, words_of

_MAX_READINGS = 64
_MAX_REFUSED = 16
"""Readings of a text that is refused for having too many."""
_MAX_PLACED = 400
"""Words of a command that runs outside the project."""
_MAX_CHARS = 4_096
INSERTED = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_BETWEEN = "\0"
"""Stands between the elements of a list."""
_IN_HOME = re.compile(r"\$\{HOME\}(?:/[\w.-]+)+")
UNKNOWN = "_"
"""Stands for the value of an expansion that is not known before the command runs."""


class FollowedScript:
    """One text of joined commands: its variables, and what its redirections give to which command."""

    def __init__(
        self,
        script: Script,
        budget: Budget,
        inherited: Mapping[str, Sequence[str]] | None = None,
        *,
        within: bool = False,
    ) -> None:
        """`inherited` has the variables of the text around it, by name. `within` is whether there is such a text."""
        self.script = script
        self._budget = budget
        self._within = within
        self.values: dict[str, list[str]] = {name: list(texts) for name, texts in (inherited or {}).items()}
        self.unknown: set[str] = set()
        """Variables of which a value is not wholly in the text."""
        self._secrets: dict[int, list[str]] = {}
        """Files of secrets among lists of words, by the identity of the list, which the script keeps."""
        # Resolve values once, in order: this bounds variables that refer to each other.
        for value in script.values:
            if value.change and not any(name in self.values for name in INSERTED.findall(value.words[0].template)):
                continue
            if not (value.complete and all(map(self.is_known, value.words))):
                self.unknown.add(value.name)
            texts = self._texts_of(value)
            given = self.values.setdefault(value.name, []) if texts else []
            given += [text for text in texts if text not in given]
            if len(given) > _MAX_READINGS:
                budget.exceed()
                del given[_MAX_READINGS:]
        self.assigned = {name for name, _ in script.assignments}
        self._plain = {value.name for value in script.values if value.plain}
        self._turns = {value.name for value in script.values if value.kind == "turn"}
        self._folders = self._follow_folders()
        self.pipes = self._find_pipes()
        self._shared: dict[str, list[str]] | None = None
        """The variables that commands of the text may read, once they were asked for."""

    def _follow_folders(self) -> dict[int, str]:
        """The folder that a command runs in, by where the command starts."""
        folders = {}
        folder = PROJECT
        for command in sorted(self.script.commands, key=lambda each: each.start):
            folders[command.start] = folder
            if command.words and command.words[0].text in ("cd", "pushd"):
                targets = self.texts(command.words[1]) if len(command.words) > 1 else [""]
                moved = [folder_after(folder, words_in(command)[:1] + target.split()) for target in targets]
                folder = next(filter(is_outside, moved), moved[-1])
        return folders

    def redirected(self, redirect: Redirect, target: str) -> str:
        """The file of a redirection, from the project. `..` may still be inside the project, so it counts as inside."""
        before = [start for start in self._folders if start <= redirect.start]
        folder = self._folders[max(before)] if before else PROJECT
        return target if folder.startswith("..") else placed(folder, from_project(folder, target))

    def _find_pipes(self) -> list[tuple[Command, Command]]:
        """The commands on both sides of each pipe, in their order."""
        commands = [command for command in self.script.commands if command.words]
        starts, ends = sorted(commands, key=_start), sorted(commands, key=_end)
        found = []
        for operator in sorted(self.script.operators, key=lambda each: each.start):
            left = bisect_right(ends, operator.start, key=_end) - 1
            right = bisect_left(starts, operator.end, key=_start)
            if operator.kind == "pipe" and left >= 0 and right < len(starts):
                found.append((ends[left], starts[right]))
        return found

    def readings(self, command: Command) -> Iterator[list[str]]:
        """The argument lists that a command may become, with each of the values that its variables are given."""
        if not command.words:
            return
        name = program_name(command.words[0].text)
        body = self._input_of(command)
        program = known(name)
        cost = READING + command.end - command.start
        if body and program.language and not operands([word.text for word in command.words[1:]]):
            yield [name, program.code_option, body]
            return
        # The length of a command bounds the first readings of its own parts.
        free = not self._within
        for choice in self._choices(command.words, self._strictest(name, command.words)):
            if not free and not self._budget.spend(cost):
                return  # refused as too many
            free = False
            argv = [text for word in command.words for text in self._read(word, choice, name)]
            argv = self._without_filtered(command, argv or [UNKNOWN])
            folder = self._folders[command.start]
            if folder:
                argv = [argv[0], *(from_project(folder, word) for word in argv[1:])]
            if folder and name == "rm":
                argv = [argv[0], *(from_root(folder, path) for path in argv[1:])]
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
                yield [argv[0], *(placed(folder, word) for word in argv[1:_MAX_PLACED])]

    def _names_given(self, command: Command) -> list[str]:
        """Files of secrets that the command before a pipe names: `find . -name .env | xargs cat`."""
        return [name for left, right in self.pipes if right is command for name in _secrets_named(words_in(left))]

    def _without_filtered(self, command: Command, argv: list[str]) -> list[str]:
        """`env | grep NODE` as `printenv NODE`: a filter leaves some of the variables that a command lists."""
        if argv[0].rpartition("/")[2] not in _LISTINGS or not environment.lists_all(Use(argv[0], argv[1:])):
            return argv
        following = next((right for left, right in self.pipes if left is command), None)
        left = environment.names_left(words_in(following)) if following is not None else None
        return argv if left is None else ["printenv", *(left or [UNKNOWN])]

    def given_to_shell(self, command: Command) -> Iterator[str]:
        """Texts that go to a shell elsewhere or later: the input of `ssh` and `at`."""
        body = self._input_of(command)
        name = program_name(command.words[0].text) if command.words else ""
        wrapper = known(name).wrapper
        if body and ((wrapper is not None and wrapper.joins) or name in RUN_LATER):
            yield body

    def handed_on(self, command: Command) -> dict[str, list[str]]:
        """The variables that a command of the text may read, with their values: those of the text, and its own."""
        if self._shared is None:
            self._shared = {name: texts for name, texts in self.values.items() if _NAME.fullmatch(name)}
        if not command.assignments:
            return self._shared
        return self._shared | {name: self.texts(value) for name, value in command.assignments}

    def texts(self, word: Word) -> list[str]:
        """The texts that a word may stand for; unknown parts are left open."""
        return [text for choice in self._choices([word]) for text in self._read(word, choice)]

    def _texts_of(self, value: Value) -> list[str]:
        """The texts that a name may stand for by one of its values."""
        if value.change:
            made = [self._changed(value.change, text) for text in self.texts(value.words[0])]
            if not all(made):
                self.unknown.add(value.name)
            return [text for texts in made for text in texts or [UNKNOWN]]
        if value.kind in ("word", "turn"):
            return self.texts(value.words[0])
        if value.kind == "named":
            return self._secrets_among(value.words)
        between = _BETWEEN if value.kind == "list" else " "
        choices = self._choices(value.words) if value.words else []
        return [between.join([text for word in value.words for text in self._read(word, choice)]) for choice in choices]

    def _secrets_among(self, words: Sequence[Word]) -> list[str]:
        """Files of secrets among the words of commands. All names that `read` sets share one list of words."""
        if id(words) not in self._secrets:
            texts = [word.text for word in words]
            enough = self._budget.spend_on_value(sum(map(len, texts)))
            enough = self._budget.spend(sum(map(has_glob, texts)) * PATTERN) and enough
            self._secrets[id(words)] = _secrets_named(texts) if enough else []
        return self._secrets[id(words)]

    def _changed(self, change: str, text: str) -> list[str]:
        return changed(change, text) if self._budget.spend_on_value(len(change) + len(text)) else []

    def _read(self, word: Word, choice: dict[str, str], program: str = "") -> list[str]:
        """The words that one word becomes, with names that a pattern in it may match."""
        if (not word.dynamic and not word.shape) or self._budget.left < 0:
            return [word.text]
        if not word.dynamic:
            read, complete = words_of(word.shape, program)
            self._spend(word, read, complete=complete)
            return read
        shapes, complete = expanded(word.shape) if word.shape else ([word.template], True)
        quoted = word.text[:1] == '"'
        read = []
        for shape in shapes:
            template = unescaped(shape) if word.shape else shape
            text = INSERTED.sub(lambda match: choice.get(match[1], UNKNOWN), template)[:_MAX_CHARS]
            # The shell splits the value of a variable outside quotes into words, and a list in any case.
            parts = text.split(_BETWEEN) if quoted else text.replace(_BETWEEN, " ").split()
            read += parts if quoted and not word.shape else with_names(parts, program)
        self._spend(word, read, complete=complete)
        return read

    def _spend(self, word: Word, read: Sequence[str], *, complete: bool) -> None:
        """Count the words that one word became."""
        self._budget.spend((len(read) - 1) * WORD + sum(map(has_glob, read)) * PATTERN)
        self._budget.spend_on_value(max(sum(map(len, read)) - len(word.text), 0))
        if not complete:
            self._budget.exceed()

    def _strictest(self, program: str, words: Sequence[Word]) -> dict[str, str]:
        """The worst values of names that the text sets to words which cannot be followed."""
        if program not in _STRICTEST or not self.unknown:
            return {}
        lists = {name for word in words for name in INSERTED.findall(word.template) if name[-3:] == "[@]"}
        split = {word.template[2:-1] for word in words if word.text[:1] != '"' and INSERTED.fullmatch(word.template)}
        split = {name for name in split - self._turns if self.values.get(name, [UNKNOWN]) == [UNKNOWN]}
        names = lists | (split if program in ("rm", "dd") else set())
        return dict.fromkeys(names & self.unknown, _STRICTEST[program])

    def _choices(self, words: Sequence[Word], worst: dict[str, str] | None = None) -> list[dict[str, str]]:
        """Each choice of values for the variables in some words, and one with the worst for those not known."""
        if not any(word.dynamic for word in words):
            return [{}]
        names = list(dict.fromkeys(name for word in words for name in INSERTED.findall(word.template)))
        not_known = {"HOME": "~", **(worst or {})}
        given = [self.values.get(name) or [not_known.get(name, UNKNOWN)] for name in names]
        most = 1 if self._budget.left < 0 else _MAX_REFUSED if self._budget.exceeded else _MAX_READINGS
        choices = list(islice(product(*given), most + 1))
        if len(choices) > most:
            # The text is questioned in any case, so a few show as much as many.
            self._budget.exceed()
            most = min(most, _MAX_REFUSED)
        found = [dict(zip(names, choice, strict=True)) for choice in choices[:most]]
        if any(name in self.unknown and name in self.values for name in names):
            first = found[0].items()
            found.append({name: not_known.get(name, UNKNOWN) if name in self.unknown else text for name, text in first})
        self._budget.spend(len(found) * CHOICE if names else 0)
        return found

    def may_be_options(self, word: Word) -> bool:
        """Whether a word comes from a command of the text that may print anything, options among it."""
        names = INSERTED.findall(word.template)
        if word.text[:1] == '"':
            # One word, mostly a file of a loop; the output of a command that stands here may be an option.
            names = [name for name in names[:1] if name[:1] == "$" and word.template.startswith("${")]
        open_names = set(names) & self.unknown - self._plain
        return any(self.values.get(name, [UNKNOWN]) == [UNKNOWN] for name in open_names)

    def is_known(self, word: Word) -> bool:
        """Whether all that a word may stand for is in the text itself."""
        return all(name in self.values and name not in self.unknown for name in INSERTED.findall(word.template))

    def names_program(self, word: Word) -> bool:
        """Whether the text says which program a word is, by its name or by its path in the home folder."""
        if not word.dynamic:
            return True
        named = self.is_known(word) and TEMPORARY not in self.texts(word)
        return named or _IN_HOME.fullmatch(word.template) is not None

    def _input_of(self, command: Command) -> str:
        """The text that a command reads: a here-document, a here-string, or what `echo` or `printf` gives it."""
        for redirect in self.script.redirects:
            if (redirect.body or redirect.operator == "<<<") and reader_of(redirect, self.script.commands) is command:
                return redirect.body or "\n".join(self.texts(redirect.target) if redirect.target is not None else ())
        for left, right in self.pipes:
            if right is command and left.words[0].text in ("echo", "printf"):
                return " ".join(words_in(left)[1:])
        return ""


_STRICTEST = {
    "rm": f"-rf{_BETWEEN}/",
    "find": f"/{_BETWEEN}-delete",
    "dd": "of=/dev/sda",
    "git": "--force",
}
"""The worst that a list of unknown words can be, of programs where it is harm."""
_BREAK = re.compile(r"\\[nt0]|\s+")
"""The end of a line, as `printf` gets it."""
_LISTINGS = frozenset({"env", "printenv", "export", "declare", "typeset", "set"})


def _start(command: Command) -> int:
    return command.start


def _end(command: Command) -> int:
    return command.end


def words_in(command: Command) -> list[str]:
    return [word.text for word in command.words]


def _secrets_named(words: Sequence[str]) -> list[str]:
    """Files of secrets among some words, by name or by a pattern."""
    secret = compiled("<SECRETS>|<SECRET_FILE>")
    parts = [part for word in words for part in _BREAK.split(word)]
    return [name for name in with_names(parts) if secret.search(name)]
