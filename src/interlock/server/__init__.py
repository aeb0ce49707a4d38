"""Writing servers: typed Python functions become tools, resources and prompts in every revision of MCP."""

from interlock.server.callers import Anyone
from interlock.server.checks import ArgumentsCheck
from interlock.server.client_requests import Root, Sampled
from interlock.server.content import (
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
from interlock.server.context import Context
from interlock.server.forms import Answer
from interlock.server.prompts import Prompt
from interlock.server.resources import Resource
from interlock.server.server import Server
from interlock.server.tasks import TaskLimits
from interlock.server.tools import Tool
from interlock.transports.call_parking import ParkingLimits as ParkingLimits

__all__ = [
    "Annotations",
    "Answer",
    "Anyone",
    "ArgumentsCheck",
    "Audio",
    "Completion",
    "Content",
    "Context",
    "Embedded",
    "Icon",
    "Image",
    "Message",
    "NotFound",
    "ParkingLimits",
    "Prompt",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "Root",
    "Sampled",
    "Server",
    "TaskLimits",
    "Text",
    "Tool",
    "ToolError",
    "ToolHints",
    "ToolResult",
]
