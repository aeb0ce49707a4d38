"""Reads `[models]` and checks `[host]`."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.protocols.patterns import FEATURE_SETS, PatternError, compile_pattern

from .model_settings import HostSettings, ModelSettings
from .names import why_bad_url
from .problems import KeyPath, Section
from .shape import build


def read_model(table: Mapping[str, object], name: str, section: Section) -> ModelSettings:
    """Read one model."""
    model = build(ModelSettings, table, section)
    if model.kind == "scripted":
        if model.script is None:
            section.add("script", f"the scripted model `{name}` has no `script`", 'add script = "answers.json"')
    elif not model.model:
        section.add("model", f"the model `{name}` does not name a model", 'add model = "…", as the endpoint has it')
    if model.url is not None and (why := why_bad_url(model.url)):
        section.add("url", f"the url of the model `{name}` {why}", "write it as https://host/v1")
    return model


def check_host(host: HostSettings, models: Mapping[str, ModelSettings], section: Section) -> None:
    """Report names of models that do not exist, and routes that are no patterns."""
    inference = host.inference
    named: dict[KeyPath, str | None] = {("model",): host.model, ("inference", "default"): inference.default}
    named |= {("inference", "routes", route): name for route, name in inference.routes.items()}
    named |= {("inference", "pins", pin): name for pin, name in inference.pins.items()}
    for at, name in named.items():
        if name is not None and name not in models:
            others = ", ".join(sorted(models)) or "none yet"
            section.add(at, f"there is no model `{name}`", f"add [models.{name}], or name one that exists ({others})")
    for route in inference.routes:
        try:
            compile_pattern(route.rpartition("/")[2], FEATURE_SETS)
        except PatternError as why:
            message = f"`{route}` is no pattern of feature sets: {why}"
            section.add(("inference", "routes", route), message, "correct it")
