"""A quick look at the words of Python code: when none of them is in any rule, the tree need not be walked.

It may say yes for nothing, never no for something: everything a rule can refuse at `standard` needs one of these words
in the text, an escape that spells it, or a computed name, which again needs one of these words to be used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from interlock.judge.code import vocabulary as words

_ESCAPE = re.compile(r"\\[xuUN0-7\n\r]")
_OPEN_IMPORT = re.compile(r"import\s*[(*]")
_CALLED = re.compile(rf"\b(?:{'|'.join(sorted(words.CALLED_BUILTINS))})\s*\(")
_RUNNERS = (b"exec", b"spawn", b"posix_spawn", b"fork", b"popen", b"sched_set")
_POWER = re.compile(r"[\d)]\s*\*\*|<<")
_LONG_NUMBER = re.compile(r"\d[\d_]{7}")
_IDLE_LOOP = re.compile(r"while[^:\n]{1,24}:\s*(?:pass|continue)\b")
_NESTED = 30
_SEPARATORS = bytes(code if code > 0x7F or chr(code).isalnum() or code == 0x5F else 0x20 for code in range(256))


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
        "iter_modules find_module exec_module trust_remote_code"
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
_ENDINGS: dict[bytes, set[bytes]] = {b"yaml": {b"load"}, b"numpy": {b"load"}}
for _origin in words.BLOCKED_ORIGINS | words.OPENERS | words.LISTERS:
    _ENDINGS.setdefault(_origin.partition(".")[0].encode(), set()).add(_origin.rpartition(".")[2].encode())
_TOPS = frozenset(_ENDINGS)
_PLAIN_DUNDERS = _in_bytes(
    words.names(
        "__name__ __main__ __init__ __file__ __future__ __all__ __version__ "
        "__doc__ __str__ __repr__ __enter__ __exit__ __aenter__ "
        "__aexit__ __len__ __iter__ __next__ __aiter__ __anext__ __call__ __eq__ __hash__ __post_init__ __author__ "
        "__slots__ "
        "__contains__ __bool__ __lt__ __add__ __await__ __qualname__ __module__ __new__"
    )
)


def may_be_refused(code: str) -> bool:
    """Whether the text holds anything that a rule at `standard` names."""
    if "\\" in code and _ESCAPE.search(code):
        return True
    found = set(code.encode("utf-8", "surrogatepass").translate(_SEPARATORS).split())
    if not found.isdisjoint(_ALWAYS) or code.count("lambda") > _NESTED:
        return True
    if any(word[:1] == b"_" and b"__" in word and word not in _PLAIN_DUNDERS for word in found):
        return True
    if _may_exhaust(code, found):
        return True
    if not code.isascii() and any(_folds_to_ascii(word) for word in found if not word.isascii()):
        return True
    if not found.isdisjoint(_CALLED_BUILTINS) and _CALLED.search(code):
        return True
    if any(not found.isdisjoint(_ENDINGS[top]) for top in found & _TOPS):
        return True
    if b"os" in found and any(word.startswith(_RUNNERS) for word in found):
        return True
    if any(first in found and last in found for first, last in _PARTS):
        return True
    return any(_is_reached(code, word.decode()) for word in found & _MODULES)


def _may_exhaust(code: str, found: set[bytes]) -> bool:
    """Whether something in the text may grow or go on without end."""
    if b"while" in found and _IDLE_LOOP.search(code):
        return True
    if ("**" in code or "<<" in code) and _POWER.search(code):
        return True
    return "*" in code and _LONG_NUMBER.search(code) is not None


def _folds_to_ascii(word: bytes) -> bool:
    """Python reads identifiers in NFKC: letters that fold to ASCII ones spell a word that is not in the text."""
    return any(
        ord(letter) > 0x7F and unicodedata.normalize("NFKC", letter).isascii()
        for letter in word.decode("utf-8", "replace")
    )


def _is_reached(code: str, module: str) -> bool:
    """Whether a module's name stands in an import of that module, or after a dot."""
    plain = module in ("os", "sys")
    if _OPEN_IMPORT.search(code):
        return True
    at = code.find(module)
    while at >= 0:
        start = max(code.rfind("\n", 0, at), code.rfind(";", 0, at)) + 1
        before = code[start:at]
        if before.rstrip().endswith("."):
            return True
        if "import" in before if not plain else ("from" in before and "import" in before):
            return True
        if "from" in before and not plain:
            return True
        at = code.find(module, at + len(module))
    return False
