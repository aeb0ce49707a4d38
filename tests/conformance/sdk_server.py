"""The fixture that the official conformance suite asks for, written with the official SDK.

It stands behind the hub, so that what the hub must carry was not written by the same hands. Names, texts and schemas
are the suite's own; every one of them is looked for by a scenario. It asks in the way of whichever era it is spoken to
in, so that it can stand behind the hub for clients of the other one.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import warnings
from typing import Annotated, Any

from mcp.server import ServerRequestContext
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
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

QUESTION_KEY = "dev.interlock.server/questionKey"

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


# Asking


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
async def test_sampling(prompt: str, ctx: Context) -> str | InputRequiredResult:
    """Tests server-initiated sampling."""
    got = await inquire(ctx, text=model(prompt))
    return got if isinstance(got, InputRequiredResult) else f"LLM response: {written(got['text'])}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str | InputRequiredResult:
    """Tests server-initiated elicitation."""
    return await filled(ctx, message, Person, "User response")


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str | InputRequiredResult:
    """Tests elicitation with default values for all primitive types."""
    return await filled(ctx, "Please provide user information", Defaults, "Elicitation completed")


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str | InputRequiredResult:
    """Tests elicitation with every kind of choice."""
    return await filled(ctx, "Please select values", Choices, "Elicitation completed")


@server.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client that declares sampling."""
    if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs the sampling capability", needed)
    return "Client declared sampling capability."


@server.tool()
async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks in mid-way, after a first sign of life."""
    await ctx.report_progress(1, 2)
    return await greet(ctx)


@server.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name."""
    return await greet(ctx)


@server.tool()
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """Asks the model."""
    got = await inquire(ctx, capital_question=model("What is the capital of France?"))
    return got if isinstance(got, InputRequiredResult) else f"Model said: {written(got['capital_question'])}"


@server.tool()
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Asks for the roots."""
    got = await inquire(ctx, client_roots=ListRootsRequest())
    if isinstance(got, InputRequiredResult):
        return got
    answer = got["client_roots"]
    return "Roots: " + ", ".join(str(root.uri) for root in getattr(answer, "roots", ()))


@server.tool()
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """Asks for a confirmation, with a state that must come back as it was."""
    got = await inquire(ctx, "asked", confirm=form("Please confirm", ok="boolean"))
    return got if isinstance(got, InputRequiredResult) else "state-ok: confirmed"


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
    got = await inquire(ctx, "asked", **questions)
    return got if isinstance(got, InputRequiredResult) else "All inputs received."


@server.tool()
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Asks twice, one after the other; in the stateless era the first answer travels in the state."""
    state = (ctx.request_state or "") if modern(ctx) else ""
    if not state.startswith("second:"):
        got = await inquire(ctx, "first", step1=form("Step 1: What is your name?", name="string"))
        if isinstance(got, InputRequiredResult):
            return got
        state = f"second:{field(got['step1'], 'name')}"
    got = await inquire(ctx, state, step2=form("Step 2: What is your favorite color?", color="string"))
    if isinstance(got, InputRequiredResult):
        return got
    return f"{state.removeprefix('second:')} likes {field(got['step2'], 'color')}."


@server.tool()
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Asks only what the client says it answers."""
    can = ctx.client_capabilities
    questions: dict[str, InputRequest] = {}
    if can is not None and can.sampling is not None:
        questions["sample"] = model("Say hello")
    if can is not None and can.elicitation is not None:
        questions["ask"] = form("What is your name?", name="string")
    got = await inquire(ctx, None, **questions)
    return got if isinstance(got, InputRequiredResult) else "done"


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
    await (ctx.notify_tools_changed() if modern(ctx) else ctx.session.send_tool_list_changed())
    return "tool list changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Changes the list of prompts: what was not there is, and the other way round."""
    if any(prompt.name == "test_dynamic_prompt" for prompt in await server.list_prompts()):
        server.remove_prompt("test_dynamic_prompt")
    else:
        server.add_prompt(Prompt.from_function(dynamic, name="test_dynamic_prompt"))
    await (ctx.notify_prompts_changed() if modern(ctx) else ctx.session.send_prompt_list_changed())
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
    got = await inquire(ctx, user_context=form("What context should the prompt use?", context="string"))
    if isinstance(got, InputRequiredResult):
        return got
    return f"Use the following context: {field(got['user_context'], 'context')}"


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    """Suggestions for whatever argument."""
    return Completion(values=[word for word in ("paris", "park", "party") if word.startswith(argument.value)])


# Methods that the SDK's server has no decorator for


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


def modern(ctx: Context) -> bool:
    """Whether the stateless era is spoken."""
    return ctx.protocol_version is not None and ctx.protocol_version >= "2026"


async def inquire(
    ctx: Context, state: str | None = None, **questions: InputRequest
) -> dict[str, InputResponse] | InputRequiredResult:
    """The answers to questions that are asked together; or what must be returned to get them, in the stateless era."""
    if not modern(ctx):
        answers = await asyncio.gather(*(ask(ctx, key, question) for key, question in questions.items()))
        return dict(zip(questions, answers, strict=True))
    given = ctx.input_responses or {}
    if all(key in given for key in questions) and (state is None or ctx.request_state == state):
        return dict(given)
    return InputRequiredResult(input_requests=questions, request_state=state)


async def ask(ctx: Context, key: str, question: InputRequest) -> InputResponse:
    """Ask in mid-call, as the handshake era does. The hub gives the question its key for a client of the new era."""
    params: Any = question.params
    answer: InputResponse
    if isinstance(question, ListRootsRequest):
        answer = await ctx.session.list_roots()
    elif isinstance(question, CreateMessageRequest):
        answer = await ctx.session.create_message(
            params.messages, max_tokens=params.max_tokens, related_request_id=ctx.request_id
        )
    else:
        named = params.model_copy(update={"meta": {QUESTION_KEY: key}})
        about = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(ElicitRequest(params=named), ElicitResult, metadata=about)
    return answer


async def filled(ctx: Context, message: str, form: type[BaseModel], told: str) -> str | InputRequiredResult:
    """A form, and how the suite wants its answer told."""
    params = ElicitRequestFormParams(message=message, requested_schema=render_elicitation_schema(form))
    got = await inquire(ctx, form=ElicitRequest(params=params))
    if isinstance(got, InputRequiredResult):
        return got
    answer = got["form"]
    assert isinstance(answer, ElicitResult)
    content = form.model_validate(answer.content).model_dump() if answer.action == "accept" else {}
    return f"{told}: action={answer.action}, content={content}"


def written(answer: InputResponse) -> str:
    """The text of a model."""
    return str(getattr(getattr(answer, "content", None), "text", ""))


def field(answer: InputResponse | None, name: str) -> str | None:
    """One field of a form that was filled in."""
    if isinstance(answer, ElicitResult) and answer.content and name in answer.content:
        return str(answer.content[name])
    return None


async def greet(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name, and use it."""
    got = await inquire(ctx, user_name=form("What is your name?", name="string"))
    return got if isinstance(got, InputRequiredResult) else f"Hello, {field(got['user_name'], 'name')}!"


def embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    """A resource inside another answer."""
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=3000)
    server.run("streamable-http", port=parser.parse_args().port)
