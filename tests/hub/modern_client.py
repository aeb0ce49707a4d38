"""A client of the stateless era that answers what comes back as a question, saying exactly what a test wants."""

from __future__ import annotations

from typing import Any

from .running_hub import RawClient

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
ALL: dict[str, Any] = {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


class ModernClient(RawClient):
    """It declares everything, and repeats calls with its answers."""

    def __init__(self, url: str, answers: dict[str, Any], key: str | None = None) -> None:
        super().__init__(url, key)
        self.answers = answers
        self.asked: list[Any] = []
        self.capabilities = ALL

    async def ask(self, method: str, params: dict[str, Any], **more: Any) -> Any:
        """One request; its answer, whatever it is."""
        meta = {CAPABILITIES: self.capabilities, **params.pop("_meta", {})}
        return await self.modern(method, {**params, "_meta": meta, **more})

    async def start(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """The first request of a call: its result."""
        return (await self.ask("tools/call", {"name": name, "arguments": arguments or {}}))["result"]

    def reply(self, result: Any) -> dict[str, Any]:
        """The members that a retry of an unfinished call carries."""
        answers = {key: self.answers[asked["method"]] for key, asked in result.get("inputRequests", {}).items()}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return {"inputResponses": answers, **state}

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """A request, repeated until it is done."""
        answer = await self.ask(method, dict(params))
        for _ in range(10):
            result = answer.get("result", {})
            if result.get("resultType") != "input_required":
                return answer
            self.asked += result.get("inputRequests", {}).values()
            answer = await self.ask(method, dict(params), **self.reply(result))
        raise AssertionError("asked without end")

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """A tool call, repeated until it is done."""
        return await self.request("tools/call", {"name": name, "arguments": arguments or {}})
