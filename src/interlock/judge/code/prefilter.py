"""A quick look at the words of Python code: when no rule can be about any of them, the code need not be parsed.

It may say yes for nothing, never no for something: everything a rule can refuse needs one of these words in the text,
an escape that spells it, or a computed name, which again needs one of these words to be used. Words that are common in
harmless forms are passed over where every place they stand at is such a form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from interlock.judge.code import vocabulary as words
from interlock.judge.code.rules import CodeRules

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{1,3})|(N))")
_CONTINUED_WORD = re.compile(r"\\\r?\n\w")
_STAR_IMPORT = re.compile(r"import\s*\*")
_OPEN_IMPORT = re.compile(r"import\s*\(((?:[^)#]|#[^\n]*)*)")
_CONTINUED_IMPORT = re.compile(r"(?:import|from)\b[^\n]*\\\r?\n")
_IMPORTING = re.compile(r"(?:^|[;:])\s*(import|from)\b")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([\w., \t]+?)(?:[ \t]*#.*)?$)", re.MULTILINE
)
_CALLED = re.compile(rf"\b(?:{'|'.join(sorted(words.CALLED_BUILTINS))})\s*\(")
_RUNNERS = (b"execl", b"execv", b"spawn", b"posix_spawn", b"fork", b"popen", b"sched_set")
_POWER = re.compile(r"[\d)_]\s*\*\*\s*[(\d.+-]|<<\s*[(\d+-]")
_SMALL_POWER = re.compile(r"(\*\s*)?(?<![\w.)])\d{1,6}\s*(?:\*\*\s*\d{1,4}|<<\s*\d{1,5})(?![\w.(]|\s*(?:\*|<<))")
_LONG_NUMBER = re.compile(r"\d[\d_]{7}")
_PRODUCT = re.compile(r"[\w)\]}\"']\s*\*(?!\*)")
_IDLE_LOOP = re.compile(r"while[^:\n]{1,24}:\s*(?:#[^\n]*\s*)*(?:pass|continue)\b")
_RENAMED = re.compile(r"\s+as\b")
_QUERY = re.compile(r"@\s*\w+\s*[.(][^\n]*[\"']")
_ENDLESS_LOOP = re.compile(r"\bwhile\b[\s(\\]*(?:True\b|[\d.\"']|[bBfFrRuU]{1,2}[\"'])")
_SYSTEM_PLACES = ("etc", "proc", "sys", "root", "dev", "boot", "var", "home", "Users")
_SECRET_FOLDERS = (".ssh", ".aws", ".netrc", ".kube", ".gnupg", ".git-cred")
_MAKES_TEXT = ("::", "chr(", "bytes(", "chr (", "bytes (")
_QUOTES = ('"', "'")
_NESTED = 30
_SEPARATORS = bytes(code if code > 0x7F or chr(code).isalnum() or code == 0x5F else 0x20 for code in range(256))
_NAMED = r"\(\s*[\w.]+\s*,\s*[\"']\w+[\"']\s*[,)]"
_HARMLESS: dict[bytes, re.Pattern[str]] = {
    **dict.fromkeys((b"compile", b"eval", b"exec", b"globals", b"locals"), re.compile(r"(?<=\.)")),
    **{
        name: re.compile(rf"(?<!\w){name.decode()}{_NAMED}")
        for name in (b"getattr", b"hasattr", b"setattr", b"delattr")
    },
    b"open": re.compile(
        r"(?<=[\"'])open(?=[\"'])|(?<![\w.])open\(\s*([\"'])(?![/~]|\.\.|file:|[A-Za-z]:)"
        r"(?:(?!/\.\.|\.(?:ssh|aws|netrc|git))[\w./ -])*\1\s*"
        r"(?:,\s*(?:mode\s*=\s*)?[\"'](?:r|rb|rt|br|tr)[\"']\s*)?"
        r"(?:,\s*(?:newline|encoding|errors|buffering)\s*=\s*(?:[\"'][\w-]*[\"']|None|-?\d+)\s*)*\)"
    ),
}
"""Forms in which a word is harmless: as a method of something, or with a plain name or file given to it."""


def _in_bytes(names: Iterable[str]) -> frozenset[bytes]:
    return frozenset(name.encode() for name in names)


_ALWAYS = _in_bytes(
    words.BLOCKED_BUILTINS
    | words.BLOCKED_ATTRIBUTES
    | words.CALLED_ATTRIBUTES
    | words.WRITING_METHODS
    | words.names(
        "getattr hasattr setattr delattr attrgetter methodcaller vars open fdopen open_file "
        "import_module find_spec find_loader get_loader "
        "iter_modules find_module exec_module trust_remote_code allow_pickle safe_mode"
    )
)
_CALLED_BUILTINS = _in_bytes(words.CALLED_BUILTINS)
_LEAKED = _in_bytes(words.LEAKED_MODULES)
_MODULES = _in_bytes(module for module in words.BLOCKED_MODULES if "." not in module) | _LEAKED
_PARTS = tuple(
    (module.partition(".")[0].encode(), module.rpartition(".")[2].encode())
    for module in words.BLOCKED_MODULES
    if "." in module
)
"""Of a module inside another, its first and its last name: both must be there."""


def _endings(origins: Iterable[str]) -> dict[bytes, set[bytes]]:
    """By the first name of dotted ones, their last names."""
    found: dict[bytes, set[bytes]] = {}
    for origin in origins:
        found.setdefault(origin.partition(".")[0].encode(), set()).add(origin.rpartition(".")[2].encode())
    return found


_ENDINGS = _endings(
    origin
    for origin in words.BLOCKED_ORIGINS | words.OPENERS | {"yaml.load"}
    if not origin.endswith(".open")  # a word of its own
)
_LISTERS = _endings(words.LISTERS)
_READONLY = _in_bytes(
    words.READONLY_BUILTINS
    | words.READONLY_METHODS
    | words.READONLY_ATTRIBUTES
    | {origin.rpartition(".")[2] for origin in words.READONLY_ORIGINS}
)
_PLAIN_DUNDERS = _in_bytes(
    words.names(
        "__name__ __main__ __init__ __file__ __future__ __all__ __version__ __doc__ __str__ __repr__ __enter__ "
        "__exit__ __aenter__ __aexit__ __len__ __iter__ __next__ __aiter__ __anext__ __call__ __eq__ __ne__ __hash__ "
        "__post_init__ __author__ __slots__ __contains__ __bool__ __lt__ __le__ __gt__ __ge__ __add__ __radd__ "
        "__iadd__ __sub__ __mul__ __truediv__ __or__ __ror__ __and__ __neg__ __abs__ __int__ __float__ __index__ "
        "__await__ __qualname__ __module__ __new__ __setitem__ __delitem__ __missing__ __reversed__ __format__ "
        "__bytes__ __path__ __traceback__ __cause__ __context__ __package__ __get__ __set__ __set_name__ "
        "__init_subclass__ __license__"
    )
)


def may_be_refused(code: str, rules: CodeRules) -> bool:
    """Whether the text holds anything that a rule at this level names."""
    found = set(code.encode("utf-8", "surrogatepass").translate(_SEPARATORS).split())
    if rules.blocked_imports or (rules.allowlists and not _imports_only(code, found, rules)):
        return True
    if rules.level == "readonly" and (not found.isdisjoint(_READONLY) or _ENDLESS_LOOP.search(code)):
        return True
    if not _is_harmless(code, found & _ALWAYS) or code.count("lambda") > _NESTED:
        return True
    if "\\" in code and _is_spelled_otherwise(code):
        return True
    if "__" in code and _names_what_is_inside(code, found):
        return True
    if _has_notebook_command(code) or (b"typ" in found and b"unsafe" in found):
        return True
    if "@" in code and (b"query" in found or b"eval" in found) and _QUERY.search(code):
        return True
    if _may_exhaust(code, found):
        return True
    if not code.isascii() and any(_folds_to_ascii(word) for word in found if not word.isascii()):
        return True
    if not found.isdisjoint(_CALLED_BUILTINS) and _CALLED.search(code):
        return True
    return _reaches_out(code, found)


def _imports_only(code: str, found: set[bytes], rules: CodeRules) -> bool:
    """Whether all that is imported is allowed, every import being one that is plain to read."""
    if b"import" not in found:
        return True
    allowed = rules.allowed_imports or words.STRICT_MODULES
    count = 0
    for taken, listed in _IMPORT.findall(code):
        count += 1
        names = [taken] if taken else [part.split()[0] for part in listed.split(",") if part.strip()]
        if not names or any(name not in allowed and name.partition(".")[0] not in allowed for name in names):
            return False
    return count == code.count("import")


def _is_harmless(code: str, found: set[bytes]) -> bool:
    """Whether each of these words stands only in forms that no rule is about."""
    for word in found:
        form = _HARMLESS.get(word)
        if form is None or not all(form.match(code, at) for at in occurrences(code, word.decode())):
            return False
    return True


def _is_spelled_otherwise(code: str) -> bool:
    """Whether an escape may stand for a letter of a name, or for what holds names together."""
    for match in _CONTINUED_WORD.finditer(code):
        before = code[match.start() - 1 : match.start()]
        if before.isalnum() or before == "_":
            return True
    for short, medium, full, octal, named in _ESCAPE.findall(code):
        if named:
            return True
        digits = short or medium or full
        value = int(digits, 16) if digits else int(octal, 8)
        if value > 0x7F and value < 0x110000 and not unicodedata.normalize("NFKC", chr(value)).isascii():
            continue
        if value >= 0x20:
            return True
    return False


def _names_what_is_inside(code: str, found: set[bytes]) -> bool:
    """Whether a special or private name is in the text that is not among the plain ones, or a piece of such a name."""
    at = code.find("__")
    while at >= 0:
        # The first piece of a name in a string, or the last.
        if (code[at - 1 : at] in _QUOTES and code[at : at + 8] != "__main__") or (
            code[at + 2 : at + 3] in _QUOTES and code[at - 6 : at + 2] != "__main__"
        ):
            return True
        if _is_a_piece(code, at):
            return True
        at = code.find("__", at + 2)
    if ".__getitem__" in code:
        return True
    for word in found:
        if word[:1] == b"_" and b"__" in word and word not in _PLAIN_DUNDERS:
            private = word[:2] == b"__" and word[-2:] != b"__"
            if not private and (word != b"__getitem__" or "def __getitem__(" not in code):
                return True
    return False


def _is_a_piece(code: str, at: int) -> bool:
    """Whether a string ends with the beginning of a special name or begins with the end of one, or a field has one."""
    end = at + 2
    while code[end : end + 1].isalpha():
        end += 1
    if end > at + 2 and code[end : end + 1] in _QUOTES and not code[at - 1 : at].isalnum():
        return True
    start = at - 1
    while start >= 0 and code[start].isalpha():
        start -= 1
    if 0 <= start < at - 1 and code[start] in _QUOTES and not code[at + 2 : at + 3].isalnum():
        return True
    if code[at - 1 : at] not in (".", "["):
        return False
    field = code.rfind("{", max(0, at - _LONGEST_FIELD), at)
    return field >= 0 and "}" not in code[field:at] and "\n" not in code[field:at]


_LONGEST_FIELD = 200


def _has_notebook_command(code: str) -> bool:
    """Whether a sign with which notebooks run commands stands first on a line, or first behind an equals sign.

    None of it is Python, unless it stands in a text or an expression goes on there: then parsing shows it.
    """
    for sign in "!%":
        at = code.find(sign)
        while at >= 0:
            after = code[at + 1 : at + 2]
            if after.isalpha() or after == sign or (sign == "!" and after != "=" and not after.isspace()):
                before = code[max(0, at - 40) : at].rstrip(" \t")
                if not before or before[-1] in "\n\r\f=":
                    return True
            at = code.find(sign, at + 1)
    return False


def _may_exhaust(code: str, found: set[bytes]) -> bool:
    """Whether something in the text may grow or go on without end."""
    if b"while" in found and _IDLE_LOOP.search(code):
        return True
    if ("**" in code or "<<" in code) and _POWER.search(code) and _POWER.search(_SMALL_POWER.sub(_left_out, code)):
        return True
    return "*" in code and _LONG_NUMBER.search(code) is not None and _PRODUCT.search(code) is not None


def _left_out(power: re.Match[str]) -> str:
    return power[0] if power[1] else "0"


def _folds_to_ascii(word: bytes) -> bool:
    """Python reads identifiers in NFKC: letters that fold to ASCII ones spell a word that is not in the text."""
    return any(
        ord(letter) > 0x7F and unicodedata.normalize("NFKC", letter).isascii()
        for letter in word.decode("utf-8", "replace")
    )


def _reaches_out(code: str, found: set[bytes]) -> bool:
    """Whether a module that matters is imported or reached, or something in one."""
    opened = _opened(code, found)
    lines = _Lines(code)
    for top in found & _ENDINGS.keys():
        endings = found & _ENDINGS[top]
        if not endings.isdisjoint(opened) or any(_is_taken(code, ending.decode(), lines) for ending in endings):
            return True
    if b"os" in found and any(word.startswith(_RUNNERS) for word in found):
        return True
    if any(first in found and last in found and _is_entered(code, first.decode()) for first, last in _PARTS):
        return True
    modules = found & _MODULES
    if not (modules & _LEAKED).isdisjoint(opened) or any(_is_reached(code, word, lines) for word in modules):
        return True
    return any(not found.isdisjoint(_LISTERS[top]) for top in found & _LISTERS.keys()) and _names_a_place(code)


def _opened(code: str, found: set[bytes]) -> set[bytes]:
    """Words that may be imported by name where a line alone does not show it: in brackets, or any of them."""
    if _STAR_IMPORT.search(code) or ("\\" in code and _CONTINUED_IMPORT.search(code)):
        return found
    inside = "\n".join(_OPEN_IMPORT.findall(code)) if "import" in code else ""
    return set(inside.encode("utf-8", "surrogatepass").translate(_SEPARATORS).split())


def _is_entered(code: str, name: str) -> bool:
    """Whether something is taken from inside a module: a dot after its name, or `from` before it."""
    for at in occurrences(code, name):
        if code[at + len(name) : at + len(name) + 80].lstrip(" \t\r\n\\").startswith("."):
            return True
        if code[max(0, at - 80) : at].rstrip(" \t\r\n\\").endswith("from"):
            return True
    return False


class _Lines:
    """Where on each line something is imported, looked up once however many words stand there."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.imports: dict[int, tuple[int, str] | None] = {}

    def importing(self, at: int) -> str | None:
        """`import` or `from`, when one of them stands before a place on its line."""
        start = self.code.rfind("\n", 0, at) + 1
        if start not in self.imports:
            end = self.code.find("\n", at)
            match = _IMPORTING.search(self.code[start : end if end >= 0 else len(self.code)])
            self.imports[start] = None if match is None else (start + match.end(), match[1])
        found = self.imports[start]
        return found[1] if found is not None and found[0] <= at else None


