"""The examples for agent frameworks in the documentation, each run as it stands against a real hub.

The frameworks need an older MCP SDK than ours to judge by, so they live in an environment of their own, which
`python tests/web/frameworks.py FOLDER` makes: `INTERLOCK_FRAMEWORKS` names its Python. Without it nothing is measured.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest

from hub.running_hub import SOURCE

from .frameworks import PACKAGES
from .running import example, hub_in_a_thread

PYTHON = os.environ.get("INTERLOCK_FRAMEWORKS", "")
PAGE = (SOURCE.parent / "docs" / "writing-servers.md").read_text()
DISTRIBUTIONS = {
    "LangChain": "langchain-mcp-adapters",
    "OpenAI Agents": "openai-agents",
    "Pydantic AI": "pydantic-ai-slim[mcp]",
}
EXAMPLES = dict(
    re.findall(r"^(LangChain|OpenAI Agents|Pydantic AI), .*?```py\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
)

measured = pytest.mark.skipif(not PYTHON, reason="not measured: `python tests/web/frameworks.py FOLDER` says how")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hub_in_a_thread(tmp_path_factory.mktemp("hub"), {"fin": example()}) as url:
        yield url


@pytest.mark.slow
@measured
@pytest.mark.parametrize("framework", DISTRIBUTIONS)
def test_a_framework_uses_the_hub_as_the_documentation_says(framework: str, address: str) -> None:
    program = f"HUB = {address + '/mcp'!r}\n{EXAMPLES[framework]}\nimport asyncio\nasyncio.run(main())\nprint('done')\n"
    ran = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    if "ModuleNotFoundError" in ran.stderr:
        pytest.skip(f"not measured: {ran.stderr.splitlines()[-1]}")
    assert ran.stdout == "done\n", ran.stderr[-3_000:]


def test_the_page_names_the_versions_that_were_run() -> None:
    assert EXAMPLES.keys() == DISTRIBUTIONS.keys()
    for distribution in DISTRIBUTIONS.values():
        assert f"`{distribution}` {PACKAGES[distribution]}" in PAGE
