"""The files of a running hub are upgraded: parts that it loads late answer that it has to be restarted."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from interlock.hub.tool_search.argument_check import ArgumentCheck
from interlock.web.lazy_app import LazyApp
from interlock.wire.errors import Fault


async def test_a_page_whose_module_cannot_be_loaded_says_to_restart_the_hub() -> None:
    def make() -> Any:
        raise ImportError("cannot import name 'page' from 'interlock.web.app'")

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    for app in (LazyApp("interlock.web.gone", make), LazyApp("interlock.web.lazy_app", make)):
        sent.clear()
        await app({"type": "http"}, receive, send)
        assert sent[0]["status"] == 500
        assert b"restart the hub" in sent[1]["body"]


def test_a_call_whose_schema_cannot_be_compiled_says_to_restart_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "interlock.signatures.validate", None)
    with pytest.raises(Fault) as refused:
        ArgumentCheck({"tool": {}}).check("tool", {})
    assert (refused.value.name, "restart the hub" in refused.value.hint) == ("INTERNAL_ERROR", True)
