"""Makes the OpenAPI document of the admin API from the table of operations."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any, Final

import msgspec

from interlock.hub.admin.operation import Operation, Right
from interlock.hub.admin.table import OPERATIONS

Json = dict[str, Any]

_REFUSALS: Final = (400, 401, 403, 404, 405, 409, 413, 415, 422, 500, 503)
_IN_PATH: Final = re.compile(r"\{(\w+)\}")


@cache
def paths(rights: frozenset[Right]) -> Json:
    """The paths of the operations that these rights permit."""
    found: Json = {}
    for operation in OPERATIONS.values():
        if operation.path and operation.right in rights:
            found.setdefault(operation.path, {})[operation.verb.lower()] = _described(operation)
    return found


def _described(operation: Operation) -> Json:
    schema, names = schema_of(operation.params), operation.api_fields()
    in_path = _IN_PATH.findall(operation.path)
    rest = {name: part for name, part in schema["properties"].items() if name in names and name not in in_path}
    required = [name for name in schema.get("required", ()) if name in rest]
    parameters = [_parameter(name, "path", schema["properties"][name], required=True) for name in in_path]
    described: Json = {
        "operationId": f"admin:{operation.verb.lower()}:{operation.path.removeprefix('/admin/')}",
        "summary": operation.summary,
        "description": f"Needs a key with `{operation.right}`.",
        "tags": ["admin"],
        "security": [{"key": []}],
        "responses": {
            "200": {"description": "Done", "content": {"application/json": {"schema": schema_of(operation.result)}}},
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
    }
    if operation.verb == "POST" and rest:
        body = {"type": "object", "properties": rest, "required": required, "additionalProperties": False}
        described["requestBody"] = {"required": bool(required), "content": {"application/json": {"schema": body}}}
    elif rest:
        parameters += [_parameter(name, "query", part, required=name in required) for name, part in rest.items()]
    if parameters:
        described["parameters"] = parameters
    return described


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
