"""Which Interlock this is. Said here rather than looked up: the look-up loads a tenth of the library."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
