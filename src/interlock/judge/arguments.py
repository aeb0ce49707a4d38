"""Where in a tool's arguments commands, addresses, paths, code and SQL stand: by name, by schema, or as configured.

Names are read at every depth of the arguments that came, not only where the schema has them: most schemas are open.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from interlock.judge.tables import name_set

ArgumentKind = Literal["command", "url", "host", "path", "code", "sql", "text"]
"""The kind of a value. `text` is any other text, read only where a validator found no kind that it knows."""

ValidatorName = Literal["sandbox", "readonly", "network_restricted", "code_safety", "paths"]

KINDS: Final[dict[str, tuple[ArgumentKind, ...]]] = {
    "sandbox": ("command",),
    "readonly": ("command", "sql", "code"),
    "network_restricted": ("url", "host", "command", "code", "text"),
    "code_safety": ("code",),
    "paths": ("path",),
    "metadata": ("url", "host", "command", "code"),
}
"""The kinds that each validator reads. `paths` and `metadata` are the hub's own. `metadata` reads the values that no
other validator reads, and nobody chooses it. The rest are standard (MGP, Standard Validators)."""

MAX_VALUES: Final = 20_000
MAX_PROPERTIES: Final = 500
MAX_DEPTH: Final = 64
MAX_NAME_CHARS: Final = 64
MAX_TOOL_CHARS: Final = 256
"""Upper bounds for the characters that are read of an argument's name, and of the name of a tool or server."""

Context = frozenset[str]
"""The subject of a tool by its names: `shell`, `sql`, `code`."""


class TooMany(ValueError):
    """The arguments hold more values than the hub reads, so it cannot judge them."""


Kinds = tuple[ArgumentKind, ...]
"""The kinds as which a value is judged. Most have one."""


class FoundArgument(NamedTuple):
    """One value to be judged."""

    kind: ArgumentKind
    where: str
    """`steps[2].cmd`."""
    value: str | list[str]
    """A list only for a command that is given word by word."""
    beside: Mapping[str, object]
    """The object it stands in."""


class ArgumentPlaces:
    """Finds values of some kinds in the arguments of one tool."""

    def __init__(
        self,
        kinds: Collection[ArgumentKind],
        context: Context = frozenset(),
        *,
        named: Mapping[ArgumentKind, Sequence[str]] | None = None,
        by_schema: Mapping[str, ArgumentKind] | None = None,
        otherwise: ArgumentKind | None = None,
    ) -> None:
        self._kinds = frozenset(kinds)
        self._context = context
        named = named or {}
        # Some servers read names in any case, so paths are compared without it.
        self._named = _by_folded((path, kind) for kind, paths in named.items() for path in paths)
        self._settled = frozenset(named)
        """Kinds whose arguments the settings name. Schemas and names of arguments do not add to them."""
        self._by_schema = _by_folded(
            (path, kind) for path, kind in (by_schema or {}).items() if kind not in self._settled
        )
        self._otherwise: Kinds = () if otherwise is None else (otherwise,)

    def find(self, arguments: object) -> list[FoundArgument]:
        """Every value to be judged, in the order it stands. Raises TooMany."""
        if not isinstance(arguments, dict):
            return []
        found: list[FoundArgument] = []
        stack: list[tuple[object, str, str, Kinds, Mapping[str, object]]] = []
        self._open(arguments, "", "", stack)
        seen = 0
        while stack:
            seen += 1
            if seen > MAX_VALUES:
                raise TooMany(f"more than {MAX_VALUES} values")
            value, where, path, kinds, beside = stack.pop()
            if isinstance(value, str):
                wanted = kinds or self._otherwise
                found.extend(FoundArgument(kind, where, _with_words(kind, value, beside), beside) for kind in wanted)
            elif isinstance(value, list):
                if "command" in kinds and not _PLURAL.search(where) and _all_text(value):
                    found.append(FoundArgument("command", where, value, beside))
                    kinds = tuple(kind for kind in kinds if kind != "command")
                    if not kinds:
                        continue
                listed = f"{path}.*"
                kinds = self._named.get(listed.casefold(), kinds)
                at = range(len(value) - 1, -1, -1)
                stack.extend((value[n], f"{where}[{n}]", listed, kinds, beside) for n in at)
            elif isinstance(value, dict):
                self._open(value, where, path, stack)
        return found

    def _open(
        self,
        value: dict[str, object],
        where: str,
        path: str,
        stack: list[tuple[object, str, str, Kinds, Mapping[str, object]]],
    ) -> None:
        for key in reversed(value):
            inner = value[key]
            if isinstance(inner, str | list | dict):
                place = f"{path}.{key}" if path else key
                shown = f"{where}.{key}" if where else key
                stack.append((inner, shown[:200], place, self._kinds_of(key, place), value))

    def _kinds_of(self, key: str, path: str) -> Kinds:
        folded = path.casefold()
        if (named := self._named.get(folded)) is not None:
            return named
        if (kinds := self._by_schema.get(folded)) is None:
            kind = kind_of_name(key[:MAX_NAME_CHARS], self._context)
            kinds = () if kind is None or kind in self._settled else (kind,)
        return tuple(kind for kind in kinds if kind in self._kinds)


