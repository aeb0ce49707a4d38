"""The configured models. Each is made at its first use, and again after its settings have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from interlock.config.model_settings import ModelSettings
from interlock.host.models.model import ConfiguredModel
from interlock.process.task_set import TaskSet
from interlock.transports.resolving import Resolver
from interlock.wire.errors import Fault


class Models:
    """All models of one hub."""

    def __init__(self, settings: Callable[[], Mapping[str, ModelSettings]], resolver: Resolver) -> None:
        self._settings = settings
        self._resolver = resolver
        self._made: dict[str, tuple[ModelSettings, ConfiguredModel]] = {}
        self._closing = TaskSet()

    @property
    def names(self) -> tuple[str, ...]:
        """The models of the configuration."""
        return tuple(self._settings())

    def settings(self, name: str) -> ModelSettings:
        """The settings of a model. Raises NOT_FOUND."""
        found = self._settings().get(name)
        if found is None:
            known = ", ".join(sorted(self._settings())) or "none"
            message = f"there is no model {name[:100]!r} in [models] ({known})"
            raise Fault("NOT_FOUND", message, hint=f"add [models.{name[:40]}] to interlock.toml")
        return found

    def get(self, name: str) -> ConfiguredModel:
        """A model by its configured name. Raises a `Fault` if it does not exist or cannot be made."""
        settings = self.settings(name)
        known = self._made.get(name)
        if known is not None and known[0] == settings:
            return known[1]
        if known is not None:
            self._retire(known[1])
        model = _make(settings, self._resolver)
        self._made[name] = (settings, model)
        return model

    async def close(self) -> None:
        """Close the connections of all models."""
        made, self._made = self._made, {}
        for _, model in made.values():
            await model.close()
        await self._closing.close()

    def _retire(self, model: ConfiguredModel) -> None:
        """Close a model whose settings have changed, after its running answers."""

        async def retire() -> None:
            await model.drain()
            await model.close()

        self._closing.begin(retire())


def _make(settings: ModelSettings, resolver: Resolver) -> ConfiguredModel:
    if settings.kind == "anthropic":
        from interlock.host.models.anthropic import AnthropicModel

        return AnthropicModel(settings, resolver)
    if settings.kind == "openai":
        from interlock.host.models.openai import OpenAiModel

        return OpenAiModel(settings, resolver)
    from interlock.host.models.scripted import ScriptedModel

    return ScriptedModel.of(settings)
