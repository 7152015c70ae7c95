"""As much of JSON Schema as the inputs of tools need. A keyword that is not known here is a mistake, so that no rule goes unchecked."""

from __future__ import annotations

import re
from typing import Any, Mapping, Optional

_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}

_KNOWN = frozenset(
    "$schema title description default examples type properties required additionalProperties items enum const minimum "
    "maximum minLength maxLength minItems maxItems pattern anyOf".split()
)


def check_schema(schema: Mapping[str, Any], at: str = "$") -> None:
    """Raises ``ValueError`` for a schema that cannot be checked as a whole."""
    if not isinstance(schema, Mapping):
        raise ValueError("the schema at %s is not an object" % at)
    unknown = set(schema) - _KNOWN
    if unknown:
        raise ValueError("the schema at %s has keywords that are not checked: %s" % (at, ", ".join(sorted(unknown))))
    for name in _listed(schema.get("type")):
        if name not in _TYPES and name not in ("number", "integer"):
            raise ValueError("the schema at %s has the unknown type %r" % (at, name))
    for name, below in schema.get("properties", {}).items():
        check_schema(below, "%s.%s" % (at, name))
    for below in schema.get("anyOf", []):
        check_schema(below, at)
    if "items" in schema:
        check_schema(schema["items"], at + "[]")
    if not isinstance(schema.get("additionalProperties", True), bool):
        check_schema(schema["additionalProperties"], at + ".*")
    if "pattern" in schema:
        re.compile(schema["pattern"])


def fault(schema: Mapping[str, Any], value: Any, at: str = "$") -> Optional[str]:
    """What is wrong with a value; ``None`` if it fits."""
    kinds = _listed(schema.get("type"))
    if kinds and not any(_is(kind, value) for kind in kinds):
        return "%s must be %s" % (at, " or ".join(kinds))
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return "%s is none of the allowed values" % at
    if "const" in schema and not _same(value, schema["const"]):
        return "%s is not the allowed value" % at
    if "anyOf" in schema and all(fault(one, value, at) for one in schema["anyOf"]):
        return "%s fits none of the alternatives" % at
    if isinstance(value, str):
        return _of_length(schema, len(value), "Length", "characters", at) or _by_pattern(schema, value, at)
    if isinstance(value, list):
        wrong = _of_length(schema, len(value), "Items", "items", at)
        below = (fault(schema["items"], one, "%s[%d]" % (at, number)) for number, one in enumerate(value))
        return wrong or (next((one for one in below if one), None) if "items" in schema else None)
    if isinstance(value, dict):
        return _of_object(schema, value, at)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            return "%s is less than %s" % (at, schema["minimum"])
        if "maximum" in schema and value > schema["maximum"]:
            return "%s is more than %s" % (at, schema["maximum"])
    return None


def _listed(kind: Any) -> Any:
    return [] if kind is None else [kind] if isinstance(kind, str) else list(kind)


def _same(one: Any, other: Any) -> bool:
    """JSON tells true from 1, which Python does not."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _is(kind: str, value: Any) -> bool:
    if kind in ("number", "integer"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return kind == "number" or float(value).is_integer()
    return isinstance(value, _TYPES[kind])


def _of_length(schema: Mapping[str, Any], length: int, what: str, unit: str, at: str) -> Optional[str]:
    if length < schema.get("min" + what, 0):
        return "%s has fewer than %d %s" % (at, schema["min" + what], unit)
    if length > schema.get("max" + what, length):
        return "%s has more than %d %s" % (at, schema["max" + what], unit)
    return None


def _by_pattern(schema: Mapping[str, Any], value: str, at: str) -> Optional[str]:
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return "%s does not fit its pattern" % at
    return None


def _of_object(schema: Mapping[str, Any], value: Mapping[str, Any], at: str) -> Optional[str]:
    for name in schema.get("required", []):
        if name not in value:
            return "%s lacks %s" % (at, name)
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, one in value.items():
        below = known.get(name)
        if below is None and others is False:
            return "%s has the unknown field %s" % (at, name)
        below = others if below is None and isinstance(others, Mapping) else below
        wrong = fault(below, one, "%s.%s" % (at, name)) if below is not None else None
        if wrong:
            return wrong
    return None
