"""Requests made up from the description: no fault of the service, and no answer that the description does not name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from comband.serve import wire
from tests.serve.worlds import World, listening, service, spec
from tests.waiting import LIMIT

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with service(tmp_path) as made, listening(made) as one:
        headers = {"content-type": "application/json"}
        with httpx.Client(base_url=one, headers=headers, timeout=LIMIT) as http:
            for name in ("search-ranking", "0"):
                http.post("/v1/experiments", content=wire.as_json(spec(name)))
                http.post(f"/v1/experiments/{name}/decisions", content=wire.as_json(World().request(0)))
        yield one


def attack(address: str, cases: int) -> int:
    """So many cases for each operation; how many were made in all."""
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    made = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        strategy: Any = st.one_of(
            operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
        )

        @settings(
            max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=False
        )
        @given(case=strategy)
        def run(case: Any) -> None:
            nonlocal made
            made += 1
            case.call_and_validate(checks=CHECKS)

        run()
    return made


def test_what_the_description_allows_and_what_it_does_not(address: str) -> None:
    assert attack(address, 6) >= 80


@pytest.mark.slow
def test_ten_thousand_cases(address: str) -> None:
    assert attack(address, 800) >= 10_000
