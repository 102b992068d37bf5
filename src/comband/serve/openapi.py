"""The description of the interface (OpenAPI 3.1), made from the routes and the messages' own schemas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from comband.serve import wire
from comband.serve.problems import TITLES

EXAMPLES: dict[Any, Any] = {
    wire.Spec: {
        "name": "search-ranking",
        "candidates": ["current", "recency", "popular"],
        "list_size": 2,
        "epsilon": 0.01,
        "sparsity": 1,
        "window_seconds": 1800,
        "fallback": "current",
    },
    wire.DecisionRequests: {
        "request": "9f4c2a",
        "lists": {"current": ["shoe-4", "shoe-9"], "recency": ["shoe-9", "hat-1"], "popular": ["shoe-4", "hat-7"]},
    },
    wire.FieldChange: {"add": "recency 2", "withdraw": "recency", "planned": True},
    wire.Clone: {"name": "search-ranking-2"},
    wire.Nothing: {},
    wire.RewardPosts: {"decision": 17, "rewards": [["shoe-9", 1]]},
}


def describe(routes: Sequence[Any]) -> dict[str, Any]:
    """The whole document."""
    kinds = [kind for route in routes for kind in (route.takes, *_several(route.answers)) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*kinds, wire.Problem], ref_template="#/components/schemas/{name}"
    )
    schemas, components = _plain_pairs(schemas), _plain_pairs(components)
    of = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=False)}
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "comband",
            "version": version("comband"),
            "description": "Send what each candidate would show, show the list that comes back, and post its rewards; "
            "the best candidate is found with as few decisions as possible.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Any, of: dict[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()} {route.path}",
        "parameters": [
            *(_parameter(name) for name in ("name", "number") if f"{{{name}}}" in route.path),
            *({"name": name, "in": "query", "required": False, "schema": schema} for name, schema in route.query),
        ],
        "responses": {
            str(route.status): {
                "description": "Done",
                "content": {route.media: {"schema": _any_of([of[id(kind)] for kind in _several(route.answers)])}},
            },
            **_problems(route),
        },
    }
    if route.role is not None:
        operation["security"] = [{"token": []}, {}]
        operation["description"] = f"Needs the role `{route.role}`."
    if route.takes is not None:
        content: dict[str, Any] = {"schema": of[id(route.takes)]}
        if route.takes in EXAMPLES:
            content["example"] = EXAMPLES[route.takes]
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    return operation


def _plain_pairs(schema: Any) -> Any:
    """Pairs described by what either part may be: not all programs understand more."""
    if isinstance(schema, dict):
        parts = schema.get("prefixItems")
        if parts is None:
            return {name: _plain_pairs(value) for name, value in schema.items()}
        return {"type": "array", "minItems": len(parts), "maxItems": len(parts), "items": {"anyOf": parts}}
    return [_plain_pairs(one) for one in schema] if isinstance(schema, (list, tuple)) else schema


def _several(answers: Any) -> tuple[Any, ...]:
    return answers if isinstance(answers, tuple) else () if answers is None else (answers,)


def _any_of(schemas: list[Any]) -> dict[str, Any]:
    return {"anyOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else {}


def _parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "pattern": wire.NAME} if name == "name" else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _problems(route: Any) -> dict[str, Any]:
    statuses: Iterable[int] = (*route.may, *((401, 403, 421, 429) if route.role is not None else ()), 503)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        str(status): {"description": TITLES[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in sorted(set(statuses))
    }
