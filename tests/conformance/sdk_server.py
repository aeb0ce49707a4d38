"""The fixture that the official conformance suite asks for, written with the official SDK.

It stands behind the hub, so that what the hub must carry was not written by the same hands. Names, texts and schemas
are the suite's own; every one of them is looked for by a scenario.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import warnings
from typing import Annotated, Any

from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field, JsonValue

warnings.simplefilter("ignore", MCPDeprecationWarning)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PAUSE_S = 0.05
TITLED: list[JsonValue] = [{"const": word.lower(), "title": f"{word} Option"} for word in ("First", "Second", "Third")]
OPTIONS: list[JsonValue] = ["option1", "option2", "option3"]


def json_schema_2020_12_tool() -> str:
    """Tool with JSON Schema 2020-12 features."""
    return "json_schema_2020_12_tool"


HAND_WRITTEN = Tool.from_function(json_schema_2020_12_tool).model_copy(
    update={
        "parameters": {
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
    }
)

server = MCPServer("sdk-conformance", version="1.0.0", tools=[HAND_WRITTEN], log_level="WARNING")


# Content


@server.tool()
def test_simple_text() -> str:
    """Tests simple text content response."""
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> ImageContent:
    """Tests image content response."""
    return ImageContent(data=PIXEL, mime_type="image/png")


@server.tool()
def test_audio_content() -> AudioContent:
    """Tests audio content response."""
    return AudioContent(data=SILENCE, mime_type="audio/wav")


@server.tool()
def test_embedded_resource() -> EmbeddedResource:
    """Tests embedded resource content response."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@server.tool()
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Tests response with multiple content types."""
    return [
        TextContent(text="Multiple content types test:"),
        ImageContent(data=PIXEL, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@server.tool()
def test_error_handling() -> str:
    """Tests error response handling."""
    raise ToolError("This tool intentionally returns an error for testing")


# Telling


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Tests tool that emits log messages during execution."""
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.log("info", said)
        await asyncio.sleep(PAUSE_S)
    return "Tool with logging executed successfully"


@server.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Logs a message, which a client that did not ask for any must not get."""
    await ctx.log("info", "This message must not reach a client that set no log level")
    return "logged"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Tests tool that reports progress notifications."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(PAUSE_S)
    return "done"


# Asking in mid-call, as the handshake era does


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    name: str = Field("John Doe", description="User name")
    age: int = Field(30, description="User age")
    score: float = Field(95.5, description="User score")
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(True, description="Verification status")


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": OPTIONS})
    titledSingle: str = Field(json_schema_extra={"oneOf": TITLED})
    legacyEnum: str = Field(
        json_schema_extra={
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        }
    )
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": OPTIONS}})
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": TITLED}})


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Tests server-initiated sampling."""
    asked = [SamplingMessage(role="user", content=TextContent(text=prompt))]
    answer = await ctx.session.create_message(asked, max_tokens=100, related_request_id=ctx.request_id)
    return f"LLM response: {answer.content.text if isinstance(answer.content, TextContent) else ''}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Tests server-initiated elicitation."""
    return "User response: " + outcome(await ctx.elicit(message, Person))


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Tests elicitation with default values for all primitive types."""
    return "Elicitation completed: " + outcome(await ctx.elicit("Please provide user information", Defaults))


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Tests elicitation with every kind of choice."""
    return "Elicitation completed: " + outcome(await ctx.elicit("Please select values", Choices))


@server.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client that declares sampling."""
    if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs the sampling capability", needed)
    return "Client declared sampling capability."


# Asking with a result, as the stateless era does


@server.tool()
async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks in mid-way, after a first sign of life."""
    await ctx.report_progress(1, 2)
    return greet(ctx)


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name."""
    return greet(ctx)


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """Asks the model."""
    if (answer := answered(ctx, "capital_question")) is None:
        return InputRequiredResult(input_requests={"capital_question": model("What is the capital of France?")})
    return f"Model said: {getattr(getattr(answer, 'content', None), 'text', '')}"


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Asks for the roots."""
    answer = answered(ctx, "client_roots")
    if not isinstance(answer, ListRootsResult):
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return "Roots: " + ", ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """Asks for a confirmation, with a state that must come back as it was."""
    if answered(ctx, "confirm") is None or ctx.request_state != "asked":
        confirm = form("Please confirm", ok="boolean")
        return InputRequiredResult(input_requests={"confirm": confirm}, request_state="asked")
    return "state-ok: confirmed"


@server.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    """Asks for a confirmation; the SDK itself refuses a state that it did not write."""
    return await test_input_required_result_request_state(ctx)


@server.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    """Asks three things at once."""
    questions: dict[str, InputRequest] = {
        "user_name": form("What is your name?", name="string"),
        "greeting": model("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if any(answered(ctx, key) is None for key in questions):
        return InputRequiredResult(input_requests=questions, request_state="asked")
    return "All inputs received."


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Asks twice, one after the other; the first answer travels in the state."""
    state = ctx.request_state or ""
    name = state.removeprefix("second:") if state.startswith("second:") else field(answered(ctx, "step1"), "name")
    if name is None:
        asked = form("Step 1: What is your name?", name="string")
        return InputRequiredResult(input_requests={"step1": asked}, request_state="first")
    if (color := field(answered(ctx, "step2"), "color")) is None:
        asked = form("Step 2: What is your favorite color?", color="string")
        return InputRequiredResult(input_requests={"step2": asked}, request_state=f"second:{name}")
    return f"{name} likes {color}."


