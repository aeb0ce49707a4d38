"""Writing servers: typed Python functions become tools, resources and prompts in every revision of MCP."""

from interlock.protocols.mcpl.channels import (
    Acknowledge,
    Channel,
    ChannelAuthor,
    IncomingMessage,
    OutgoingChunk,
    OutgoingComplete,
    Publish,
    Typing,
)
from interlock.protocols.mcpl.channels import ChannelsClose as CloseChannel
from interlock.protocols.mcpl.channels import ChannelsOpen as OpenChannel
from interlock.protocols.mcpl.checkpoints import StateReport
from interlock.protocols.mcpl.hooks import AfterInference, AfterInferenceResult, BeforeInference, Injection, Lifecycle
from interlock.protocols.mcpl.inference import InferenceMessage, InferenceResult, ModelInfo
from interlock.protocols.mcpl.patches import Operation
from interlock.protocols.mcpl.scopes import ElevateResult, Scope
from interlock.server.definitions.checks import ArgumentsCheck
from interlock.server.definitions.prompts import Prompt
from interlock.server.definitions.resources import Resource
from interlock.server.definitions.tools import Tool
from interlock.server.handlers.tasks import TaskLimits
from interlock.server.requests.callers import Anyone
from interlock.server.requests.client_requests import Root, Sampled
from interlock.server.requests.content import (
    Annotations,
    Audio,
    Completion,
    Content,
    Embedded,
    Icon,
    Image,
    Message,
    NotFound,
    ResourceContents,
    ResourceLink,
    Text,
    ToolError,
    ToolHints,
    ToolResult,
)
from interlock.server.requests.context import Context
from interlock.server.requests.forms import Answer
from interlock.server.server import Server
from interlock.transports.requests.call_parking import ParkingLimits as ParkingLimits

__all__ = [
    "Acknowledge",
    "AfterInference",
    "AfterInferenceResult",
    "Annotations",
    "Answer",
    "Anyone",
    "ArgumentsCheck",
    "Audio",
    "BeforeInference",
    "Channel",
    "ChannelAuthor",
    "CloseChannel",
    "Completion",
    "Content",
    "Context",
    "ElevateResult",
    "Embedded",
    "Icon",
    "Image",
    "IncomingMessage",
    "InferenceMessage",
    "InferenceResult",
    "Injection",
    "Lifecycle",
    "Message",
    "ModelInfo",
    "NotFound",
    "OpenChannel",
    "Operation",
    "OutgoingChunk",
    "OutgoingComplete",
    "ParkingLimits",
    "Prompt",
    "Publish",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Sampled",
    "Scope",
    "Server",
    "StateReport",
    "TaskLimits",
    "Text",
    "Tool",
    "ToolError",
    "ToolHints",
    "ToolResult",
    "Typing",
]
