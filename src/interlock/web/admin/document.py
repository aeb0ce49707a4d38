"""Makes the OpenAPI document of the admin API from its table of addresses."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any, Final

import msgspec

from interlock.web.admin.addresses import ADDRESSES, Address

Json = dict[str, Any]

_REFUSALS: Final = (400, 401, 403, 404, 405, 409, 413, 415, 422, 500, 503)
_IN_PATH: Final = re.compile(r"\{(\w+)\}")


@cache
def paths(*, write: bool) -> Json:
    """The paths, with or without those that write."""
    found: Json = {}
    for address in ADDRESSES:
        if write or address.right == "admin_read":
            found.setdefault(address.path, {})[address.verb.lower()] = _operation(address)
    return found


def _operation(address: Address) -> Json:
    schema = schema_of(address.asks)
    in_path = _IN_PATH.findall(address.path)
    rest = {name: part for name, part in schema["properties"].items() if name not in in_path}
    required = [name for name in schema.get("required", ()) if name in rest]
    parameters = [_parameter(name, "path", schema["properties"][name], required=True) for name in in_path]
    operation: Json = {
        "operationId": f"admin:{address.verb.lower()}:{address.path.removeprefix('/admin/')}",
        "summary": address.summary,
        "description": f"Needs a key with `{address.right}`.",
        "tags": ["admin"],
        "security": [{"key": []}],
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": schema_of(address.gives)}}},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
    }
    if address.verb == "POST" and rest:
        body = {"type": "object", "properties": rest, "required": required, "additionalProperties": False}
        operation["requestBody"] = {"required": bool(required), "content": {"application/json": {"schema": body}}}
    elif rest:
        parameters += [_parameter(name, "query", part, required=name in required) for name, part in rest.items()]
    if parameters:
        operation["parameters"] = parameters
    return operation


def schema_of(kind: type[msgspec.Struct]) -> Json:
    """The JSON schema of a struct, with all references resolved."""
    schema = msgspec.json.schema(kind, schema_hook=_anything)
    definitions = schema.get("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return resolve(definitions[str(part["$ref"]).rpartition("/")[2]])
        return {name: resolve(value) for name, value in part.items()}

    whole: Json = resolve({name: value for name, value in schema.items() if name != "$defs"})
    whole.setdefault("properties", {})
    whole["description"] = inspect.cleandoc(kind.__doc__ or "")
    return whole


def _anything(kind: type[object]) -> Json:
    """The schema of any value, for the details of records."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Anything"}


def _parameter(name: str, where: str, schema: Json, *, required: bool) -> Json:
    return {"name": name, "in": where, "required": required, "schema": schema}