@server.tool()
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Asks only what the client says it answers."""
    can = ctx.client_capabilities
    questions: dict[str, InputRequest] = {}
    if can is not None and can.sampling is not None:
        questions["sample"] = model("Say hello")
    if can is not None and can.elicitation is not None:
        questions["ask"] = form("What is your name?", name="string")
    if any(answered(ctx, key) is None for key in questions):
        return InputRequiredResult(input_requests=questions)
    return "done"


# Headers and changes


@server.tool()
def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "<none>",  # noqa: PT028
) -> str:
    """Tests parameters that are mirrored into headers."""
    return f"region={region}"


def dynamic() -> str:
    """Comes and goes."""
    return "dynamic"


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Changes the list of tools: what was not there is, and the other way round."""
    if any(tool.name == "test_dynamic_tool" for tool in await server.list_tools()):
        server.remove_tool("test_dynamic_tool")
    else:
        server.add_tool(dynamic, name="test_dynamic_tool")
    await ctx.notify_tools_changed()
    return "tool list changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Changes the list of prompts: what was not there is, and the other way round."""
    if any(prompt.name == "test_dynamic_prompt" for prompt in await server.list_prompts()):
        server.remove_prompt("test_dynamic_prompt")
    else:
        server.add_prompt(Prompt.from_function(dynamic, name="test_dynamic_prompt"))
    await ctx.notify_prompts_changed()
    return "prompt list changed"


# Resources


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A static text resource for testing."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """A static binary resource for testing."""
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    """A resource template with parameter substitution."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A resource that can be subscribed to for updates."""
    return "Watched resource content"


# Prompts


@server.prompt()
def test_simple_prompt() -> str:
    """A simple prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with required arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803
    """A prompt that includes an embedded resource."""
    contents = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [UserMessage(contents), UserMessage("Please process the embedded resource above.")]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt that includes image content."""
    return [UserMessage(ImageContent(data=PIXEL, mime_type="image/png")), UserMessage("Please analyze the image.")]


@server.prompt()
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """A prompt that asks first."""
    said = field(answered(ctx, "user_context"), "context")
    if said is None:
        asked = form("What context should the prompt use?", context="string")
        return InputRequiredResult(input_requests={"user_context": asked})
    return f"Use the following context: {said}"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    """Suggestions for whatever argument."""
    return Completion(values=[word for word in ("paris", "park", "party") if word.startswith(argument.value)])


# What the SDK's server has no decorator for


async def done(ctx: ServerRequestContext[Any], params: object) -> EmptyResult:
    """Nothing to do, and that is well."""
    return EmptyResult()


for method, params in (
    ("logging/setLevel", SetLevelRequestParams),
    ("resources/subscribe", SubscribeRequestParams),
    ("resources/unsubscribe", UnsubscribeRequestParams),
):
    server._lowlevel_server.add_request_handler(method, params, done)


# Questions and answers


def form(message: str, **kinds: str) -> ElicitRequest:
    """A question with these fields, all required."""
    properties = {name: {"type": kind} for name, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": list(kinds)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def model(prompt: str) -> CreateMessageRequest:
    """A question to the client's model."""
    said = SamplingMessage(role="user", content=TextContent(text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[said], max_tokens=100))


def answered(ctx: Context, key: str) -> InputResponse | None:
    """What the client said to a question of an earlier round."""
    return (ctx.input_responses or {}).get(key)


def field(answer: InputResponse | None, name: str) -> str | None:
    """One field of a form that was filled in."""
    if isinstance(answer, ElicitResult) and answer.content and name in answer.content:
        return str(answer.content[name])
    return None


def greet(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name, and use it."""
    if (name := field(answered(ctx, "user_name"), "name")) is None:
        return InputRequiredResult(input_requests={"user_name": form("What is your name?", name="string")})
    return f"Hello, {name}!"


def outcome(answer: Any) -> str:
    """How the suite wants an elicitation told."""
    content = answer.data.model_dump() if answer.action == "accept" else {}
    return f"action={answer.action}, content={content}"


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    """A resource inside another answer."""
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=3000)
    server.run("streamable-http", port=parser.parse_args().port)
