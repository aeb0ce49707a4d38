"""Makes the environment in which the documentation's examples for agent frameworks run, and says how to use it.

`python tests/web/frameworks.py FOLDER`. The frameworks need an older MCP SDK than the one the tests judge by, so they
live apart from everything else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

PACKAGES: Final = {
    "langchain-mcp-adapters": "0.3.2",
    "openai-agents": "0.24.0",
    "pydantic-ai-slim[mcp]": "2.66.0",
}
"""Each with the version that its example was last seen to work with."""


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("say where to make it: python tests/web/frameworks.py FOLDER")
    folder = Path(sys.argv[1]).absolute()
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    packages = [f"{name}=={version}" for name, version in PACKAGES.items()]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    print(f"INTERLOCK_FRAMEWORKS={python} python -m pytest tests/web/test_frameworks.py")


if __name__ == "__main__":
    main()
