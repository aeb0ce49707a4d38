"""Reads `[models]` and `[host]`, and fills in the variables and secrets of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from interlock.protocols.patterns import FEATURE_SETS, PatternError, compile_pattern

from .expand import Expanded
from .model_settings import Host, Model
from .names import why_bad_url
from .problems import KeyPath, Report
from .shape import build

Expand = Callable[[str], Expanded]


def read_model(table: Mapping[str, object], name: str, at: KeyPath, report: Report) -> Model:
    """Read one model."""
    model = build(Model, table, at, report)
    if model.kind == "scripted":
        if model.script is None:
            report.add((*at, "script"), f"the scripted model `{name}` has no `script`", 'add script = "answers.json"')
    elif not model.model:
        report.add(
            (*at, "model"), f"the model `{name}` does not name a model", 'add model = "…", as the endpoint has it'
        )
    if model.url is not None and (why := why_bad_url(model.url)):
        report.add((*at, "url"), f"the url of the model `{name}` {why}", "write it as https://host/v1")
    return model


def check_host(host: Host, models: Mapping[str, Model], report: Report) -> None:
    """Report names of models that do not exist, and routes that are no patterns."""
    inference = host.inference
    named: list[tuple[KeyPath, str | None]] = [(("host", "model"), host.model)]
    named.append((("host", "inference", "default"), inference.default))
    named += [(("host", "inference", "routes", route), name) for route, name in inference.routes.items()]
    named += [(("host", "inference", "pins", pin), name) for pin, name in inference.pins.items()]
    for at, name in named:
        if name is not None and name not in models:
            others = ", ".join(sorted(models)) or "none yet"
            report.add(at, f"there is no model `{name}`", f"add [models.{name}], or name one that exists ({others})")
    for route in inference.routes:
        try:
            compile_pattern(route.rpartition("/")[2], FEATURE_SETS)
        except PatternError as why:
            at = ("host", "inference", "routes", route)
            report.add(at, f"`{route}` is no pattern of feature sets: {why}", "correct it")


def fill_models(
    models: Mapping[str, Model], folder: Path, expand: Expand, wrong: Callable[[KeyPath, str, Expanded], None]
) -> dict[str, Model]:
    """The models with their variables and secrets. One that lacks a value is left out, and reported by `wrong`."""
    filled: dict[str, Model] = {}
    for name, model in models.items():
        values: dict[str, str] = {}
        whole = True
        for key, text in (("url", model.url), ("key", model.key)):
            if text is None or "${" not in text:
                continue
            found = expand(text)
            if found.missing or found.unreadable or found.foreign or found.failed:
                wrong(("models", name, key), f"model `{name}`", found)
                whole = False
            values[key] = found.text
        if whole:
            script = None if model.script is None else str(folder / Path(model.script).expanduser())
            filled[name] = replace(model, script=script, **values)
    return filled
