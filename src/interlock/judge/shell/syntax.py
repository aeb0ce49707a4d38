"""Shell text into values: commands made of words, and the operators that join them.

The grammar is tree-sitter-bash. A command that it cannot parse is an error in the value, never a guess. The tree never
leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interlock.judge.shell import quoting, values
from interlock.judge.shell.grammar import COMPOUND, EXPANSIONS, LOCK, TOKENS, dash_before, first_error, syntax_tree
from interlock.judge.shell.reach import Scope, scope_within
from interlock.judge.shell.script import Command, Operator, Redirect, Script, Setting, Value, Word, count_in_characters

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 40
MAX_NODES = 20_000


def parse(text: str) -> Script:
    """Parse one shell text. Never raises: an unreadable text has `error` set."""
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return Script([], [], [], (0, len(text)))
    with LOCK:
        root = syntax_tree(source)
        if root is None:
            return Script([], [], [], (0, len(text)))
        reader = _Reader(source, None if len(source) == len(text) else text)
        try:
            reader.statement(root, 0)
        except _TooDeepError:
            reader.error = (0, len(source))
        if reader.error is None and root.has_error:
            reader.error = first_error(root)
    return reader.script()


class _TooDeepError(Exception):
    pass


_VARIABLE = re.compile(r"\$\{?(\w+(?:\[[^\]]*\])?|[@*#?!$-])\}?")
_KEEP_ASSIGNMENTS = frozenset({":", ".", "eval", "exec", "export", "readonly", "set", "shift", "trap", "unset"})
"""Commands with which a POSIX shell keeps the assignments in front of them."""
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_PLAIN = frozenset({"word", "number", "regex", "extglob_pattern", "variable_name", "test_operator", "file_descriptor"})


class _Reader:
    """Walks one tree into one script. Offsets are bytes while walking and characters in the result."""

    def __init__(self, source: bytes, text: str | None) -> None:
        self.source = source
        self.text = text
        self.commands: list[Command] = []
        self.operators: list[Operator] = []
        self.redirects: list[Redirect] = []
        self.assignments: list[tuple[str, Word]] = []
        self.tests: list[list[Word]] = []
        self.values: list[Value] = []
        self.integers: list[str] = []
        self.exports: list[str] = []
        self.parameters = values.PositionalParameters()
        self.error: tuple[int, int] | None = None
        self.nodes = 0
        self.settings: list[Setting] = []
        self.moves: list[Setting] = []
        self.scope = Scope(len(source), len(source), len(source))

    def script(self) -> Script:
        given = [*values.read_from_input(self.commands), *self.values]
        noted = (self.assignments, given, self.tests, self.integers, self.settings, self.moves, self.exports)
        script = Script(self.commands, self.operators, self.redirects, self.error, *noted)
        if self.text is not None:
            count_in_characters(script, self.source)
        return script

    def statement(self, node: Node, depth: int) -> None:
        self._enter(depth)
        kind = node.type
        if kind == "command":
            self.command(node, depth)
            return
        compound = COMPOUND.get(kind)
        if compound is not None:
            self._note(compound, node)
        if kind == "variable_assignment":
            self._assign(node, depth)
            return
        if kind == "test_command":
            self.tests.append(list(self._test_words(node, depth)))
            return
        if kind == "declaration_command" and all(child.type != "variable_assignment" for child in node.children):
            self._declare(node, depth)
            self.command(node, depth)  # `export -p` sets nothing that the grammar sees
            name = self.commands[-1].words[0]
            name.dynamic, name.template = False, ""
            return
        if kind == "declaration_command":
            self._declare(node, depth)
        if kind == "unset_command":
            named = [self.word(child, depth + 1) for child in node.named_children]
            self.values.extend(values.unset([word for word in named if word.text[:1] != "-"]))
        looped = self._loop_values(node, depth) if kind == "for_statement" else ()
        ended = -1
        children, scope = node.children, self.scope
        for at, child in enumerate(children):
            part = child.type
            if child.id in looped:
                continue
            operator = TOKENS.get(part)
            # The grammar does not show the newline between two statements, only the gap.
            if kind == "program" and child.is_named and part != "comment":
                if ended >= 0 and b"\n" in self.source[ended : child.start_byte]:
                    self.operators.append(Operator("multiline", ended, child.start_byte))
                ended = child.end_byte
            if operator is not None:
                self._note(operator, child)
            elif part in _REDIRECTS:
                self.redirect(child, depth)
            elif part in EXPANSIONS or part in ("string", "concatenation"):
                self.word(child, depth + 1)
            elif child.child_count:
                self.scope = scope_within(node, children, at, scope)
                self.statement(child, depth + 1)
                self.scope = scope

    def command(self, node: Node, depth: int) -> None:
        command = Command([], [], node.start_byte, node.end_byte)
        self.commands.append(command)
        for child in node.children:
            kind = child.type
            if kind == "command_name":
                inner = child.children
                command.words.append(self.word(inner[0] if inner else child, depth + 1))
            elif kind == "variable_assignment":
                command.assignments.append(self._assignment(child, depth))
            elif kind in _REDIRECTS:
                self.redirect(child, depth)
            elif kind == "subshell":
                self.statement(child, depth + 1)
            elif kind != "comment":
                # The grammar cuts `.{$x,a}` behind the dollar: what is inserted there would be lost.
                if self.source[child.start_byte - 1 : child.start_byte] == b"$":
                    self.error = self.error or (child.start_byte, child.end_byte)
                command.words.append(self.word(child, depth + 1))
        if command.words:
            words = values.shell_words(command.words)
            if words[0].text in ("cd", "pushd"):
                self.moves.append(Setting("", node.start_byte, self.scope.chain, self.scope.process))
            if words[0].text in _KEEP_ASSIGNMENTS:
                self.values.extend(Value(name, [word], complete=False) for name, word in command.assignments)
            self.values.extend(self.parameters.follow(words))
            self.values.extend(values.formatted(words))
            self.values.extend(values.set_by_words(words) if node.type == "command" else ())

    def _test_words(self, node: Node, depth: int) -> Iterator[Word]:
        """The words of a test. The grammar nests some of them wrongly, so their order alone is used."""
        self._enter(depth)
        for child in node.children:
            if child.type.endswith("_expression"):
                yield from self._test_words(child, depth + 1)
            elif child.is_named:
                yield self.word(child, depth + 1)
            else:
                yield self._bare(child)

    def _loop_values(self, node: Node, depth: int) -> set[int]:
        """Notes the words that a loop goes through as values of its variable, and returns their nodes."""
        name = node.child_by_field_name("variable")
        label = self._source_of(name) if name is not None else ""
        looped = node.children_by_field_name("value")
        words = [(label, self.word(value, depth + 1)) for value in looped]
        self.assignments.extend(words)
        self.values.extend(Value(name, [word], "turn") for name, word in words)
        self._set(label, node.start_byte, node.end_byte)
        if not looped or any(child.type == "select" for child in node.children):
            self.values.append(Value(label, [], "printed", complete=False))
        return {value.id for value in looped}

    def _declare(self, node: Node, depth: int) -> None:
        """Variables that `declare` and its like set by words, and options that change what a variable holds."""
        source = [self._source_of(child) for child in node.children]
        letters = "".join([text for text in source[1:] if text[:1] == "-"])
        flags = "".join([letter for letter in letters if letter in "nluic"])
        for child in node.named_children:
            if child.type == "variable_assignment":
                value = child.child_by_field_name("value")
                plain = value is not None and value.type != "array" and not {"a", "A"}.isdisjoint(letters)
                name = self._source_of(child).partition("=")[0].removesuffix("+")
                self.integers += [name] if "i" in flags else []
                self.exports += [name] if source[0] == "export" or "x" in letters else []
                self.values.extend(values.declared(name, flags or "a" * plain, None))
            elif self._source_of(child)[:1] != "-":
                self.values.extend(values.declared("", flags, self.word(child, depth + 1)))

    def _assign(self, node: Node, depth: int) -> None:
        """A variable that the text sets, or a list."""
        value = node.child_by_field_name("value")
        adds = any(child.type == "+=" for child in node.children)
        if value is None or value.type != "array":
            name, word = self._assignment(node, depth)
            self.assignments.append((name, word))
            self._set(name, node.end_byte, self.scope.sure)
            self.values.extend(values.assigned(values.name_in_template(name), word, adds=adds))
            return
        label = self._source_of(node).partition("=")[0].removesuffix("+")
        self._set(label, node.end_byte, self.scope.sure)
        elements = [self.word(child, depth + 1) for child in value.named_children if child.type != "comment"]
        self.assignments.extend((label, element) for element in elements)
        self.values.extend(values.listed(label, elements, adds=adds))

    def _set(self, name: str, start: int, end: int) -> None:
        name = name.partition("[")[0] if name[-1:] == "]" else name
        self.settings.append(Setting(name, start, end, self.scope.process))

    def _assignment(self, node: Node, depth: int) -> tuple[str, Word]:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is not None and name.child_count:
            self.statement(name, depth + 1)
        label = self._source_of(name) if name is not None else ""
        if value is None:
            return label, Word("", node.end_byte, node.end_byte)
        return label, self.word(value, depth + 1)

    def redirect(self, node: Node, depth: int) -> None:
        self._enter(depth)
        operator = body = ""
        words: list[Word] = []
        for child in node.children:
            kind = child.type
            if kind == "heredoc_body":
                body = self._source_of(child)
            if not child.is_named:
                operator = operator or kind
            elif kind in _REDIRECTS:
                self.redirect(child, depth + 1)
            elif kind in ("pipeline", "list", "command", "heredoc_body"):
                self.statement(child, depth + 1)
            elif kind not in ("file_descriptor", "heredoc_start", "heredoc_end"):
                words.append(self.word(child, depth + 1))
        if node.type == "heredoc_redirect":
            dash = dash_before(node, self.source)
            words = [Word("-", dash, dash + 1), *words] if dash is not None else words
            self.redirects.append(Redirect("<<", None, node.start_byte, node.end_byte, body))
        else:
            target = words.pop(0) if words else None
            self.redirects.append(Redirect(operator, target, node.start_byte, node.end_byte))
        if words:
            self._continue_command(words, node)

    def _continue_command(self, words: list[Word], redirect: Node) -> None:
        """`git < file push`: the grammar gives all the words to the redirection, the shell but one."""
        before = [command for command in self.commands if command.end <= redirect.start_byte]
        if before:
            command = max(before, key=lambda each: each.end)
            command.words.extend(words)
        else:
            self.commands.append(Command(words, [], words[0].start, words[-1].end))

    def word(self, node: Node, depth: int) -> Word:
        self._enter(depth)
        kind = node.type
        if kind in _PLAIN:
            return self._bare(node)
        if kind == "raw_string":
            return Word(self._source_of(node)[1:-1], node.start_byte, node.end_byte)
        if kind == "string" or kind == "translated_string":
            return self._double_quoted(node, depth)
        if kind == "ansi_c_string":
            value = quoting.ansi_c(self._source_of(node)[2:-1])
            return Word(value, node.start_byte, node.end_byte, disguised=True)
        if kind == "concatenation":
            return self._joined(node, depth)
        if kind == "brace_expression":
            source = self._source_of(node)
            return Word(source, node.start_byte, node.end_byte, shape=source)
        expansion = EXPANSIONS.get(kind)
        if expansion is not None:
            self._note(expansion, node)
        template = f"${{{self._inserted(node, depth)}}}"
        return Word(self._source_of(node), node.start_byte, node.end_byte, dynamic=True, template=template)

    def _inserted(self, node: Node, depth: int) -> str:
        """The name of what an expansion inserts, with the values that the text gives to it; empty if it has none."""
        operators = values.DEFAULTS | values.ALTERNATIVES
        at = next((at for at, child in enumerate(node.children) if child.type in operators), None)
        if node.type == "expansion" and at is not None and at > 1:
            subject, operator, *rest = node.children[at - 1 :]
            if subject.child_count:
                self.statement(subject, depth + 1)
            name = values.name_in_template(self._source_of(subject))
            name += ":+" if operator.type in values.ALTERNATIVES else ""
            words = [self.word(child, depth + 1) for child in rest if child.is_named]
            self.values.append(Value(name, words, "printed", complete=False))
            return name
        before = len(self.commands)
        if node.child_count:
            self.statement(node, depth + 1)
        source = self._source_of(node)
        if (change := values.changing(source, node.start_byte, node.end_byte)) is not None:
            self.values.append(change)
            return change.name
        if node.type == "command_substitution":
            name = f"${node.start_byte}"
            self.values.append(values.printed(name, self.commands[before:]))
            return name
        named = _VARIABLE.fullmatch(source)
        return values.name_in_template(named[1]) if named else ""

    def _bare(self, node: Node) -> Word:
        raw = self._source_of(node)
        shape = raw if quoting.has_glob(raw) else ""
        if "\\" in raw:
            text, needless = quoting.unescape(raw)
            return Word(text, node.start_byte, node.end_byte, shape=shape, disguised=needless)
        return Word(raw, node.start_byte, node.end_byte, shape=shape)

    def _double_quoted(self, node: Node, depth: int) -> Word:
        inner = [self.word(child, depth + 1) for child in node.named_children if child.type != "string_content"]
        raw = self._source_of(node)
        if not inner:
            return Word(quoting.in_double_quotes(raw[raw.find('"') + 1 : -1]), node.start_byte, node.end_byte)
        # The text between the expansions is cut out of the source: the grammar leaves some blanks out of its nodes.
        parts, at = [], node.start_byte + raw.find('"') + 1
        for word in inner:
            parts += [quoting.in_double_quotes(self._between(at, word.start)), word.template]
            at = word.end
        parts.append(quoting.in_double_quotes(self._between(at, node.end_byte - 1)))
        return Word(raw, node.start_byte, node.end_byte, dynamic=True, template="".join(parts), quoted=True)

    def _joined(self, node: Node, depth: int) -> Word:
        parts = [self.word(child, depth + 1) for child in node.children]
        raw = self._source_of(node)
        shape = self._shape_of(node, parts) if quoting.has_glob(raw) or quoting.may_have_braces(raw) else ""
        if any(part.dynamic for part in parts):
            template = "".join([part.template or part.text for part in parts])
            marked = "".join(map(_marked, parts))
            return Word(
                raw, node.start_byte, node.end_byte, dynamic=True, template=template, marked=marked, shape=shape
            )
        text = "".join([part.text for part in parts])
        return Word(
            text,
            node.start_byte,
            node.end_byte,
            shape=shape,
            disguised=any(part.disguised for part in parts),
            spliced=quoting.splices_letters(raw),
        )

    def _shape_of(self, node: Node, parts: list[Word]) -> str:
        bare = [child.type in _PLAIN or child.type == "brace_expression" for child in node.children]
        shape = "".join(
            [
                self._source_of(child) if plain else quoting.escaped(_marked(part))
                for child, part, plain in zip(node.children, parts, bare, strict=True)
            ]
        )
        return shape if quoting.has_glob(shape) or quoting.may_have_braces(shape) else ""

    def _source_of(self, node: Node) -> str:
        return self._between(node.start_byte, node.end_byte)

    def _between(self, start: int, end: int) -> str:
        return self.source[start:end].decode("utf-8", "replace")

    def _note(self, kind: str, node: Node) -> None:
        self.operators.append(Operator(kind, node.start_byte, node.end_byte))

    def _enter(self, depth: int) -> None:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise _TooDeepError


def _marked(part: Word) -> str:
    return quoting.marked(part.template) if part.quoted else part.template or part.text
