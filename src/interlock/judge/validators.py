"""The validators by name (MGP, Standard Validators): which judge each sets on which kind of value.

`judge_value` looks at the value alone. The caller resolves the names of `names_in`, has the addresses judged by
`judge_resolved`, and follows links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from interlock.judge.addresses import METADATA, judge_address, kind_of, read_address
from interlock.judge.arguments import FoundArgument
from interlock.judge.code.rules import CodeRules, Level
from interlock.judge.findings import Finding
from interlock.judge.regexes import find_in_pieces
from interlock.judge.urls import UrlRules, judge_url, judge_urls_in_text, names_to_resolve, urls_in_text

if TYPE_CHECKING:
    from interlock.judge.readonly import ReadonlyRules
    from interlock.judge.shell.rules import ShellRules

ALWAYS: Final = f"address.{METADATA}"
"""The rule that nothing switches off."""

LANGUAGE: Final = ("language", "lang", "runtime", "interpreter")
"""Arguments that say which language a piece of code beside them is in."""

ENVIRONMENT: Final = ("env", "environment", "env_vars", "environ", "environment_variables")
"""Arguments that set variables for a command beside them."""

MAX_NAMES: Final = 8
"""Different names resolved for one call; a value with more is refused."""


class Rules(msgspec.Struct, frozen=True):
    """The settings of the judges of one tool, by an operator or a declaration. A judge is loaded on first use."""

    programs: tuple[str, ...] = ()
    blocked_programs: tuple[str, ...] = ()
    windows_shells: bool = False
    readers: tuple[str, ...] = ()
    urls: UrlRules = UrlRules()
    code: CodeRules = CodeRules()
    roots: tuple[str, ...] = ()
    dialect: str | None = None
    tells_language: bool = False
    """Whether the language that a call names for its code counts."""
    ignored: tuple[str, ...] = ()
    inferred: bool = False
    """Whether the hub chose the validator by itself. Then everyday commands pass, also several joined ones."""


def judge_value(validator: str, found: FoundArgument, rules: Rules) -> tuple[Finding, ...]:
    """Everything that the validator has against the value, without what the operator ignores."""
    findings = _judge(validator, found, rules)
    if rules.ignored and findings:
        findings = tuple(finding for finding in findings if finding.rule not in rules.ignored or is_metadata(finding))
    return findings


def judge_metadata(found: FoundArgument) -> tuple[Finding, ...]:
    """Only whether a cloud metadata service is meant, which every rule refuses."""
    if found.kind in ("path", "sql"):
        return ()
    judged = _judge_network(found, UrlRules()) if _may_name_address(found) else ()
    return tuple(finding for finding in judged if is_metadata(finding))


def is_metadata(finding: Finding) -> bool:
    """Whether a finding is about a cloud metadata service."""
    return finding.rule == ALWAYS


def names_in(found: FoundArgument) -> tuple[str, ...]:
    """The names that a value would have resolved, without repetition."""
    match found.kind, found.value:
        case "url", str(url):
            return names_to_resolve(url)
        case "host", str(host):
            return names_to_resolve(_as_url(host))
        case "command" | "code" | "text", value:
            text = value if isinstance(value, str) else " ".join(value)
            urls = (text[start:end] for start, end in urls_in_text(text))
            return tuple(dict.fromkeys(name for url in urls for name in names_to_resolve(url)))
    return ()


def is_heavy(validator: str, found: FoundArgument) -> bool:
    """Whether judging takes long enough (a good part of a millisecond) to be done elsewhere than on the loop."""
    size = len(found.value) if isinstance(found.value, str) else sum(map(len, found.value))
    expands = isinstance(found.value, str) and ("$" in found.value or "{" in found.value)
    return size > (_LIGHT_EXPANDING if expands and validator in _COMMANDS else _LIGHT[validator])


def code_rules(found: FoundArgument, rules: Rules, code: CodeRules | None = None) -> CodeRules:
    """The rules for this very code, in the language that the call says it is in."""
    code = code or rules.code
    for key in LANGUAGE if rules.tells_language else ():
        language = found.beside.get(key)
        if isinstance(language, str) and language and len(language) <= 32:
            return msgspec.structs.replace(code, language=language)
    return code


def stricter(level: Level, other: Level) -> Level:
    """The stricter of two levels."""
    return max(level, other, key=_LEVELS.index)


_LEVELS: tuple[Level, ...] = ("unrestricted", "standard", "strict", "readonly")
_LIGHT = {
    "sandbox": 200,
    "readonly": 80,
    "network_restricted": 400,
    "code_safety": 300,
    "paths": -1,
    "metadata": 400,
}
_COMMANDS = frozenset(("sandbox", "readonly"))
_LIGHT_EXPANDING = 60
"""Characters of a command with variables or braces: it is judged once for each of their values."""
_SHELLS = frozenset(("bash", "sh", "shell", "zsh", "dash", "ksh"))


def _judge(validator: str, found: FoundArgument, rules: Rules) -> tuple[Finding, ...]:
    match validator, found.kind:
        case "sandbox", "command":
            from interlock.judge.shell import judge_shell

            return (*judge_shell(found.value, _shell_rules(rules)), *_environment(found))
        case "readonly", "command":
            from interlock.judge.readonly import judge_readonly_shell

            return (*judge_readonly_shell(found.value, _readonly_rules(rules)), *_environment(found))
        case "readonly", "text" if not _may_be_statement(_text(found)):
            return ()
        case "readonly", "sql" | "text":
            from interlock.judge.sql import judge_readonly_sql

            return judge_readonly_sql(_text(found), rules.dialect)
        case "readonly", "code":
            return _judge_code(found, rules, msgspec.structs.replace(rules.code, level="readonly"))
        case "network_restricted", _:
            return _judge_network(found, rules.urls)
        case "metadata", _:
            return judge_metadata(found)
        case "code_safety", "code":
            return _judge_code(found, rules, rules.code)
        case "paths", "path":
            from interlock.judge.paths import judge_path

            return judge_path(_text(found), rules.roots)
    return ()


def _environment(found: FoundArgument) -> tuple[Finding, ...]:
    """Variables that are set for a command in an argument beside it."""
    from interlock.judge.shell.patterns import compiled

    for key in ENVIRONMENT if found.beside else ():
        given = found.beside.get(key)
        named = given.keys() if isinstance(given, dict) else given if isinstance(given, list) else ()
        for each in named:
            name = str(each.get("name", "") if isinstance(each, dict) else each).partition("=")[0]
            if compiled("<RISKY_VARIABLES>").match(name[:80]):
                message = f"setting {name[:40]!r} beside the command can change what runs"
                return (Finding("shell.environment", message, "leave it out, or let the operator set it"),)
    return ()


def _may_be_statement(text: str) -> bool:
    """Whether a text begins like a statement. A remark or a list of columns without an end counts as its beginning."""
    begins, whole = _beginning(text)
    if not whole and _GOES_ON.match(begins) is not None:
        return True
    return any(_STATEMENT.match(form) is not None for form in (begins, _REMARK.sub(" ", begins)))


def _beginning(text: str) -> tuple[str, bool]:
    """The first words of a text, with one blank or line end between them, and whether that is the whole text."""
    found: list[str] = []
    size = end = 0
    for word in find_in_pieces(_WORD, text, _MAX_WORD_CHARS):
        if word.start() > end:
            found.append("\n" if text.find("\n", end, word.start()) >= 0 else " ")
        found.append(word[0])
        end, size = word.end(), size + len(word[0]) + 1
        if size > _BEGINNING:
            return "".join(found), False
    return "".join(found), True


_BEGINNING = 8_192
_MAX_WORD_CHARS = 200
_WORD = re.compile(r"\S{1,200}")
_GOES_ON = re.compile(r"(?is)[\s;(\ufeff]*+(?:--|/\*|with\s+(?:recursive\s+)?\w+\s*\([^)]*\Z)")
"""How a beginning begins that may go on to a statement after it."""
_REMARK = re.compile(r"--[^\n]*+(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)")
_STATEMENT = re.compile(
    r"(?is)[\s;(\ufeff]*+(?:insert\s+(?:or\s+\w+\s+)?into\b|delete\s+from\b|update\s+\S+\s+set\b|"
    r"update\s+(?:only\s+)?\S+(?:\s+(?:as\s+)?\w+)?\s+set\s+[^\s=]+\s*=|"
    r"explain\s+(?:analyze|\().{0,200}\b(?:insert|update|delete|merge|replace)\b|"
    r"(?:drop|alter|create)\s+(?:or\s+replace\s+)?(?:\w+\s+)?(?:table|database|schema|view|index|user|role|function|"
    r"trigger|extension|procedure|sequence|type)\b|truncate\s+(?:table\s+)?\w+\s*;?\s*$|(?:merge|replace)\s+into\b|"
    r"(?:grant|revoke)\s.{1,200}\s(?:to|from)\s|copy\s.{1,200}\s(?:to|from)\s|select\b.{0,4000}(?:\bfrom\b|;|\()|"
    r"with\s+(?:recursive\s+)?\w+(?:\s*\([^)]*\))?\s+as\s*\(|exec(?:ute)?\s+\w+_\w+|call\s+[\w.]+\s*\(|attach\s+|pragma\s+\w|"
    r"vacuum\b|lock\s+tables?\b|load\s+data\b|do\s+\$\$|begin\s*;)"
)
"""How a statement begins, where nothing else says whether a text is one."""


def _judge_code(found: FoundArgument, rules: Rules, code: CodeRules) -> tuple[Finding, ...]:
    code = code_rules(found, rules, code)
    if code.language.lower() in _SHELLS:
        from interlock.judge.shell import judge_shell

        return judge_shell(_text(found), _shell_rules(rules))
    from interlock.judge.code import judge_code

    return judge_code(_text(found), code)


@lru_cache(maxsize=256)
def _shell_rules(rules: Rules) -> ShellRules:
    from interlock.judge.shell.rules import ShellRules

    return ShellRules(
        rules.programs, rules.blocked_programs, windows_shells=rules.windows_shells, everyday=rules.inferred
    )


@lru_cache(maxsize=256)
def _readonly_rules(rules: Rules) -> ReadonlyRules:
    from interlock.judge.readonly import ReadonlyRules

    return ReadonlyRules(rules.readers)


def _judge_network(found: FoundArgument, rules: UrlRules) -> tuple[Finding, ...]:
    match found.kind, found.value:
        case "url", str(url):
            return judge_url(url, rules) if "://" in url else _judge_bare_url(url, rules)
        case "host", str(host):
            return _whole(judge_url(_as_url(host), rules), host)
        case "command", _:
            text = _text(found)
            return (*judge_urls_in_text(text, rules), *_metadata_fetched(text))
        case "code" | "text", value:
            return judge_urls_in_text(value if isinstance(value, str) else " ".join(value), rules)
    return ()


def _judge_bare_url(url: str, rules: UrlRules) -> tuple[Finding, ...]:
    """Judge a value without a scheme as a URL, as many programs read it. A word that is no address has no findings."""
    found = judge_url(url, rules)
    if url.isascii() and not _ADDRESS_FIRST.match(url):
        return found
    address = [each for each in judge_url(_as_url(url), rules) if each.rule.startswith("address.")]
    plain = _FOUR_NUMBERS.match(url) is not None
    return (*found, *_whole((each for each in address if plain or is_metadata(each)), url))


def _whole(findings: Iterable[Finding], value: str) -> tuple[Finding, ...]:
    """Findings about a URL that was made from a value, each placed at the whole value."""
    return tuple(msgspec.structs.replace(each, span=(0, len(value))) for each in findings)


def _metadata_fetched(command: str) -> tuple[Finding, ...]:
    """Metadata services that a command asks without a scheme or a path, in any notation: `curl 0xa9fea9fe`."""
    if (fetching := next(find_in_pieces(_FETCHING, command, _MAX_PROGRAM_CHARS), None)) is None:
        return ()
    for match in _ADDRESS_WORD.finditer(command, fetching.end(), fetching.end() + _FETCHED_WITHIN):
        address = read_address(match[1])
        if address is not None and kind_of(address) == METADATA:
            return tuple(
                msgspec.structs.replace(each, span=match.span(1)) for each in judge_address(address, shown=match[1])
            )
    return ()


_ADDRESS_FIRST = re.compile(r"(?i)\s*(?:\[|\d|0x|metadata[./:]|instance-data\b)")
_FOUR_NUMBERS = re.compile(r"\s*\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")
_FETCHING = re.compile(
    r"(?<![\w.-])(?:curl|wget|https?|xhs?|nc|ncat|netcat|telnet|socat|lynx|w3m|links|elinks|aria2c|axel|fetch|iwr|irm|"
    r"Invoke-(?:WebRequest|RestMethod))(?:\.exe)?(?=\s)"
)
_MAX_PROGRAM_CHARS = 40
_FETCHED_WITHIN = 2000
_ADDRESS_WORD = re.compile(r"(?<![\w.:@%-])(\[[0-9a-fA-F:.%]+\]|0[xX][0-9a-fA-F.xX]+|\d[\d.xXa-fA-F]{6,})(?![\w.-])")


def _may_name_address(found: FoundArgument) -> bool:
    """Whether a text may name an address. Most commands and programs cannot."""
    if found.kind in ("url", "host"):
        return True
    text = _text(found)
    if "://" in text or "169.254" in text or "100.100" in text or "metadata" in text or ":/" in text:
        return True
    return found.kind == "command" and _FETCHING.search(text) is not None


def _as_url(host: str) -> str:
    """A host as the URL that would reach it; `host:port` and bare IPv6 addresses included."""
    if "://" in host:
        return host
    bare = host.strip()
    return f"http://[{bare}]/" if bare.count(":") > 1 and not bare.startswith("[") else f"http://{bare}/"


def _text(found: FoundArgument) -> str:
    return found.value if isinstance(found.value, str) else " ".join(found.value)
