"""Whether a path stays under its roots, component by component, in every reading and along every link.

`judge_path` looks at the spelling alone. `judge_real_path` also follows links through a callback, for targets that
exist and for those that do not yet. The caller must then open the path that was judged (`resolve_path`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from interlock.judge.findings import Finding
from interlock.judge.readings import readings

ReadLink = Callable[[str], str | None]
"""Given an absolute path, what the link there points to; None when it is no link or does not exist."""

MAX_PATH_CHARS = 4096
MAX_NAME_CHARS = 255
MAX_LINKS = 40


def judge_path(path: str, roots: Sequence[str]) -> tuple[Finding, ...]:
    """The faults in the spelling of a path that must lie under `roots`. Relative ones start at the first."""
    return tuple(_placed(finding, path) for finding in _judge_path(path, roots))


def _judge_path(path: str, roots: Sequence[str]) -> tuple[Finding, ...]:
    if not roots:
        return (Finding("path.no_root", "No folder is open to this tool.", "Let the operator name a root for it."),)
    if shape := _judge_shape(path):
        return (shape,)
    if path[:5].lower() == "file:":
        local = _file_url_path(path)
        if local is None:
            return (Finding("path.scheme", "The file: URL names another machine.", _PLAIN),)
        return _judge_path(local, roots)
    anchors = tuple(_split(root) for root in roots)
    if form := _judge_form(path, windows=anchors[0].drive != ""):
        return (form,)
    for spelled in (path,) if path.isascii() else (path, _visible(path)):
        for reading in readings(spelled):
            if finding := _judge_reading(reading, anchors, decoded=reading is not path):
                return (finding,)
    return ()


def judge_real_path(path: str, roots: Sequence[str], read_link: ReadLink) -> tuple[Finding, ...]:
    """Everything `judge_path` finds, and whether the links along the way lead out of the roots."""
    if found := judge_path(path, roots):
        return found
    real = resolve_path(path, roots[0], read_link)
    if real is None:
        return (Finding("path.link_loop", f"More than {MAX_LINKS} links lie on the way.", "Name the file itself."),)
    real_roots = tuple(resolve_path(root, root, read_link) for root in roots)
    if any(root is not None and _is_under(_split(real), _split(root)) for root in real_roots):
        return ()
    message = f"{_short(path)} is a link, or lies behind one, and really is {_short(real)}."
    return (Finding("path.link_outside", message, _under(roots), (0, len(path))),)


def resolve_path(path: str, base: str, read_link: ReadLink) -> str | None:
    """The real path, as the file system walks it: `..` after a link leaves the link's target. None for circles.

    Names that do not exist are kept as they are. This is the path to open once it has been judged.
    """
    if path[:5].lower() == "file:":
        path = _file_url_path(path) or path
    start = _split(path)
    anchor = start if start.absolute else _split(base)
    done: list[str] = []
    todo = list(reversed(start.names if start.absolute else anchor.names + start.names))
    links = 0
    while todo:
        name = todo.pop()
        if name == "..":
            if done:
                done.pop()
            continue
        done.append(name)
        target = read_link(anchor.drive + "/" + "/".join(done))
        if target is None:
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        done.pop()
        led = _split(target)
        if led.absolute:
            done.clear()
            anchor = led
        todo.extend(reversed(led.names))
    return anchor.drive + "/" + "/".join(done)


class _Split(NamedTuple):
    drive: str
    """Empty, or a drive letter with its colon, in lower case, since Windows does not tell the two apart."""
    absolute: bool
    names: tuple[str, ...]


_PLAIN = "Write a plain path."
_DRIVE = re.compile(r"[A-Za-z]:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{1,30}:(?://|\\\\)")
_WRAPPER = re.compile(
    r"(?i)(?:php|data|jar|expect|phar|zip|glob|compress\.\w+|view-source|netdoc|javascript):(?=[/\\]|\w+[:/])"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SUBSTITUTION = re.compile(r"\$\{|\$\(|`|\$(?i:env):")
_VARIABLE = re.compile(r"(?:\$\w+|%[A-Za-z_][\w()]*%)(?=[/\\])|(?:\$[A-Z_][A-Z0-9_]+|%[A-Za-z_][\w()]*%)$")
_NEVER_VALID = re.compile(r"(?i)%(?:25)*c[01]|%%[0-9a-f]{2}")
_DEVICE = re.compile(r"(?i)(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)")
_STREAM = re.compile(r":[^/\\:$]*:?\$[A-Za-z]")
_HOMES = frozenset(("~", "~+", "~-", "~root", "~nobody", "~daemon", "~www-data", "~admin", "~ubuntu", "~home"))
_KERNEL = frozenset(("dev", "proc", "sys"))


def _visible(path: str) -> str:
    """The path without invisible characters, as programs that clean text would make it."""
    return "".join(
        character
        for character in path
        if unicodedata.category(character) != "Cf" and not "\ufe00" <= character <= "\ufe0f"
    )


def _judge_shape(path: str) -> Finding | None:
    if not path or not path.strip():
        return Finding("path.empty", "The path is empty.", "Name a file or folder.")
    if len(path) > MAX_PATH_CHARS or len(path.encode("utf-8", "surrogatepass")) > MAX_PATH_CHARS:
        return Finding(
            "path.too_long", "The path is longer than any system takes.", f"Keep it under {MAX_PATH_CHARS} bytes."
        )
    if match := _CONTROL.search(path):
        return Finding("path.control", f"The path holds the character {ord(match[0]):#06x}.", _PLAIN, match.span())
    return None


def _judge_form(path: str, windows: bool) -> Finding | None:
    """Forms that mean something to some system before the path is even walked."""
    slashed = path.replace("\\", "/")
    first = slashed.partition("/")[0]
    if _SCHEME.match(path) or _WRAPPER.match(path):
        return Finding("path.scheme", "This is a URL or a wrapper, not a path.", _PLAIN)
    if slashed.startswith(("//?/", "//./", "/??/")):
        return Finding("path.device", "This names the device space of Windows.", _PLAIN)
    if path.startswith("\\\\") or (windows and slashed.startswith("//")):
        return Finding("path.network", "This names a share on another machine.", _PLAIN)
    if _DRIVE.match(path) and not windows:
        return Finding("path.drive", "This names a Windows drive.", _PLAIN)
    if windows and _DRIVE.match(path) and slashed[2:3] != "/":
        return Finding("path.drive", "The path is relative to a drive's current folder.", "Write it in full.")
    if first in _HOMES or (first.startswith("~") and "/" in slashed):
        return Finding("path.home", f"{first} stands for somebody's home folder.", "Write the path in full.")
    if match := _VARIABLE.match(path) or _SUBSTITUTION.search(path):
        return Finding(
            "path.variable", f"{match[0]} would be replaced by a variable.", "Write the path in full.", match.span()
        )
    if len(_NEVER_VALID.findall(path)) > 1:
        return Finding("path.encoding", "The path is encoded as no honest program encodes one.", _PLAIN)
    if _STREAM.search(path) or (windows and ":" in slashed[2:]):
        return Finding(
            "path.stream", "The colon names a hidden stream of the file.", "Leave out what follows the colon."
        )
    return _judge_names(slashed, windows)


def _judge_names(slashed: str, windows: bool) -> Finding | None:
    names = slashed.split("/")
    dotted = 0
    for name in names:
        dotted = dotted + 1 if len(name) > 2 and not name.strip(".") else 0
        if dotted > 1:
            return Finding("path.traversal", "Several names are nothing but dots.", _PLAIN)
        if (
            len(name) > MAX_NAME_CHARS // 4
            and len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_CHARS
            and ".." not in names
        ):
            return Finding("path.too_long", "A name in the path is longer than any system takes.", _PLAIN)
        # Elsewhere only the file itself would be a surprise when it reaches a Windows machine.
        stem = name.split(".")[0].rstrip() if windows else name if name is names[-1] else ""
        if _DEVICE.fullmatch(stem):
            return Finding("path.device", f"{name} is a device on Windows, not a file.", "Choose another name.")
        if windows and name not in (".", "..", "") and (name[-1] in ". " or re.search(r"~\d", name)):
            return Finding("path.alias", f"Windows knows {name} under another name too.", "Write the full name.")
    return None


def _judge_reading(reading: str, roots: tuple[_Split, ...], decoded: bool) -> Finding | None:
    if decoded and (match := _CONTROL.search(reading)):
        return Finding("path.control", f"Decoded, the path holds the character {ord(match[0]):#06x}.", _PLAIN)
    split = _split(reading)
    home = roots[0]
    if split.absolute and split.drive == "" and home.drive:
        split = split._replace(drive=home.drive)
    names = _walk(split.names if split.absolute else home.names + split.names)
    drive = split.drive if split.absolute else home.drive
    place = _Split(drive, True, names)
    if not any(_is_under(place, root) for root in roots):
        how = f", read as {_short(reading)}," if decoded else ""
        message = f"The path{how} leads outside the allowed folders."
        rule = "path.traversal" if ".." in split.names else "path.outside"
        return Finding(rule, message, _under(["/".join(("", *root.names)) for root in roots]))
    if not drive and names and names[0] in _KERNEL and not any(root.names[:1] == names[:1] for root in roots):
        return Finding("path.device", f"/{names[0]} belongs to the kernel.", _PLAIN)
    return None


def _split(path: str) -> _Split:
    slashed = path.replace("\\", "/")
    drive = ""
    if _DRIVE.match(slashed):
        drive, slashed = slashed[:2].lower(), slashed[2:]
        return _Split(drive, True, _names(slashed))
    return _Split(drive, slashed.startswith("/"), _names(slashed))


def _names(slashed: str) -> tuple[str, ...]:
    return tuple(name for name in slashed.split("/") if name not in ("", "."))


def _walk(names: Sequence[str]) -> tuple[str, ...]:
    done: list[str] = []
    for name in names:
        if name != "..":
            done.append(name)
        elif done:
            done.pop()
    return tuple(done)


def _is_under(place: _Split, root: _Split) -> bool:
    if place.drive != root.drive:
        return False
    wanted = _walk(root.names)
    got = place.names[: len(wanted)]
    if root.drive:
        return [name.lower() for name in got] == [name.lower() for name in wanted]
    return got == wanted


def _file_url_path(url: str) -> str | None:
    rest = url[5:].replace("\\", "/")
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            return None
        rest = "/" + tail
    plain = unquote(re.split(r"[?#]", rest, maxsplit=1)[0], errors="surrogateescape")
    return plain[1:] if re.match(r"/[A-Za-z]:", plain) else plain


def _placed(finding: Finding, path: str) -> Finding:
    """The finding with its place: where a path that leads out first goes up, otherwise the whole path."""
    if finding.span is not None and finding.span[1] <= len(path):
        return finding
    up = path.find("..") if finding.rule == "path.traversal" else -1
    return msgspec.structs.replace(finding, span=(up, up + 2) if up >= 0 else (0, len(path)))


def _under(roots: Sequence[str]) -> str:
    return "Name something under " + " or ".join(_short(root) for root in roots[:3]) + "."


def _short(path: str) -> str:
    return path if len(path) <= 80 else path[:77] + "..."
