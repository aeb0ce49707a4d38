"""Files of secrets that Python code names: `.env`, private keys, credentials, the stores of browsers and keyrings.

A name that is compared, printed or looked up in a mapping reads no file. Every other use of it counts as reading.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

from interlock.judge.code.origins import Origins
from interlock.judge.shell.patterns import compiled
from interlock.judge.tables import name_set

Uses = Mapping[str, Sequence[tuple[ast.Name, ast.AST]]]
"""Where each name is read, with the node around it."""

MAX_PATH = 256
"""Longer texts are judged by their end, which is where a path names its file."""
_MENTIONS = (
    *(".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_*", "/etc/", "/proc/", "/dev/", "aws/", ".aws", "ssh/"),
    *(".ssh", "netrc", "credentials", "pgpass", "my.cnf", "npmrc", "pypirc", "docker", "kube", "gnupg", "azure/"),
    *("gcloud", "gh/hosts", "vault-token", "_history", "Login Data", "Web Data", "Cookies", "cookies.sqlite", "TCC.db"),
    *("chat.db", "logins.json", "key3.db", "key4.db", "wallet.dat", "eychain", "password-store", "m2/settings"),
    "/run/secrets",
)
"""Parts of which the name of such a file has one."""
_ANYWHERE = r"<SECRETS>|<ENVIRONMENT_FILE>|(?:^|[/\\])id_(?:rsa|dsa|ecdsa|ed25519|\*)(?:_sk)?\*?$"
_SPOKEN_OF = name_set(
    "print startswith endswith removeprefix removesuffix replace split rsplit partition rpartition strip count index "
    "find debug info warning error critical exception"
)
"""Calls for which a name of a file is a text."""


_LOADERS = name_set(
    "dotenv.load_dotenv pydantic_settings.SettingsConfigDict pydantic_settings.BaseSettings pydantic.BaseSettings"
)
_LOADER_NAMES = frozenset(name.rpartition(".")[2] for name in _LOADERS)
_MODULES = ("dotenv", "pydantic")


def secret_texts(found: Sequence[ast.Constant]) -> list[ast.Constant]:
    """The texts that are paths of files of secrets."""
    texts = [(node.value.decode("latin-1") if isinstance(node.value, bytes) else str(node.value)) for node in found]
    if not mentions_secret_file("\n".join(texts)):
        return []
    return [node for node, text in zip(found, texts, strict=True) if is_secret_text(text)]


def mentions_secret_file(text: str) -> bool:
    """Whether a part of the text may be the path of a file of secrets. False is certain."""
    return any(part in text for part in _MENTIONS)


@lru_cache(maxsize=1024)
def is_secret_path(path: str) -> bool:
    """Whether a path that is opened is that of a file of secrets."""
    return compiled("<SECRETS>|<SECRET_FILE>").search(path[-MAX_PATH:]) is not None


def is_secret_text(text: str) -> bool:
    """Whether a text, used for anything, is the path of a file of secrets. A sentence that names one is none."""
    text = text[-MAX_PATH:]
    first = text.partition(" ")[0]
    return (first == text or "/" in first or "\\" in first) and compiled(_ANYWHERE).search(text) is not None


class SecretFiles:
    """Finds the texts of one tree that name files of secrets to be read."""

    def __init__(self, origins: Origins, parents: Mapping[ast.AST, ast.AST], uses: Uses) -> None:
        self._origins = origins
        self._parents = parents
        self._uses = uses
        self._only_compared: dict[ast.AST, bool] = {}
        self._names_compared: dict[str, bool] = {}

    def reads(self, node: ast.Constant) -> bool:
        """Whether the name of a file of secrets is used for more than to tell names apart."""
        parent = self._parents[node]
        match parent:
            case ast.Expr() | ast.Compare() | ast.MatchValue():
                return False
            case ast.Subscript(slice=key):
                return key is not node
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name not in _SPOKEN_OF and not self._loads_settings(parent)
            case ast.keyword():
                return not self._loads_settings(self._parents[parent])
            case ast.List() | ast.Tuple() | ast.Set():
                return not self._is_only_compared(parent)
        return True

    def _loads_settings(self, call: ast.AST) -> bool:
        """`load_dotenv(".env")`, `SettingsConfigDict(env_file=".env")`: variables for the program, which shows none."""
        if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Name, ast.Attribute)):
            return False
        own = isinstance(call.func, ast.Name) and call.func.id in self._origins.functions
        origins = self._origins.of(call.func)
        return bool(origins) and not own and _LOADERS.issuperset(origins) and not self._replaces_loaders

    @cached_property
    def _replaces_loaders(self) -> bool:
        """Whether the code puts something in the place of a loader: by an attribute, or by its name as a text."""
        for node in self._parents:
            match node:
                case ast.Attribute(attr=name, value=value, ctx=ast.Store() | ast.Del()):
                    if name in _LOADER_NAMES or any(origin.startswith(_MODULES) for origin in self._origins.of(value)):
                        return True
                case ast.Constant(value=str(text)) if any(name in text for name in _LOADER_NAMES):
                    if not isinstance(self._parents[node], ast.Expr):
                        return True
        return False

    def _is_only_compared(self, collection: ast.AST) -> bool:
        """`name in {".env", ".git"}`, also where the set has a name that is used for nothing else."""
        if collection not in self._only_compared:
            self._only_compared[collection] = self._compared(collection)
        return self._only_compared[collection]

    def _compared(self, collection: ast.AST) -> bool:
        parent = self._parents[collection]
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _COLLECTIONS:
            return self._compared(parent)
        if isinstance(parent, ast.Compare):
            return parent.left is not collection
        targets = [parent.target] if isinstance(parent, ast.AnnAssign) else getattr(parent, "targets", [])
        return bool(targets) and all(isinstance(each, ast.Name) and self._is_name_compared(each.id) for each in targets)

    def _is_name_compared(self, name: str) -> bool:
        if name not in self._names_compared:
            users = [user for _, user in self._uses.get(name, ())]
            self._names_compared[name] = all(isinstance(user, ast.Compare) for user in users)
        return self._names_compared[name]


_COLLECTIONS = name_set("frozenset set tuple list")
