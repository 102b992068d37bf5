"""Types of the TypeScript client from the service's OpenAPI description: python tools/client_types.py [--check].

Writes clients/typescript/src/types.ts; with `--check` it only says whether that is what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from comband.serve.api import ROUTES
from comband.serve.openapi import describe

FILE = Path(__file__).parent.parent / "clients" / "typescript" / "src" / "types.ts"


def written() -> str:
    """The whole file."""
    schemas: dict[str, Any] = describe(ROUTES)["components"]["schemas"]
    parts = ["// Written by tools/client_types.py from the OpenAPI description: do not edit.\n"]
    parts += [interface(name, schema) for name, schema in sorted(schemas.items())]
    return "\n".join(parts)


def interface(name: str, schema: dict[str, Any]) -> str:
    """One message."""
    required = set(schema.get("required", ()))
    lines = [f"/** {' '.join(schema.get('description', name).split())} */", f"export interface {name} {{"]
    for field, of in schema.get("properties", {}).items():
        words = " ".join(str(of.get("description", "")).split())
        if words:
            lines.append(f"  /** {words} */")
        lines.append(f"  {field}{'' if field in required else '?'}: {kind(of)};")
    return "\n".join([*lines, "}", ""])


def kind(schema: dict[str, Any]) -> str:
    """A type for a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(kind(one) for one in schema["anyOf"]))
    of = schema.get("type")
    if of == "array":
        inner = kind(schema.get("items", {}))
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if of == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {kind(more)}>" if isinstance(more, dict) else "Record<string, unknown>"
    return {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}.get(
        str(of), "unknown"
    )


def main() -> int:
    """Write, or compare."""
    text = written()
    if "--check" in sys.argv:
        same = FILE.exists() and FILE.read_text(encoding="utf-8") == text
        print(f"{FILE.name} {'is' if same else 'is not'} what the description says")
        return 0 if same else 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
