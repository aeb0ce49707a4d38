"""Examples in docstrings, which `doctest.testmod` runs: then they are code, and judged as part of it."""

from __future__ import annotations

import ast
import re

from interlock.wire.unicode_forms import normalize

_EXAMPLE = re.compile(r"^[ \t]*>>> ?(.*(?:\n[ \t]*\.\.\.(?: .*)?$)*)", re.MULTILINE)
_CONTINUED = re.compile(r"\n[ \t]*\.\.\. ?")
_MADE = ("__doc__", "__test__")
"""With these names, code can make examples while it runs."""
_MAX_CALLS = 4
_CALL = re.compile(
    r"testmod\s*\((?:\s*(?:name|verbose|optionflags|report|raise_on_error|exclude_empty)\s*=\s*[\w.| \"'-]+,?)*\s*\)"
    r"|(?<=import )testmod\b(?!\s+as\b)"
)
"""The function called with words that say how to run the examples and not which; or imported under its own name."""


def with_examples(code: str, tree: ast.Module) -> str | None:
    """The code followed by all the examples in its texts; None if other examples could be run."""
    plain = code if code.isascii() else normalize("NFKC", code)
    calls = plain.count("testmod")
    if any(name in plain for name in _MADE) or calls > _MAX_CALLS or calls != len(_CALL.findall(plain)):
        return None
    examples = [
        _CONTINUED.sub("\n", example)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ">>>" in node.value
        for example in _EXAMPLE.findall(node.value)
    ]
    return "\n".join([code, *examples, ""])