def _by_folded(found: Iterable[tuple[str, ArgumentKind]]) -> dict[str, Kinds]:
    """The kinds of paths, without case. Where two paths differ only in case, a value has the kinds of both."""
    kinds: dict[str, dict[ArgumentKind, None]] = {}
    for path, kind in found:
        kinds.setdefault(path.casefold(), {})[kind] = None
    return {path: tuple(each) for path, each in kinds.items()}


def context_of(names: Sequence[str]) -> Context:
    """The subject of a tool, from its server's name and its own."""
    words = {word for name in names for word in words_of(name[:MAX_TOOL_CHARS])}
    return frozenset(topic for topic, telling in _TOPICS.items() if not words.isdisjoint(telling))


@lru_cache(maxsize=4096)
def kind_of_name(name: str, context: Context = frozenset()) -> ArgumentKind | None:
    """The most likely kind of an argument with that name or prefix."""
    words = words_of(name)
    if not words:
        return None
    whole = "_".join(words)
    if whole in ("query", "statement", "statements", "queries", "q"):
        return "sql" if "sql" in context else None
    if whole in ("script", "scripts", "input", "line"):
        if "shell" in context:
            return "command"
        return "code" if whole.startswith("script") else None
    for kind, whole_names in _WHOLE.items():
        if whole in whole_names:
            return kind
    for kind, last_words in _LAST.items():
        if words[-1] in last_words:
            return kind
    return None


def kinds_in_schema(schema: object, context: Context = frozenset()) -> dict[str, ArgumentKind]:
    """The properties of a schema that are of a kind, by path (`steps.*.cmd`), at any depth within bounds."""
    return {path: kind for path, kind, _ in _properties(schema, context) if kind is not None}


def has_property(schema: object, names: Collection[str]) -> bool:
    """Whether a schema has a property of one of these names, at any depth within bounds."""
    return any(path.rpartition(".")[2] in names for path, _, _ in _properties(schema, frozenset()))


def free_texts(schema: object) -> int:
    """How many properties of a schema take any text at all, or objects and lists of anything."""
    return sum(free for _, _, free in _properties(schema, frozenset()))


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """`shellCommand`, `shell-command` and `shell_command` as words."""
    return tuple(word.lower() for word in _WORDS.findall(name))


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_PLURAL = re.compile(r"(?i)(?:commands|cmds)$")

_TOPICS: dict[str, frozenset[str]] = {
    "shell": name_set("shell bash sh zsh terminal command cmd exec powershell console ssh subprocess"),
    "sql": name_set(
        "sql db database postgres postgresql mysql mariadb sqlite duckdb mssql oracle bigquery snowflake redshift "
        "clickhouse supabase"
    ),
    "code": name_set(
        "code python py javascript js node typescript ruby eval evaluate execute exec run interpreter notebook jupyter "
        "script snippet program sandbox repl"
    ),
}
_WHOLE: dict[ArgumentKind, frozenset[str]] = {
    "command": name_set("shell bash sh exec execute executable program powershell argv commandline"),
    "url": name_set("link links website feed webhook"),
    "host": name_set("host hostname hosts ip ips ip_address domain fqdn"),
    "path": name_set("files folders paths cwd workdir working_dir source_file"),
    "code": name_set(
        "code source_code source snippet code_snippet python python_code py_code javascript javascript_code js js_code "
        "typescript program_code program_source user_code code_string code_block"
    ),
    "sql": name_set("sql_query sql_statement sql_text sql_queries"),
}
_LAST: dict[ArgumentKind, frozenset[str]] = {
    "command": name_set("command commands cmd cmds cmdline argv"),
    "url": name_set("url urls uri uris href endpoint webhook"),
    "host": name_set("host hostname"),
    "path": name_set("path paths file filename filepath dir directory folder"),
    "sql": name_set("sql"),
}
_FORMATS: dict[str, ArgumentKind] = {
    "uri": "url",
    "url": "url",
    "uri-reference": "url",
    "iri": "url",
    "hostname": "host",
    "ipv4": "host",
    "ipv6": "host",
}
_SAYS_SQL = re.compile(r"(?i)\bsql\b")
_READ_OF_DESCRIPTION = 200
_SAYS: dict[ArgumentKind, re.Pattern[str]] = {
    "command": re.compile(
        r"(?i)\b(?:shell|bash|terminal|console|command[- ]line|system) commands?\b|\bcommands? (?:line )?to (?:be )?"
        r"(?:run|execute|launch|invoke)"
    ),
    "url": re.compile(
        r"(?i)^\W*(?:(?:the|an?|full|absolute|complete|target|public|https?|web(?:site|page)?|page|image|remote|source|"
        r"base|seed|start(?:ing)?) )*(?:ur[li]s?|web address(?:es)?|hyperlink)\b"
        r"|\b(?:address|link) (?:of|to) the (?:web|page|site|image|document|feed)"
        r"|\bur[li]s? (?:to|of|for) (?:fetch|open|visit|crawl|scrape|download|load|request|call|read|the|a)\b"
    ),
    "code": re.compile(
        r"(?i)\b(?:python|javascript|js|typescript|ruby|source) (?:code|script|snippet|program|source)\b[^.]{0,40}"
        r"\b(?:run|execute|evaluate|interpret)"
    ),
}
"""The kind of an argument by its description, where its name does not tell."""
_BRANCHES = ("anyOf", "oneOf", "allOf", "prefixItems")


