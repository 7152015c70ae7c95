"""Writes src/keyward/protocol.py: the messages of the session socket as types, from the published schema.

    python3 tools/make-types.py [SCHEMA]     prints it; a test compares it with the file
"""

import json
import os
import sys
from typing import Any, List

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, "..", "..", "..", "crates", "protocol", "schema", "session.json")
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def named(name: str) -> str:
    return "".join(part[0].upper() + part[1:] for part in name.split("-"))


def union(all: List[str]) -> str:
    kinds = list(dict.fromkeys(all))
    return kinds[0] if len(kinds) == 1 else "Union[%s]" % ", ".join(kinds)


def literal(values: List[Any]) -> str:
    return "Literal[%s]" % ", ".join(json.dumps(value) for value in values)


def kind(schema: Any, name: str, made: List[str]) -> str:
    """The type of a schema. Objects in it become types of their own, which are added to ``made``."""
    if schema is True or set(schema) <= {"description"}:
        return "Any"
    if "$ref" in schema:
        return '"%s"' % named(schema["$ref"].split("/")[-1])
    if "const" in schema:
        return literal([schema["const"]])
    if "enum" in schema:
        return literal(schema["enum"])
    either = schema.get("anyOf") or schema.get("oneOf")
    if either:
        return union([kind(one, name, made) for one in either])
    if isinstance(schema["type"], list):
        return union([kind({**schema, "type": one}, name, made) for one in schema["type"]])
    if schema["type"] == "array":
        return "List[%s]" % kind(schema.get("items", True), name, made)
    if schema["type"] == "object" and "properties" not in schema:
        return "Dict[str, %s]" % kind(schema.get("additionalProperties", True), name, made)
    if schema["type"] == "object":
        record(schema, name, made)
        return '"%s"' % name
    return SIMPLE[schema["type"]]


def record(schema: Any, name: str, made: List[str]) -> None:
    """An object. In 3.9, what is needed and what may be left out are types of their own."""
    needed, more = {}, {}
    for field, one in schema["properties"].items():
        which = needed if field in schema.get("required", []) else more
        which[field] = kind(one, name + named(field.replace("_", "-")), made)
    text = "\n\nclass %s(" % name
    before = ""
    for fields, suffix, total in ((needed, "Needed", ""), (more, "More", "    total=False,\n")):
        if fields:
            rows = "".join('        "%s": %s,\n' % row for row in fields.items())
            before += '\n_%s%s = TypedDict(\n    "_%s%s",\n    {\n%s    },\n%s)\n' % (name, suffix, name, suffix, rows, total)
            text += "_%s%s, " % (name, suffix)
    made.append(before + text.rstrip(", ") + "):\n" + '    """%s"""\n' % schema.get("description", "An object of the protocol."))


def main() -> None:
    with open(sys.argv[1] if len(sys.argv) > 1 else SCHEMA, encoding="utf-8") as file:
        schema = json.load(file)
    made: List[str] = []
    for name, one in schema["$defs"].items():
        kinds = [each for each in one.get("oneOf", []) if "title" in each]
        for each in kinds:
            record(each, named(name) + named(each["title"]), made)
        if kinds:
            rows = "".join("    %s,\n" % (named(name) + named(each["title"])) for each in kinds)
            made.append("\n%s = Union[\n%s]\n" % (named(name), rows))
        elif one.get("type") == "object" and "properties" in one:
            record(one, named(name), made)
        else:
            made.append("\n%s = %s\n" % (named(name), kind(one, named(name), made)))
    print('"""The messages of the session socket as types. Generated from its schema by tools/make-types.py; a test compares them."""\n')
    print("from __future__ import annotations\n")
    print("from typing import Any, Dict, List, Literal, TypedDict, Union")
    print("\n".join(made), end="")


main()
