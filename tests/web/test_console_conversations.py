"""Conversations in the console: what was said, and taking back what they changed by the plan that was shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from host import test_hooks
from host.test_hooks import hooked_hub, say
from host.test_rollback import SCRIPT, notes

from .console_visitor import Visitor

pytestmark = pytest.mark.anyio


async def test_a_conversation_is_read_and_taken_back_as_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_hooks, "SCRIPT", SCRIPT)
    kept: list[str] = []
    async with hooked_hub(tmp_path, {"s": notes(kept)}) as hub:
        visitor = await Visitor(hub).log_in()
        conversation = await hub.host.create()
        for text in ("note: a", "ring: now", "note: <img src=x>"):
            await say(hub, text, conversation.id)
        address = f"/console/live/conversations/{conversation.id}"
        live = (await visitor.get("/console/live")).text
        assert address in live
        assert re.search(rf"Conversation {conversation.id}.*?[1-9] inferences, [1-9]\d* tokens in", live, re.DOTALL)
        page = (await visitor.get(address)).text
        assert "note: a" in page
        assert "&lt;img src=x&gt;" in page
        assert "<img" not in page

        planned = await visitor.get(f"{address}?undo=1")
        assert "Take back everything from turn 1 on" in planned.text
        assert "to <code>chk_1_note: a</code>" in planned.text
        form = next(form for form in await visitor.forms(f"{address}?undo=1") if "plan" in form.fields)
        stale = await visitor.post(form.action, {**form.fields, "plan": "another"})
        assert stale.status >= 400
        assert kept == ["note: a", "note: <img src=x>"]
        assert (await visitor.post(form.action, form.fields | {"token": "x"})).status == 403
        assert (await visitor.post(form.action, form.fields)).status == 303
        assert kept == ["note: a"]

        reader = await Visitor(hub).log_in_with(await hub.new_key("reader", "person", permissions=("admin_read",)))
        assert address not in (await reader.get("/console/live")).text
        assert (await reader.get(address)).status == 403
        assert (await visitor.get("/console/live/conversations/none")).status == 404