def _properties(schema: object, context: Context) -> Iterator[tuple[str, ArgumentKind | None, bool]]:
    """Each property with its path, its kind, and whether it takes any text."""
    definitions = schema.get("$defs") or schema.get("definitions") if isinstance(schema, dict) else None
    stack: list[tuple[object, str, str, int]] = [(schema, "", "", 0)]
    seen = 0
    while stack and seen < MAX_PROPERTIES:
        node, path, name, depth = stack.pop()
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            continue
        seen += 1
        target = node.get("$ref")
        if isinstance(target, str) and isinstance(definitions, dict):
            stack.append((definitions.get(target.rpartition("/")[2]), path, name, depth + 8))
        if name and not path.endswith("*"):
            yield path, _kind_of_property(name, node, context), _takes_text(node) or _takes_anything(node)
        for branch in _BRANCHES:
            options = node.get(branch)
            if isinstance(options, list):
                stack.extend((option, path, name, depth + 1) for option in options)
        if isinstance(node.get("items"), dict):
            stack.append((node["items"], f"{path}.*", name, depth + 1))
        properties = node.get("properties")
        for key, inner in properties.items() if isinstance(properties, dict) else ():
            stack.append((inner, f"{path}.{key}" if path else str(key), str(key), depth + 1))


def _kind_of_property(name: str, node: Mapping[str, object], context: Context) -> ArgumentKind | None:
    description = node.get("description")
    description = description[:_READ_OF_DESCRIPTION] if isinstance(description, str) else ""
    if words_of(name[:MAX_TOOL_CHARS])[-1:] in (("query",), ("statement",)) and _SAYS_SQL.search(description):
        return "sql"
    kind = kind_of_name(name[:MAX_NAME_CHARS], context) or _FORMATS.get(str(node.get("format")))
    if kind is None and _takes_text(node):
        kind = next((kind for kind, says in _SAYS.items() if says.search(description)), None)
    return kind


def _takes_text(node: Mapping[str, object]) -> bool:
    kind = node.get("type")
    text = kind == "string" or (isinstance(kind, list) and "string" in kind) or kind is None
    return text and "enum" not in node and "const" not in node and "$ref" not in node


def _takes_anything(node: Mapping[str, object]) -> bool:
    """Whether a schema lets through objects or lists without saying what is in them."""
    kind = node.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if "object" in kinds:
        return not (node.get("properties") or node.get("additionalProperties") is False)
    return "array" in kinds and not (node.get("items") or node.get("prefixItems"))


def _with_words(kind: ArgumentKind, value: str, beside: Mapping[str, object]) -> str | list[str]:
    """A program's name beside its arguments is one command, however the two are written."""
    if kind != "command" or not value.strip():
        return value
    for key in ("args", "arguments", "argv", "parameters", "params"):
        words = beside.get(key)
        if isinstance(words, dict):
            words = list(words.values())
        if isinstance(words, str) and words and words is not value:
            return f"{value} {words}"
        if isinstance(words, list) and words:
            plain = [str(word) for word in words if isinstance(word, str | int | float)]
            return f"{value} {shlex.join(plain)}" if " " in value.strip() else [value, *plain]
    return value


def _all_text(values: list[object]) -> bool:
    return bool(values) and all(isinstance(value, str) for value in values)
