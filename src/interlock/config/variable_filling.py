"""Fills variables and secrets into loaded settings, and reports those that cannot be filled in.

Only the operator's own file may use secrets. No message quotes a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from .expand import ExpandedValue, all_variables, expand
from .hub_secret import BadHubSecret, configured_secret
from .model_settings import ADD_MODEL, NO_MODEL, ModelSettings
from .names import why_bad_url
from .problems import KeyPath, Problem, ProblemReport, Section
from .secret_sources import SecretSources
from .sections import is_one_line
from .settings import Config, ServerOAuthSettings, ServerSettings


class VariableFilling:
    """The variables of one load, and the files that may use secrets."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._secrets: dict[str, SecretSources] = {}
        """The sources of secrets, by file."""

    def allow_secrets(self, file: Path, home: Path) -> None:
        """Let the operator's own file use secrets."""
        self._secrets[str(file)] = SecretSources(home, file.parent, self._env)

    def with_store(self, config: Config, hub: Section) -> Config:
        """Fill in the address of the store: a password in it comes from elsewhere."""
        written = config.hub.store
        if written is None or "${" not in written:
            return config
        filled = self._filled_setting("store", written, hub)
        return config if filled is None else replace(config, hub=replace(config.hub, store=filled))

    def with_sealing_key(self, config: Config, hub: Section, *, own: bool) -> Config:
        """Fill in the sealing key. It is never in the file itself, and no project's file can choose it."""
        key = "sealing_key"
        written = config.hub.sealing_key
        if written is None:
            return config
        if not own:
            hub.add(key, "`sealing_key` may be set only in your own interlock.toml", "remove it from this file")
            return config
        if "${" not in written:
            message = "`sealing_key` has the key itself, which everyone who reads this file would know"
            hint = "keep it elsewhere: ${file:PATH}, ${env:NAME}, ${secret:NAME}, ${cmd:…} or ${op://…}"
            hub.add(key, message, hint)
            return config
        filled = self._filled_setting(key, written, hub)
        if filled is None:
            return config
        try:
            configured_secret(filled)
        except BadHubSecret as cause:
            hub.add(key, cause.message, cause.hint)
        return replace(config, hub=replace(config.hub, sealing_key=filled))

    def with_models(self, config: Config, report: ProblemReport) -> Config:
        """Fill in the addresses and keys of models. One without its key is left out; the hub runs without it."""
        models: dict[str, ModelSettings] = {}
        for name, model in config.models.items():
            written = {key: text for key in ("url", "key") if "${" in (text := getattr(model, key) or "")}
            results = {key: self._expand(text, report.file) for key, text in written.items()}
            for key, result in results.items():
                if not result.complete:
                    message, hint = _why_unfilled(f"model `{name}`", result)
                    report.add(("models", name, key), message, hint, fatal=False)
            if all(result.complete for result in results.values()):
                script = None if model.script is None else str(report.file.parent / Path(model.script).expanduser())
                models[name] = replace(model, script=script, **{key: result.text for key, result in results.items()})
        for name in config.channels if not models else ():
            report.add(("channels", name), f"[channels.{name}] begins no turns: {NO_MODEL}", ADD_MODEL, fatal=False)
        return replace(config, models=models)

    def server(self, name: str, server: ServerSettings, section: Section) -> tuple[ServerSettings, list[Problem]]:
        """Fill in the variables of a server. If one is missing, `problem` is set and the server is not started."""
        problems: list[Problem] = []
        if not server.enabled:
            return server, problems

        def report(at: KeyPath, message: str, hint: str) -> None:
            line = section.line(at)
            problems.append(Problem(server.source, line, message, hint, server=name, fatal=False))

        def fill(text: str, *at: str | int) -> str:
            result = self._expand(text, server.source)
            if not result.complete:
                report(at, *_why_unfilled(f"server `{name}`", result))
            return result.text

        filled = replace(
            server,
            command=tuple(fill(word, "command") for word in server.command),
            env={key: fill(value, "env", key) for key, value in server.env.items()},
            headers={key: fill(value, "headers", key) for key, value in server.headers.items()},
            url=fill(server.url, "url") if server.url is not None else None,
            cwd=fill(server.cwd, "cwd") if server.cwd is not None else None,
            oauth=_filled_oauth(server.oauth, fill),
        )
        for at, message in () if problems else _wrong_values(name, server, filled):
            report(at, message, "correct the value of the variable")
        return (replace(filled, problem=server.problem or problems[0]) if problems else filled), problems

    def _filled_setting(self, name: str, written: str, hub: Section) -> str | None:
        """A setting of `[hub]` with its variables filled in; None, with a problem, where one cannot be."""
        result = self._expand(written, hub.report.file)
        if result.complete:
            return result.text
        hub.add(name, *_why_unfilled(f"`{name}`", result))
        return None

    def _expand(self, text: str, file: Path | str) -> ExpandedValue:
        """Fill in the variables of a text in a file."""
        return expand(text, all_variables(self._env), self._secrets.get(str(file)))


def _wrong_values(name: str, written: ServerSettings, filled: ServerSettings) -> Iterator[tuple[KeyPath, str]]:
    """Values that became invalid when their variables were filled in. The messages never quote the values."""
    if filled.url is not None and filled.url != written.url and (why := why_bad_url(filled.url)):
        yield ("url",), f"the url of `{name}` {why} after its variables are filled in"
    for header, value in filled.headers.items():
        if value != written.headers[header] and not is_one_line(value):
            yield ("headers", header), f"the header `{header}` of `{name}` has a line break in its variable"


def _filled_oauth(oauth: ServerOAuthSettings, fill: Callable[..., str]) -> ServerOAuthSettings:
    values = {key: getattr(oauth, key) for key in ("client_id", "client_secret", "private_key", "assertion")}
    filled = {key: fill(value, "oauth", key) for key, value in values.items() if value is not None}
    return replace(oauth, **filled) if filled else oauth


def _why_unfilled(subject: str, result: ExpandedValue) -> tuple[str, str]:
    """Message and hint."""
    if result.foreign:
        message = f"{subject} uses `${{{result.foreign[0]}:…}}`, which only your own interlock.toml may"
        return message, "move the server there, or use a variable: ${env:NAME}"
    if result.failed:
        return f"{subject}: {result.failed[0].message}", result.failed[0].hint
    if not result.missing:
        hint = "write ${NAME}, ${env:NAME} or ${NAME:-default}; a plain ${ is written $${"
        return f"{subject}: `{result.unreadable[0]}` is not a valid variable", hint
    names = " and ".join(f"`{variable}`" for variable in result.missing)
    first = result.missing[0]
    hint = f"export {first}=… and restart the hub (`interlock down`, `interlock up`), or set a default: ${{{first}:-…}}"
    return f"{subject} needs the variable {names}, which is not set", hint