def _is_taken(code: str, name: str, lines: _Lines) -> bool:
    """Whether a name may be that of something in a module: after a dot, in a string, or imported."""
    return any(_follows(code, at, ".\"'") or lines.importing(at) for at in occurrences(code, name))


def _follows(code: str, at: int, marks: str) -> bool:
    """Whether one of some marks stands before a place, white space and comments between them or not."""
    before = code[max(0, at - 80) : at].rstrip(" \t\r\n\\")
    if not before or before[-1] in marks:
        return at > 0
    line = code.rfind("\n", 0, at)
    return line > 0 and code[line:at].isspace() and "#" in before[before.rfind("\n") + 1 :]


def _names_a_place(code: str) -> bool:
    """Whether a text may begin like one of the system's places, name a folder of secrets, or be made from numbers."""
    if (
        "~" in code
        or "file:" in code
        or any(mark in code for mark in _MAKES_TEXT)
        or any(folder in code for folder in _SECRET_FOLDERS)
    ):
        return True
    at = code.find("/")
    while at >= 0:
        if code[at - 1 : at] in _QUOTES or code.startswith(_SYSTEM_PLACES, at + 1):
            return True
        at = code.find("/", at + 1)
    return False


def _is_reached(code: str, word: bytes, lines: _Lines) -> bool:
    """Whether a module's name stands in an import of that module, or after the dot of one that holds it."""
    plain, leaked = word in (b"os", b"sys"), word in _LEAKED
    imported = handed = False
    for at in occurrences(code, word.decode()):
        if leaked and _follows(code, at, "."):
            return True
        importing = lines.importing(at)
        if importing and (not plain or importing == "from"):
            return True
        if plain:
            if importing and _RENAMED.match(code, at + len(word)):
                return True
            imported = imported or importing is not None
            handed = handed or (importing is None and code[at + len(word) : at + len(word) + 1] != ".")
            if imported and handed:
                return True
    return False


def occurrences(code: str, word: str) -> Iterator[int]:
    """Where a word stands, as a whole word."""
    size = len(word)
    at = code.find(word)
    while at >= 0:
        end = at + size
        before, after = code[at - 1 : at], code[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            yield at
        at = code.find(word, end)
