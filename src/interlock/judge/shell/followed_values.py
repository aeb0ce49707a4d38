"""The values of the variables in one shell text, and the words that a word of it becomes with each of them.

A value that cannot be followed exactly as bash makes it is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice, product

from interlock.judge.shell.budget import CHOICE, PATTERN, WORD, WorkBudget
from interlock.judge.shell.changes import changed, changed_by_letters
from interlock.judge.shell.reach import unset_names
from interlock.judge.shell.script import Script, Value, Word
from interlock.judge.shell.values import ALL_ELEMENTS, INSERTED, TEMPORARY, UNKNOWN, plain_names, separators
from interlock.judge.shell.words import expanded, has_glob, secrets_among, unescaped, with_names, words_of

_MAX_READINGS = 64
_MAX_REFUSED = 16
"""Readings of a text that is refused for having too many."""
_MAX_CHARS = 4_096
BETWEEN = "\0"
"""Stands between the elements of a list."""
ANY = ""
"""The name of a variable that is not known, where a text hands on that any may be set."""
_IN_HOME = re.compile(r"\$\{HOME\}(?:/[\w.-]+)+")
SET_BY_SHELL = frozenset({"_", "REPLY", "OPTARG", "MAPFILE", "BASH_REMATCH", "BASH_ARGV", "BASH_COMMAND", *"@*1234"})


class FollowedValues:
    """The variables of one text of joined commands."""

    def __init__(
        self,
        script: Script,
        budget: WorkBudget,
        inherited: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`inherited` has the variables of the text around it, by name."""
        self.script = script
        self._budget = budget
        self.values: dict[str, list[str]] = {name: list(texts) for name, texts in (inherited or {}).items()}
        self.unknown = {name for name, texts in self.values.items() if UNKNOWN in texts}
        """Variables of which a value is not wholly in the text."""
        self.unknown |= {
            name for each in unset_names(script) for name in (each, *(f"{each}{end}" for end in ALL_ELEMENTS))
        }
        self._secrets: dict[int, list[str]] = {}
        """Files of secrets among lists of words, by the identity of the list, which the script keeps."""
        self.assigned = {name for name, _ in script.assignments}
        self._between = separators(script)
        # The text may set any variable, by a name that is not known or by a reference (`declare -n`).
        self.sets_any = ANY in self.values or any(value.kind == "any" for value in script.values)
        # A list joined by other characters than a blank is not followed, nor are values that are split at some.
        self._open = self._between is not None or self.sets_any
        self._resolve()
        if any(operator.kind == "control_flow" for operator in script.operators):
            # A loop may read a variable before the text sets it, and again.
            before = {name: list(texts) for name, texts in self.values.items()}
            self._resolve()
            self.unknown |= {name for name, texts in self.values.items() if before.get(name) != texts}
        if self._open:
            self.unknown |= set(self.values)
        if self.sets_any:
            words = [word for command in script.commands for word in command.words]
            self.unknown |= {name for word in words for name in INSERTED.findall(word.template)}
        self._plain = {value.name for value in script.values if value.plain}
        self.outputs = {value.name for value in script.values if value.kind == "named"} - self._plain
        """Names that get words of the output of commands."""
        self._plain_values = plain_names(script.values)
        turns = [value for value in script.values if value.kind == "turn"]
        self.turns = {value.name for value in turns} - {each.name for each in turns if each.words[0].quoted}

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
        between = BETWEEN if value.kind == "list" else " "
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
            return self._split(text.replace(BETWEEN, " ")) if splits and match[1][:1] != '"' else text

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
            parts = text.split(BETWEEN) if word.quoted else [part for part in text.split(BETWEEN) if part]
            read += parts if word.quoted else with_names(parts, program)
        self._spend(word, read, complete=complete)
        return read

    def _split(self, text: str) -> str:
        """The value of a variable outside quotes, as the shell splits it into words."""
        text = self._between.sub(" ", text) if self._between is not None else text
        words = BETWEEN.join(text.split())
        return f"{BETWEEN * text[:1].isspace()}{words}{BETWEEN * text[-1:].isspace()}"

    def _spend(self, word: Word, read: Sequence[str], *, complete: bool) -> None:
        """Count the words that one word became."""
        self._budget.spend((len(read) - 1) * WORD + sum(map(has_glob, read)) * PATTERN)
        self._budget.spend_on_value(max(sum(map(len, read)) - len(word.text), 0))
        if not complete:
            self._budget.exceed()

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
            return name not in self.values and name[: -3 if name.endswith(ALL_ELEMENTS) else None] in SET_BY_SHELL
        texts = self.values.get(name, [UNKNOWN])
        given = self.sets_any or name in self.outputs or any(UNKNOWN in text for text in texts)
        return given and name not in self._plain_values

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
