"""The fixture that the official conformance suite asks for, written with `interlock.Server`.

Names, texts and schemas are the suite's own; every one of them is looked for by a scenario.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
from typing import Annotated, Any

from interlock.server import (
    Answer,
    Audio,
    Content,
    Context,
    Embedded,
    Image,
    Message,
    Prompt,
    ResourceContents,
    Server,
    Text,
    Tool,
    ToolError,
)
from interlock.wire.errors import Fault

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

server = Server("interlock-conformance", "1.0.0", instructions="Every fixture of the conformance suite.")


def form(**properties: object) -> dict[str, object]:
    """A form whose fields are all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME = form(name={"type": "string"})
CONFIRM = form(ok={"type": "boolean"})


def outcome(answer: Answer[dict[str, Any]]) -> str:
    """How the suite wants an elicitation told."""
    return f"Elicitation completed: action={answer.action}, content={answer.value or {}}"


# Content


@server.tool
def test_simple_text() -> Text:
    """Tests simple text content response."""
    return Text("This is a simple text response for testing.")


@server.tool
def test_image_content() -> Image:
    """Tests image content response."""
    return Image(PIXEL, "image/png")


@server.tool
def test_audio_content() -> Audio:
    """Tests audio content response."""
    return Audio(SILENCE, "audio/wav")


@server.tool
def test_embedded_resource() -> Embedded:
    """Tests embedded resource content response."""
    text = "This is an embedded resource content."
    return Embedded(ResourceContents("test://embedded-resource", "text/plain", text))


