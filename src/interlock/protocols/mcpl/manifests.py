"""Manifests (MCPL 0.5, Server Manifest Changes) and their canonical digest.

A digest is only a hint that a manifest changed. The host compares the manifests itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeGuard

import msgspec
import rfc8785

from interlock.protocols.mcpl.decoding import LIMITS, Value
from interlock.wire.errors import Fault
from interlock.wire.payload_checks import check_shape

Domain: TypeAlias = Literal["capabilities", "featureSets", "tagOntology"]
Revision: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^sha256:[A-Za-z0-9_-]{43}$")]

MAX_MANIFEST_BYTES: Final = 64 * 1024
"""Bytes of a manifest that gets a digest. 16 KiB take about 2 ms."""


class ManifestChanged(Value, frozen=True, forbid_unknown_fields=True):
    """The params of `mcpl/manifestChanged`: a hint to fetch the manifest, without its content."""

    revision: Revision
    domains: Annotated[tuple[Domain, ...], msgspec.Meta(min_length=1, max_length=3)]


def digest(manifest: object) -> str:
    """The canonical digest of a manifest: `sha256:` and 43 characters. Raises INVALID_PARAMS or TOO_LARGE."""
    return "sha256:" + base64.urlsafe_b64encode(hashlib.sha256(canonical(manifest)).digest()).rstrip(b"=").decode()


def revision_of(manifest: Mapping[str, object]) -> str:
    """The revision of one of the hub's own manifests. For a very large one, it is the digest of its bytes."""
    try:
        return digest(manifest)
    except Fault:
        encoded = hashlib.sha256(msgspec.json.encode(manifest)).digest()
        return "sha256:" + base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def canonical(manifest: object) -> bytes:
    """The hashed bytes: without the root's `revision`, with sorted sets, in the form of RFC 8785."""
    if not isinstance(manifest, Mapping):
        raise Fault("INVALID_PARAMS", "manifest_not_object: a manifest is an object")
    encoded = msgspec.json.encode(manifest)
    if len(encoded) > MAX_MANIFEST_BYTES:
        raise Fault("TOO_LARGE", f"the manifest has {len(encoded)} bytes; the most is {MAX_MANIFEST_BYTES}")
    check_shape(encoded, LIMITS)
    stripped = {name: value for name, value in manifest.items() if name != "revision"}
    for identifier in _identifiers(stripped):
        if not isinstance(identifier, str) or not _IDENTIFIER.match(identifier):
            raise Fault("INVALID_PARAMS", f"identifier_charset: {str(identifier)[:60]!r} is no identifier")
    try:
        return rfc8785.dumps(_doubles(_with_sorted_sets(stripped)))
    except (rfc8785.CanonicalizationError, OverflowError) as cause:
        raise Fault("INVALID_PARAMS", f"the manifest has no canonical form: {cause}") from None


_IDENTIFIER = re.compile(r"[A-Za-z0-9._:*-]+\Z")
_MATCHERS = ("tagsAny", "tagsAll", "tagsNone")


def _sets(manifest: Mapping[str, object]) -> Mapping[str, object]:
    declared = manifest.get("featureSets")
    return declared if isinstance(declared, Mapping) else {}


def _capability_members(manifest: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in manifest.items() if name not in ("version", "revision", "featureSets")}


def _with_sorted_sets(manifest: Mapping[str, object]) -> dict[str, object]:
    declared = manifest.get("featureSets")
    if not isinstance(declared, Mapping):
        return dict(manifest)
    return {**manifest, "featureSets": {name: _sorted_sets_of(found) for name, found in declared.items()}}


def _sorted_sets_of(declaration: object) -> object:
    if not isinstance(declaration, Mapping):
        return declaration
    made = {**declaration, **({"uses": _as_set(declaration["uses"])} if "uses" in declaration else {})}
    ontology = declaration.get("tagOntology")
    if isinstance(ontology, Mapping):
        own = {**ontology, **({"coreTags": _as_set(ontology["coreTags"])} if "coreTags" in ontology else {})}
        tags = ontology.get("tags")
        if isinstance(tags, Mapping):
            own["tags"] = {
                tag: {**definition, "implies": _as_set(definition["implies"])}
                if isinstance(definition, Mapping) and "implies" in definition
                else definition
                for tag, definition in tags.items()
            }
        made["tagOntology"] = own
    return made


def _as_set(value: object) -> object:
    """A list of texts as a sorted set; any other value unchanged."""
    return sorted_set(value) if _all_text(value) else value


def sorted_set(texts: Iterable[str]) -> list[str]:
    """Texts sorted by their UTF-8 bytes, without duplicates."""
    return sorted(set(texts), key=lambda text: text.encode("utf-8", "surrogatepass"))


def _all_text(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _identifiers(manifest: Mapping[str, object]) -> Iterator[object]:
    """Every text in the place of an identifier (MCPL 0.5, Canonical digest)."""
    yield from _member_names(_capability_members(manifest))
    for name, declaration in _sets(manifest).items():
        yield name
        if isinstance(declaration, Mapping):
            yield from _texts(declaration.get("uses"))
            ontology = declaration.get("tagOntology")
            if isinstance(ontology, Mapping):
                yield from _ontology_identifiers(ontology)


def _ontology_identifiers(ontology: Mapping[str, object]) -> Iterator[object]:
    yield from _texts(ontology.get("coreTags"))
    tags = ontology.get("tags")
    for tag, definition in tags.items() if isinstance(tags, Mapping) else ():
        yield tag
        if isinstance(definition, Mapping):
            yield from _texts(definition.get("implies"))
            if isinstance(definition.get("facet"), str):
                yield definition["facet"]
    keyed = ontology.get("keyed")
    for key, definition in keyed.items() if isinstance(keyed, Mapping) else ():
        yield key
        if isinstance(definition, Mapping):
            yield from _texts(definition.get("values"))
    rules = ontology.get("suggestedTreatment")
    for rule in rules if isinstance(rules, list) else ():
        for matcher in _MATCHERS if isinstance(rule, Mapping) else ():
            yield from _texts(rule.get(matcher))


def _member_names(node: Mapping[str, object]) -> Iterator[str]:
    for name, value in node.items():
        yield name
        if isinstance(value, Mapping):
            yield from _member_names(value)


def _texts(value: object) -> list[str]:
    """The entries of a list of texts; none for a list with other entries, which is hashed unchanged."""
    return value if _all_text(value) else []


def _doubles(value: object) -> Any:
    """A value with integers beyond 2^53 as doubles, as RFC 8785 requires."""
    if isinstance(value, Mapping):
        return {name: _doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_doubles(member) for member in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return float(value)
    return value
