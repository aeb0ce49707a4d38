"""Forms in which a dangerous program is harmless: it lists, says what it would do, or calls something off."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from interlock.judge.shell.flags import names


def is_harmless_form(name: str, arguments: Sequence[str]) -> bool:
    """Whether a program that is refused by its name is only asked for something harmless."""
    form = _FORMS.get(name)
    return form is not None and form(arguments)


def _only(words: str) -> Callable[[Sequence[str]], bool]:
    """The program has arguments, and all of them are among these."""
    allowed = names(words)
    return lambda arguments: bool(arguments) and allowed.issuperset(arguments)


def _subcommand(words: str) -> Callable[[Sequence[str]], bool]:
    """The first argument is one of these, and whatever follows is plain words and options."""
    allowed = names(words)
    return lambda arguments: (
        bool(arguments) and arguments[0] in allowed and all(_PLAIN.fullmatch(word) for word in arguments)
    )


def _dry_run(arguments: Sequence[str]) -> bool:
    return bool({"-n", "--dry-run", "--show", "--show-depends", "--resolve-alias"}.intersection(arguments)) and not (
        {"-C", "--config", "-d", "--dirname"}.intersection(arguments)
    )


def _image_of_a_folder(arguments: Sequence[str]) -> bool:
    """A file system made in a file from a folder, as `mkfs.erofs` and `mksquashfs` do, and not on a device."""
    return not any("/dev/" in word for word in arguments)


def _flags_of_a_file(arguments: Sequence[str]) -> bool:
    """Attributes of files other than those that make them immutable."""
    return bool(arguments) and not any(re.match(r"[-+=]\w*[ia]|-\w*[RVf]", word) for word in arguments)


def _runs_nothing(arguments: Sequence[str]) -> bool:
    """`trap` that lists, or gives signals their usual meaning back."""
    return not arguments or arguments[0] in ("-", "-l", "-p")


def _is_removal(arguments: Sequence[str]) -> bool:
    return bool(arguments) and arguments[0] == "-r" and all(_PLAIN.fullmatch(word) for word in arguments)


_PLAIN = re.compile(r"[\w.@:+=,/-]*")
_WITHOUT_STOPPING = _only("-w --wtmp-only")
_FORMS: dict[str, Callable[[Sequence[str]], bool]] = {
    "halt": _WITHOUT_STOPPING,
    "poweroff": _WITHOUT_STOPPING,
    "reboot": _WITHOUT_STOPPING,
    "shutdown": _only("-c --show"),
    "telinit": _only("q Q"),
    "machinectl": _subcommand("list status show list-images image-status show-image"),
    "modprobe": _dry_run,
    "mkfs.erofs": _image_of_a_folder,
    "chattr": _flags_of_a_file,
    "setcap": _is_removal,
    "trap": _runs_nothing,
    "sysctl": _only("--load --system -p -a --all"),
}
