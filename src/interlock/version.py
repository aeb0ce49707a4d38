"""The version of Interlock. It is written here, because reading the metadata of the package loads many modules."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
