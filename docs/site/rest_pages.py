"""Pages of the REST API, from the controller's own OpenAPI document: one for each tag, and one of all values."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]
_SCHEMA = "#/components/schemas/"


def read_document() -> Json:
    program = Path(sys.executable).parent / "culvert-controller"
    return json.loads(subprocess.run([program, "openapi"], check=True, capture_output=True, text=True).stdout)


def write_rest(document: Json) -> Iterator[tuple[str, str]]:
    """(path in the site, Markdown) of each page."""
    by_tag: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault((operation.get("tags") or ["others"])[0], []).append(
                (method.upper(), path, operation)
            )
    lines = ["# REST API", "", document["info"]["description"].strip(), ""]
    lines += [
        'The controller shows the same with forms to try it, at <a href="../api">/docs/api</a>. '
        "The document is `/openapi.json`.",
        "",
    ]
    for tag, operations in sorted(by_tag.items()):
        lines += [f"## [{tag.capitalize()}]({_file(tag)})", "", "| call | what |", "|---|---|"]
        for method, path, operation in operations:
            title = operation.get("summary", "")
            lines += [f"| [`{method} {path}`]({_file(tag)}#{operation['operationId']}) | {title} |"]
        lines += [""]
        yield f"rest/{_file(tag)}", _page(tag, operations)
    yield "rest/index.md", "\n".join([*lines, "[All values](values.md)", ""])
    yield "rest/values.md", _values(document["components"]["schemas"])


def _file(tag: str) -> str:
    return f"{tag.replace(' ', '-')}.md"


def _page(tag: str, operations: list[tuple[str, str, Json]]) -> str:
    lines = [f"# REST: {tag}", ""]
    for method, path, operation in operations:
        title = operation.get("summary") or operation["operationId"]
        lines += [
            f"## {title} {{ #{operation['operationId']} }}",
            "",
            "```http",
            f"{method} {path}",
            "```",
            "",
        ]
        lines += [operation.get("description", ""), ""]
        if parameters := operation.get("parameters"):
            lines += ["| parameter | in | type | meaning |", "|---|---|---|---|"]
            for it in parameters:
                name = f"`{it['name']}`" + (" (needed)" if it.get("required") else "")
                lines += [
                    f"| {name} | {it['in']} | {_type(it['schema'])} | {_cell(it.get('description', ''))} |"
                ]
            lines += [""]
        for media, body in operation.get("requestBody", {}).get("content", {}).items():
            lines += [f"Body: {_type(body['schema'])} as `{media}`.", ""]
        for status, answer in operation["responses"].items():
            if status == "default":
                continue
            told = ", ".join(
                f"{_type(it['schema'])} as `{media}`"
                for media, it in answer.get("content", {}).items()
                if it.get("schema")
            )
            lines += [f"Answer {status}: {told or _cell(answer['description'])}.", ""]
    return "\n".join(lines)


def _values(schemas: Mapping[str, Json]) -> str:
    lines = ["# REST: values", "", "The objects of bodies and answers.", ""]
    for name, schema in sorted(schemas.items()):
        lines += [f"## {name} {{ #{name} }}", "", schema.get("description", ""), ""]
        if "enum" in schema:
            lines += ["One of " + ", ".join(f"`{it}`" for it in schema["enum"]) + ".", ""]
        if properties := schema.get("properties"):
            needed = set(schema.get("required", ()))
            lines += ["| field | type | default | meaning |", "|---|---|---|---|"]
            for field, it in properties.items():
                default = (
                    "needed"
                    if field in needed
                    else f"`{json.dumps(it['default'])}`"
                    if "default" in it
                    else ""
                )
                lines += [f"| `{field}` | {_type(it)} | {default} | {_cell(it.get('description', ''))} |"]
            lines += [""]
    return "\n".join(lines)


def _type(schema: Json) -> str:
    """In words, with a link to the value's heading."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_SCHEMA)
        return f"[{name}](values.md#{name})"
    if options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_type(it) for it in options))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{it}`" for it in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {_type(schema.get('items', {}))}"
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return f"object of {_type(schema['additionalProperties'])}"
        case str(kind):
            return f"{kind}{_bounds(schema)}"
        case _:
            return "any"


def _bounds(schema: Json) -> str:
    names = {"minimum": "from", "maximum": "to", "minLength": "length from", "maxLength": "length to"}
    told = ", ".join(f"{word} {schema[key]}" for key, word in names.items() if key in schema)
    form = f", {schema['format']}" if "format" in schema else ""
    return f"{form} ({told})" if told else form


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
