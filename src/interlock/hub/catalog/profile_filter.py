"""A profile of the configuration, as it applies to the catalog."""

from __future__ import annotations

import msgspec

from interlock.config.settings import ProfileSettings
from interlock.hub.catalog.items import Item
from interlock.hub.catalog.offer import QuarantinedItem
from interlock.protocols.patterns import PatternSet


class ProfileFilter:
    """Applies a profile to items: selects, renames and describes them."""

    def __init__(self, profile: ProfileSettings) -> None:
        self._patterns = PatternSet(profile.tools, profile.deny)
        self._rename = profile.rename
        self._describe = profile.describe
        self._renamed = {new: old for old, new in profile.rename.items()}

    def sees(self, item: Item | QuarantinedItem) -> bool:
        """Whether the profile includes a tool or a prompt. Its patterns apply to exposed names."""
        return self.includes(item.exposed)

    def includes(self, exposed: str) -> bool:
        """Whether the profile includes tools and prompts with this exposed name."""
        return self._patterns.allows(exposed)

    def original(self, exposed: str) -> str:
        """The exposed name of a name in this profile."""
        return self._renamed.get(exposed, exposed)

    def name(self, item: Item) -> str:
        """The name of an item in this profile."""
        return self._rename.get(item.exposed, item.exposed)

    def render(self, item: Item) -> bytes:
        """An item's definition in this profile."""
        name = self._rename.get(item.exposed)
        text = self._describe.get(item.exposed)
        if name is None and text is None:
            return item.full
        fields: dict[str, object] = dict(msgspec.json.decode(item.full, type=dict[str, msgspec.Raw]))
        if name is not None:
            fields["name"] = name
        if text is not None:
            fields["description"] = text
        return msgspec.json.encode(fields)
