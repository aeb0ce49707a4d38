"""Sets and removes one member of a YAML text. Comments, order and quotes of the rest stay.

The caller has parsed the text before (`parse_yaml`), so this module checks nothing.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any


def set_yaml_member(text: str, path: tuple[str, ...], value: object) -> str:
    """Set the member at `path` to `value`. Missing mappings on the path are created."""

    def change(document: Any) -> None:
        for key in path[:-1]:
            if document.get(key) is None:
                document[key] = {}
            document = document[key]
            if not hasattr(document, "keys"):
                raise ValueError(f"`{key}` is not a mapping")
        document[path[-1]] = value

    return _changed(text, change)


def remove_yaml_member(text: str, path: tuple[str, ...]) -> str:
    """Remove the member at `path`, if it exists."""

    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document.get(key) if hasattr(document, "keys") else None
        if hasattr(document, "keys"):
            document.pop(path[-1], None)

    return _changed(text, change)


def _changed(text: str, change: Callable[[Any], None]) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # long values stay on their line
    document = yaml.load(text)
    if document is None:
        document = {}
    change(document)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()
