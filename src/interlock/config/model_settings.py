"""The settings of `[models]` and `[host]`: the models of this hub, and the conversations that it holds with them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

ModelKind = Literal["openai", "anthropic", "scripted"]
Price = Annotated[float, Meta(ge=0, le=1_000_000)]
Wait = Annotated[float, Meta(gt=0, le=3600)]
Tokens = Annotated[int, Meta(ge=1, le=100_000_000)]
NO_MODEL: Final = "no model is configured"
ADD_MODEL: Final = 'add [models.NAME] with kind, model and key = "${secret:NAME}" to interlock.toml'


class ModelSettings(msgspec.Struct, frozen=True):
    """`[models.NAME]`: a model that conversations and servers may use. `url` and `key` may use variables and, in your
    own file, secrets: `key = "${secret:openai}"`."""

    kind: ModelKind = "openai"
    """The API of the endpoint. `openai`: chat completions, which most local and hosted endpoints speak. `anthropic`:
    messages. `scripted`: no endpoint, answers from a file, for demonstrations and tests."""
    url: str | None = None
    """The address of the API, such as `http://127.0.0.1:11434/v1`; unset: that of OpenAI or Anthropic."""
    model: str = ""
    """The model's name at the endpoint."""
    key: str | None = None
    """The key for the endpoint; local ones often need none."""
    script: str | None = None
    """The file of a `scripted` model, relative to this file."""
    vendor: str | None = None
    """The vendor that servers are told; unset: the kind."""
    capabilities: tuple[str, ...] = ("tools",)
    """Abilities of the model that servers are told of (`vision`, `audio`, `tools`). Without `tools` it is offered none,
    without the others it gets no images and no sounds."""
    context_window: Tokens = 128_000
    """Tokens of a whole prompt. The oldest turns of a longer conversation are left out."""
    max_tokens: Tokens = 4096
    """Tokens of one answer."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """The sampling temperature; unset: the endpoint's own."""
    price_input: Price = 0.0
    """The price of a million tokens of prompts, for `interlock usage`. All prices are in one currency of yours."""
    price_output: Price = 0.0
    """The price of a million tokens of answers."""
    idle_s: Wait = 60.0
    """How long the endpoint may send nothing before the hub gives up. Comments and pings count for ten times as
    long."""
    answer_s: Annotated[float, Meta(gt=0, le=86_400)] = 3600.0
    """How long one answer may take in all."""
    wait_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    """How long one answer may wait, in all, for an endpoint that is busy or asks to try again later."""


class InferenceSettings(msgspec.Struct, frozen=True):
    """`[host.inference]`: inferences that servers ask for by themselves (`inference/request` of MCPL). A server may ask
    only in a feature set that a person enabled with `interlock features`."""

    default: str | None = None
    """The model for feature sets that no route names; unset: they are refused."""
    routes: dict[str, str] = {}
    """Models by feature set (`"memory.consolidation"`) or pattern (`"memory.*"`), also of one server
    (`"notes/summary.*"`). A name goes before a pattern, a longer pattern before a shorter one."""
    pins: dict[str, str] = {}
    """Models by conversation. A pin goes before every route."""
    sampling: Literal["off", "allow"] = "off"
    """Where no model is routed to a feature set: `allow` has the client's own model answer (MCP sampling), at a client
    that declared it, of an agent for which the feature set is on. `[servers.ID.requests]` holds, too."""
    max_tokens: Tokens = 2048
    """Tokens of one answer, whatever the server asks for."""
    requests_per_hour: Annotated[int, Meta(ge=0, le=2**31)] | None = 120
    """Inferences of one server in any hour."""
    tokens_per_hour: Annotated[int, Meta(ge=0, le=2**40)] | None = 500_000
    """Tokens of the inferences of one server in any hour, prompts and answers."""
    at_once: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Inferences of one server at a time."""


class HostSettings(msgspec.Struct, frozen=True):
    """`[host]`: conversations that this hub holds with a model, as `interlock chat` does."""

    model: str | None = None
    """The model of new conversations; unset: the only one in `[models]`."""
    system: str = ""
    """Your instructions for the model, at the beginning of every new conversation."""
    rounds: Annotated[int, Meta(ge=1, le=1000)] = 32
    """How often the model may call tools in one turn."""
    approval_s: Annotated[float, Meta(ge=0, le=86_400)] = 3600.0
    """How long a turn waits for a person where a call needs approval. After that the model is told to go on without."""
    conversations_per_agent: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Conversations of one agent that are kept. The one unused for longest gives way."""
    keep_days: Annotated[int, Meta(ge=1, le=3650)] = 90
    """How long a conversation is kept after its last turn, and how long inferences are counted by `interlock usage`."""
    inference: InferenceSettings = InferenceSettings()
