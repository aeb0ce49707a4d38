"""Where values of the operator's own configuration come from: `${secret:…}`, `${file:…}`, `${cmd:…}` and `${op://…}`.

Only the operator's own file may use them: a foreign file could read any file and run any program with them. No message
quotes a value.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from interlock.wire.explained import ExplainedError

from .files import MAX_BYTES as MAX_FILE_BYTES
from .hub_secret import BadHubSecret
from .secret_store import SecretStore

MAX_BYTES: Final = 64 * 1024
WITHIN_S: Final = 15.0
MOUNTED: Final = Path("/run/secrets")
"""Where containers get their secrets. Everybody in a container can read them, and nobody outside."""


class NoSecret(ExplainedError):
    """A value that cannot be had."""


class SecretSources:
    """The sources for one configuration file. Each reference is read once."""

    def __init__(self, home: Path, folder: Path, env: Mapping[str, str]) -> None:
        self._store = SecretStore(home)
        self._folder = folder
        self._env = dict(env)
        self._known: dict[str, str] = {}

    def value(self, kind: str, rest: str) -> str:
        """The value of `${kind:rest}`. Raises NoSecret."""
        reference = f"{kind}:{rest}"
        if reference not in self._known:
            self._known[reference] = self._read(kind, rest)
        return self._known[reference]

    def _read(self, kind: str, rest: str) -> str:
        if kind == "secret":
            return self._secret(rest)
        if kind == "file":
            return self._file(rest)
        if kind == "op":
            return self._output(
                ["op", "read", f"op:{rest}"], "op", "sign in with `op signin`, or correct the reference"
            )
        try:
            words = shlex.split(rest)
        except ValueError:
            words = []
        if not words:
            raise NoSecret("`${cmd:…}` names no program", "write ${cmd:program argument}; no shell is involved")
        return self._output(words, words[0], "run the command in a terminal to see what it says")

    def _secret(self, name: str) -> str:
        try:
            value = self._store.get(name)
        except BadHubSecret as cause:
            raise NoSecret(f"the secret `{name[:100]}` cannot be read: {cause.message}", cause.hint) from None
        except OSError as cause:
            raise NoSecret(f"the secret `{name[:100]}` cannot be read: {cause}", "see that file") from None
        if value is None:
            raise NoSecret(f"there is no secret `{name[:100]}`", f"run `interlock secrets set {name[:100]}`")
        return value

    def _file(self, written: str) -> str:
        path = self._folder / Path(written).expanduser()
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_size > min(MAX_BYTES, MAX_FILE_BYTES):
                raise NoSecret(f"{path} is no regular file of at most {MAX_BYTES} bytes", "correct the path")
            if sys.platform != "win32" and found.st_mode & 0o004 and not path.is_relative_to(MOUNTED):
                raise NoSecret(f"every user of this machine can read {path}", f"run `chmod 600 {path}`")
            return path.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as cause:
            reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else "it is not UTF-8 text"
            raise NoSecret(f"{path} cannot be read: {reason}", "correct the path") from None

    def _output(self, words: list[str], program: str, hint: str) -> str:
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        try:
            done = subprocess.run(
                words,
                stdin=null,
                stdout=pipe,
                stderr=null,
                env=self._env,
                cwd=self._folder,
                timeout=WITHIN_S,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired) as cause:
            why = (
                f"takes longer than {WITHIN_S:g} s" if isinstance(cause, subprocess.TimeoutExpired) else "cannot be run"
            )
            raise NoSecret(f"`{program[:100]}` {why}", hint) from None
        if done.returncode or not done.stdout or len(done.stdout) > MAX_BYTES:
            raise NoSecret(f"`{program[:100]}` ended with {done.returncode} and gave no usable value", hint)
        try:
            return done.stdout.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise NoSecret(f"the output of `{program[:100]}` is not UTF-8 text", hint) from None
