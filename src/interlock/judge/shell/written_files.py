"""Files of the project that Python code in a command writes: they count as read, since `echo x > file` passes as well.

A file is known by its name in the code, or by a variable that has no other value and is used for nothing else.
"""

from __future__ import annotations

import re

from interlock.judge.shell.folders import is_inside
from interlock.judge.shell.patterns import compiled

_MAX_NAMES = 16
_WRITES = re.compile(
    r"""(?<![.\w])open\(\s*['"](?P<opened>[\w./-]+)['"]\s*,\s*(?:mode\s*=\s*)?['"][wax][bt]?\+?['"]"""
    r"""|\b(?:pathlib\.)?Path\(\s*['"](?P<path>[\w./-]+)['"]\s*\)\.write_(?:text|bytes)\("""
)
_OTHER_NAMES = re.compile(
    r"\b(?:vars|locals|globals|exec|eval|[gs]etattr|f_globals|f_locals|__dict__|__set\w+__)\b|import[\s(\\]*\*|[^\x00-\x7f]"
)
"""Ways to set a variable without its name. Outside ASCII, two spellings may be one name."""
_FILE = r"""['"][\w./-]+['"]"""
_NAMED = re.compile(
    r"^(?P<name>(?!__)[A-Za-z_]\w*)[ \t]*=[ \t]*"
    rf"(?P<value>{_FILE}|(?:pathlib\.)?Path\([ \t]*{_FILE}[ \t]*\))[ \t]*;?[ \t]*$",
    re.MULTILINE,
)
"""A variable that gets the name of a file, or a path, in a line of its own. `__doc__` has another value."""


def without_own_writes(code: str) -> str:
    """The code with its writes of files of the project as reads."""
    if "chdir" in code:
        return code
    for named in list(_NAMED.finditer(code))[:_MAX_NAMES] if not _OTHER_NAMES.search(code) else ():
        code = _with_value(code, named)
    return _WRITES.sub(_as_reading, code)


def _with_value(code: str, named: re.Match[str]) -> str:
    """The code with a value in the place of its variable, if every use of it is that of a file."""
    name, value = named["name"], named["value"]
    if value[0] in "'\"":
        use = re.compile(rf"(?<![.\w])((?:open|Path)\(\s*){name}(?=\s*[,)])")
    else:
        use = re.compile(rf"(?<![.\w])(){name}(?=\.(?:read|write)_(?:text|bytes)\()")
    others = len(re.findall(rf"\b{name}\b", code)) - len(use.findall(code))
    return use.sub(lambda found: found[1] + value, code) if others == 1 else code


def _as_reading(match: re.Match[str]) -> str:
    path = match["opened"] or match["path"]
    if compiled("<WRITE>|<HOOKS>").search(path) or not is_inside(path):
        return match[0]
    return f"open({path!r}" if match["opened"] else f"print({path!r}, "
