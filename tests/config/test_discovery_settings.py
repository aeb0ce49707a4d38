"""Budgets and where meanings come from: what may be written, and that what cannot hold is told at start."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.config.load import LoadedConfig

Own = Callable[..., LoadedConfig]
WHOLE = "max_tokens = 8000\npinned_reserve = 2000\ndiscovery_reserve = 3000\ncache_limit = 3000\n"


def test_a_budget_may_be_written_in_its_parts(own: Own) -> None:
    loaded = own(f'[agents.x]\nrequest = ["db__*"]\n[agents.x.tool_context_budget]\n{WHOLE}')
    assert not loaded.problems
    assert loaded.config.agents["x"].tool_context_budget.parts == (2000, 3000, 3000)
    assert loaded.config.agents["x"].request == ("db__*",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[agents.x]\nbudget = 100\n", "600"),
        (f"[agents.x]\nbudget = 4000\n[agents.x.tool_context_budget]\n{WHOLE}", "both"),
        (f"[profiles.x.tool_context_budget]\n{WHOLE}".replace("8000", "7000"), "add up to 8000"),
        ("[agents.x.tool_context_budget]\nmax_tokens = 8000\ncache_limit = 10\n", "missing"),
        ("[agents.x.tool_context_budget]\ncache_limit = 10\n", "need `max_tokens`"),
        ('[hub.embeddings]\nurl = "ftp://x"\n', "url"),
        ('[hub.embeddings]\nurl = "http://127.0.0.1:1/v1"\npath = "/m"\n', "both `url` and `path`"),
    ],
)
def test_an_impossible_budget_is_reported_with_its_hint(own: Own, text: str, told: str) -> None:
    problems = own(text).problems
    assert any(told in problem.message for problem in problems), problems