@server.tool
def test_multiple_content_types() -> list[Content]:
    """Tests response with multiple content types."""
    return [
        Text("Multiple content types test:"),
        Image(PIXEL, "image/png"),
        Embedded(ResourceContents("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')),
    ]


@server.tool
def test_error_handling() -> str:
    """Tests error response handling."""
    raise ToolError("This tool intentionally returns an error for testing")


# Telling


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Tests tool that emits log messages during execution."""
    ctx.log("info", "Tool execution started")
    await asyncio.sleep(0.05)
    ctx.log("info", "Tool processing data")
    await asyncio.sleep(0.05)
    ctx.log("info", "Tool execution completed")
    return "Tool with logging executed successfully"


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs a message, which a client that did not ask for any must not get."""
    ctx.log("info", "This message must not reach a client that set no log level")
    return "logged"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Tests tool that reports progress notifications."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return str(ctx.meta.get("progressToken", 0))


# Asking


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Closes its stream in mid-call."""
    ctx.close_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed"


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Tests server-initiated sampling."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Tests server-initiated elicitation."""
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    answer = await ctx.elicit(message, schema)
    return f"User response: action={answer.action}, content={answer.value or {}}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Tests elicitation with default values for all primitive types."""
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "description": "Verification status", "default": True},
        },
    }
    return outcome(await ctx.elicit("Please provide user information", schema))


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Tests elicitation with every kind of choice."""
    titled = [
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]
    options = ["option1", "option2", "option3"]
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    }
    return outcome(await ctx.elicit("Please select values", schema))


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client that declares sampling."""
    if not ctx.capabilities.sampling:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise Fault("MISSING_CAPABILITY", "this tool needs the sampling capability", data=needed)
    return "Client declared sampling capability."


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks in mid-way, after a first sign of life."""
    ctx.progress(1, 2)
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {(answer.value or {}).get('name', 'stranger')}!"


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks for a name."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {(answer.value or {}).get('name', 'stranger')}!"


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the model."""
    answer = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"Model said: {answer.text}"


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the roots."""
    roots = await ctx.roots(key="client_roots")
    return "Roots: " + ", ".join(root.uri for root in roots)


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks for a confirmation."""
    answer = await ctx.elicit("Please confirm", CONFIRM, key="confirm")
    return f"state-ok: {answer.action}"


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks for a confirmation, with a state that must come back as it was."""
    answer = await ctx.elicit("Please confirm", CONFIRM, key="confirm")
    return f"state-ok: {answer.action}"


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks three things at once."""
    await asyncio.gather(
        ctx.elicit("What is your name?", NAME, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return "All inputs received."


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks twice, one after the other."""
    name = await ctx.elicit("Step 1: What is your name?", NAME, key="step1")
    schema = form(color={"type": "string"})
    color = await ctx.elicit("Step 2: What is your favorite color?", schema, key="step2")
    return f"{(name.value or {}).get('name')} likes {(color.value or {}).get('color')}."


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks only what the client says it answers."""
    asked: list[Any] = []
    if ctx.capabilities.sampling:
        asked.append(ctx.sample("Say hello", max_tokens=50, key="sample"))
    if ctx.capabilities.elicitation_form:
        asked.append(ctx.elicit("What is your name?", NAME, key="ask"))
    await asyncio.gather(*asked)
    return "done"


# Schemas and headers


@server.tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
def json_schema_2020_12_tool() -> str:
    """Tool with JSON Schema 2020-12 features."""
    return "json_schema_2020_12_tool"


@server.tool(headers={"region": "Region"})
def test_x_mcp_header(region: Annotated[str, "Repeated in the Mcp-Param-Region header"] = "<none>") -> str:  # noqa: PT028
    """Tests parameters that are mirrored into headers."""
    return f"region={region}"


# Changes

there: set[str] = set()
"""The tool that comes and goes, once it has come."""


def dynamic() -> str:
    """Comes and goes."""
    return "dynamic"


@server.tool
async def test_trigger_tool_change() -> str:
    """Changes the list of tools: what was not there is, and the other way round."""
    if "test_dynamic_tool" in there:
        server.remove_tool("test_dynamic_tool")
    else:
        server.add_tool(Tool(dynamic, name="test_dynamic_tool"))
    there.symmetric_difference_update({"test_dynamic_tool"})
    return "tool list changed"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts: what was not there is, and the other way round."""
    if "test_dynamic_prompt" in there:
        server.remove_prompt("test_dynamic_prompt")
    else:
        server.add_prompt(Prompt(dynamic, name="test_dynamic_prompt"))
    there.symmetric_difference_update({"test_dynamic_prompt"})
    return "prompt list changed"


# Resources


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A static text resource for testing."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A static binary resource for testing."""
    return PIXEL


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> dict[str, object]:
    """A resource template with parameter substitution."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A resource that can be subscribed to for updates."""
    return "Watched resource content"


# Prompts


@server.prompt
def test_simple_prompt() -> str:
    """A simple prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """A prompt with required arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803
    """A prompt that includes an embedded resource."""
    contents = ResourceContents(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [Message(Embedded(contents)), Message("Please process the embedded resource above.")]


@server.prompt
def test_prompt_with_image() -> list[Message]:
    """A prompt that includes image content."""
    return [Message(Image(PIXEL, "image/png")), Message("Please analyze the image above.")]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks first."""
    schema = form(context={"type": "string"})
    answer = await ctx.elicit("What context should the prompt use?", schema, key="user_context")
    return f"Use the following context: {(answer.value or {}).get('context', '')}"


@server.completion("test_prompt_with_arguments", "arg1")
def complete_arg1(value: str) -> list[str]:
    """Suggestions for the first argument."""
    return [word for word in ("paris", "park", "party") if word.startswith(value)]


# Tasks (the extension io.modelcontextprotocol/tasks)


@server.tool
def greet(name: str) -> Text:
    """A tool that is never a task."""
    return Text(f"Hello, {name}!")


@server.tool(task="optional")
async def slow_compute(seconds: float, label: str = "") -> Text:
    """Take a while."""
    await asyncio.sleep(seconds)
    return Text(f"computed {label} in {seconds} s")


@server.tool(task="required")
async def failing_job() -> Text:
    """Fail as a tool fails."""
    raise ToolError("the job failed")


@server.tool(task="optional")
async def protocol_error_job() -> Text:
    """Fail as a request fails."""
    raise Fault("INTERNAL_ERROR", "the job broke down")


@server.tool(task="optional")
async def confirm_delete(filename: str, ctx: Context) -> Text:
    """Ask in the middle of a task."""
    answer = await ctx.elicit(f"Delete {filename}?", form(confirm={"type": "boolean"}))
    return Text(f"{filename}: {answer.action}")


@server.tool(task="optional")
async def multi_input(ctx: Context) -> Text:
    """Ask two things at once in the middle of a task."""
    first, second = await asyncio.gather(
        ctx.elicit("Who?", NAME), ctx.elicit("Sure?", form(confirm={"type": "boolean"}))
    )
    return Text(f"{first.action} {second.action}")


@server.tool(task="required", task_from="become_task")
async def test_tool_with_task(ctx: Context) -> Text:
    """Ask in the call itself, and become a task afterwards."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    await ctx.become_task()
    return Text(f"done for {(answer.value or {}).get('name', 'nobody')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=3000)
    server.run_http(port=parser.parse_args().port)
