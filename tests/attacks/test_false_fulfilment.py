"""`mgp/tools/request` says `fulfilled` only of needs that a tool meets: at most one in twenty of the others."""

from __future__ import annotations

from pathlib import Path

from hub.running_hub import RawClient, running_hub
from hub.test_validators import scripted

TOOLS = {
    "run_command": "Run a shell command and return its output.",
    "read_file": "Read a file from the project folder.",
    "write_file": "Write text to a file in the project folder.",
    "list_directory": "List the files of a folder.",
    "search_files": "Search files for a text or pattern.",
    "create_issue": "Create an issue in a GitHub repository.",
    "list_pull_requests": "List the open pull requests of a repository.",
    "send_email": "Send an email to one or more recipients.",
    "search_mail": "Search the messages of a mailbox.",
    "create_event": "Create an event in the calendar.",
    "get_weather": "Get the weather forecast for a city.",
    "convert_currency": "Convert an amount from one currency to another.",
    "query_database": "Run a read-only SQL query against the database.",
    "translate_text": "Translate a text into another language.",
    "take_screenshot": "Take a screenshot of a web page in the browser.",
    "resize_image": "Resize an image to a width and height.",
}
MET = [
    "run a shell command", "read a file", "write_file", "list the files of a folder", "search files", "create issue",
    "list pull requests", "send an email", "search mailbox messages", "create calendar event", "weather forecast",
    "convert currency", "query the database", "translate text", "take a screenshot", "resize image",
]  # fmt: skip
UNMET = [
    "launch a rocket", "print a boarding pass", "control the thermostat", "order a pizza", "play a song",
    "unlock the car", "train a neural network", "deploy to kubernetes", "rotate a pdf", "transcribe audio",
    "send an sms", "book a hotel room", "charge a credit card", "scan a barcode", "start the vacuum robot",
    "read the blood pressure", "generate a video", "sign a contract", "mine bitcoin", "water the plants",
    "launch a browser game", "create a playlist", "list the planets", "search for extraterrestrial life",
    "get stock prices", "convert speech to text", "query the dns server", "take a blood sample", "resize a partition",
    "write a symphony", "run a marathon", "read the electricity meter", "send a drone", "create a docker container",
    "translate dna into protein", "list bluetooth devices", "search flights", "open the garage door",
    "calibrate the telescope", "approve an invoice",
]  # fmt: skip


async def test_a_need_that_no_tool_meets_is_not_called_fulfilled(tmp_path: Path) -> None:
    tools = [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in TOOLS.items()]
    async with running_hub(tmp_path, {"s": scripted(tmp_path, {"tools": tools})}) as hub:
        client = RawClient(hub.url + "/mcp")

        async def status(need: str) -> str:
            asked = {"requirements": {"capabilities": [need]}}
            return str((await client.modern("mgp/tools/request", asked))["result"]["status"])

        met = {need: await status(need) for need in MET}
        unmet = {need: await status(need) for need in UNMET}
        wrong = [need for need, said in unmet.items() if said == "fulfilled"]
        assert len(wrong) <= len(UNMET) // 20, wrong
        assert unmet["launch a rocket"] == "unavailable"
        missed = [need for need, said in met.items() if said != "fulfilled"]
        assert len(missed) <= 2, missed
