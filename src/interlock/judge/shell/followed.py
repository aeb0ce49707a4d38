"""A shell text whose variables are followed to their values, for each policy that judges its parts one by one.

A value that cannot be followed exactly as bash makes it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from interlock.judge.shell import environment
from interlock.judge.shell.budget import CHOICE, PATTERN, READING, WORD, Budget
from interlock.judge.shell.changes import changed, changed_by_letters
from interlock.judge.shell.conditions import Use
from interlock.judge.shell.flags import operands
from interlock.judge.shell.folders import PROJECT, folder_after, from_project, from_root, is_outside, moved, placed
from interlock.judge.shell.inputs import READ_COMMANDS, RUN_LATER, reader_of
from interlock.judge.shell.pipes import find_pipes
from interlock.judge.shell.programs import known, program_name
from interlock.judge.shell.script import Command, Redirect, Script, Value, Word, words_in
from interlock.judge.shell.values import ALL_ELEMENTS, TEMPORARY, UNKNOWN, plain_names, separators
from interlock.judge.shell.words import expanded, has_glob, secrets_among, unescaped, with_names, words_of

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
        self.unknown = {name for name, texts in self.values.items() if UNKNOWN in texts}
        """Variables of which a value is not wholly in the text."""
        self._secrets: dict[int, list[str]] = {}
        """Files of secrets among lists of words, by the identity of the list, which the script keeps."""
        self.assigned = {name for name, _ in script.assignments}
        self._between = separators(script)
        # A list joined by other characters than a blank is not followed, nor are values that are split at some.
        self._open = self._between is not None or any(value.kind == "any" for value in script.values)
        self._resolve()
        if any(operator.kind == "control_flow" for operator in script.operators):
            # A loop may read a variable before the text sets it, and again.
            before = {name: list(texts) for name, texts in self.values.items()}
            self._resolve()
            self.unknown |= {name for name, texts in self.values.items() if before.get(name) != texts}
        if self._open:
            self.unknown |= set(self.values)
        self._plain = {value.name for value in script.values if value.plain}
        self.outputs = {value.name for value in script.values if value.kind == "named"} - self._plain
        """Names that get words of the output of commands."""
        self._plain_values = plain_names(script.values)
        self._set = _SET_BY_SHELL | self.values.keys()
        turns = [value for value in script.values if value.kind == "turn"]
        self.turns = {value.name for value in turns} - {each.name for each in turns if each.words[0].quoted}
        self._folders = self._follow_folders()
        self.pipes = find_pipes(script)
        self._shared: dict[str, list[str]] | None = None
        """The variables that commands of the text may read, once they were asked for."""

    def _resolve(self) -> None:
        """Follow each value once, in order: this bounds variables that refer to each other."""
        for value in self.script.values:
            if value.change and value.words[0].template[2:-1] not in self.values.keys() | self.unknown:
                continue
            if not (value.complete and all(map(self.is_known, value.words))):
                self.unknown.add(value.name)
            texts = self._texts_of(value)
            given = self.values.setdefault(value.name, []) if texts else []
            given += [text for text in dict.fromkeys(texts) if text not in given]
            if len(given) > _MAX_READINGS:
                self._budget.exceed()
                del given[_MAX_READINGS:]

    def _follow_folders(self) -> dict[int, str]:
        """The folder that a command runs in, by where the command starts."""
        folders = {}
        folder = PROJECT
        for command in sorted(self.script.commands, key=lambda each: each.start):
            folders[command.start] = folder
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
        if body and program.language and not operands([word.text for word in command.words[1:]]):
            yield [name, program.code_option, body]
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
            names = filter(_NAME.fullmatch, self.values.keys() | self.unknown)
            more = {name: [UNKNOWN] if name in self.unknown else [] for name in names}
            self._shared = {name: [*self.values.get(name, ()), *unknown] for name, unknown in more.items()}
        own = {name: self.texts(value) for name, value in command.assignments}
        # `env x=a sh -c …` sets variables, too, and other programs take such words for something else.
        for name, _, text in (word.text.partition("=") for word in command.words[1:] if not word.dynamic):
            if _NAME.fullmatch(name):
                own[name] = [*own.get(name, self._shared.get(name, [])), text]
        return self._shared | own

    def texts(self, word: Word) -> list[str]:
        """The texts that a word may stand for; unknown parts are left open."""
        return [text for choice in self._choices([word]) for text in self._read(word, choice)]

    def _texts_of(self, value: Value) -> list[str]:
        """The texts that a name may stand for by one of its values."""
        if value.change:
            name = value.words[0].template[2:-1]
            made = [made for text in self.values.get(name, [UNKNOWN]) for made in self._changed(value.change, text)]
            self.unknown |= {value.name} if UNKNOWN in made else set()
            return made
        if value.kind in ("word", "element"):
            texts = [text for choice in self._choices(value.words) for text in self._whole(value.words[0], choice)]
            return texts + (self.texts(value.words[0]) if value.kind == "element" and value.words[0].shape else [])
        if value.kind in ("turn", "parameter"):
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
            self._secrets[id(words)] = secrets_among(texts) if enough else []
        return self._secrets[id(words)]

    def _changed(self, change: str, text: str) -> list[str]:
        """The values that an expansion may make of a text, with an unknown one where that depends on the locale."""
        followed = self._budget.spend_on_value(len(change) + len(text))
        return (changed(change, text) or [*changed_by_letters(change, text), UNKNOWN]) if followed else [UNKNOWN]

    def _whole(self, word: Word, choice: dict[str, str]) -> list[str]:
        """The values that an assignment of a word gives: the shell does not split it. Some commands expand braces."""
        if not word.dynamic:
            return [word.text, *(words_of(word.shape).words if "{" in word.shape else ())]
        text = self._inserted(word.template, choice)
        return [text, *(self._read(word, choice) if "{" in word.shape else ())]

    def _inserted(self, template: str, choice: dict[str, str], *, splits: bool = False) -> str:
        """A template with its values, which stand in words of their own where it splits."""

        def value(match: re.Match[str]) -> str:
            text = choice.get(match[1].removeprefix('"'), UNKNOWN)
            return self._split(text.replace(_BETWEEN, " ")) if splits and match[1][:1] != '"' else text

        text = INSERTED.sub(value, template)
        if len(text) > _MAX_CHARS:
            self._budget.exceed()
        self._budget.spend_on_value(len(text))
        return text[:_MAX_CHARS]

    def _read(self, word: Word, choice: dict[str, str], program: str = "") -> list[str]:
        """The words that one word becomes, with names that a pattern in it may match."""
        if (not word.dynamic and not word.shape) or self._budget.left < 0:
            return [word.text]
        if not word.dynamic:
            read, complete = words_of(word.shape, program)
            self._spend(word, read, complete=complete)
            return read
        source = word.shape or word.marked or word.template
        shapes, complete = expanded(source) if word.shape else ([source], True)
        read = []
        for shape in shapes:
            text = self._inserted(unescaped(shape) if word.shape else shape, choice, splits=not word.quoted)
            parts = text.split(_BETWEEN) if word.quoted else [part for part in text.split(_BETWEEN) if part]
            read += parts if word.quoted else with_names(parts, program)
        self._spend(word, read, complete=complete)
        return read

    def _split(self, text: str) -> str:
        """The value of a variable outside quotes, as the shell splits it into words."""
        text = self._between.sub(" ", text) if self._between is not None else text
        words = _BETWEEN.join(text.split())
        return f"{_BETWEEN * text[:1].isspace()}{words}{_BETWEEN * text[-1:].isspace()}"

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
        lists = {name for word in words for name in INSERTED.findall(word.template) if name.endswith(ALL_ELEMENTS)}
        split = {word.template[2:-1] for word in words if not word.quoted and INSERTED.fullmatch(word.template)}
        split = {name for name in split - self.turns if self._open or self._is_open(name)}
        names = lists | (split if program in ("rm", "dd") else set())
        return dict.fromkeys(names & self.unknown, _STRICTEST[program])

    def _is_open(self, name: str) -> bool:
        """Whether a variable that is not known has no value in the text, or one that begins with an unknown word."""
        texts = self.values.get(name, [UNKNOWN])
        return any(text == UNKNOWN or text.startswith((f"{UNKNOWN}-", f"{UNKNOWN} ")) for text in texts)

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
        if word.quoted:
            # One word, mostly a file of a loop; the output of a command that stands here may be an option.
            names = [name for name in names[:1] if name[:1] == "$" and word.template.startswith("${")]
        open_names = set(names) & self.unknown - self._plain
        return any(UNKNOWN in self.values.get(name, [UNKNOWN]) for name in open_names)

    def is_output(self, name: str) -> bool:
        """Whether a name may have a value that a command prints or reads, which may be any text."""
        if name not in self.unknown:
            return name not in self.values and name[: -3 if name.endswith(ALL_ELEMENTS) else None] in _SET_BY_SHELL
        texts = self.values.get(name, [UNKNOWN])
        return name not in self._plain_values and (name in self.outputs or any(UNKNOWN in text for text in texts))

    def is_one_word(self, word: Word) -> bool:
        """Whether each value that is inserted in a word is a turn of a loop over words that were split."""
        return not self._open and self.turns.issuperset(INSERTED.findall(word.template))

    def first_reading(self, word: Word) -> list[str]:
        """The words that one word becomes with the first of its values."""
        return self._read(word, self._choices([word])[0])

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


_MAX_WRAPPERS = 8
_LETTERS = re.compile(r"[A-Za-z-]*")
_SET_BY_SHELL = frozenset({"_", "REPLY", "OPTARG", "MAPFILE", "BASH_REMATCH", "BASH_ARGV", "BASH_COMMAND", *"@*1234"})
_STRICTEST = {
    "rm": f"-rf{_BETWEEN}/",
    "find": f"/{_BETWEEN}-delete",
    "dd": "of=/dev/sda",
    "git": "--force",
}
"""The worst that a list of unknown words can be, of programs where it is harm."""
_LISTINGS = frozenset({"env", "printenv", "export", "declare", "typeset", "set"})
