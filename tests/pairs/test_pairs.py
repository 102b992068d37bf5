"""Every pair of options, under every reading: it works or is refused with a sentence; the twin agrees; what is saved
and loaded goes on bit for bit; and what is printed is what its premises allow.

The quick suite runs every pair of options of `AdaptiveComband` under one reading each, in turn, every option alone
under every reading (under a third of them with the other learners), and some triples; the slow one every pair of
`AdaptiveComband` under every reading and of the others under two of six in turn, longer, and more triples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import comband as cb
from comband.statistics import factor_fit
from tests.pairs.options import KINDS, OPTIONS, PARTS_OF_PLAN, Option, covered, options_of, pairs_of, parameters
from tests.pairs.refusals import MAIN, TABLE, table, unlisted
from tests.pairs.runs import Case, Run, is_a_sentence
from tests.pairs.worlds import READINGS, World


@pytest.fixture(autouse=True)
def _few_rewards_are_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are short: factors of places are taken as they are after one reward in each place."""
    monkeypatch.setattr(factor_fit, "_LEAST", 1)
    monkeypatch.setattr(factor_fit, "_CLEAR", 100.0)


def faults_of(cases: Sequence[Case], *, rounds: int = 75, folder: Path | None = None) -> list[str]:
    """What is wrong in some cases, one line each."""
    assert cases
    found = []
    for case in cases:
        try:
            run = Run(case, 0, rounds=rounds, folder=folder).go()
        except Exception as error:
            found.append(f"{case.name}: {type(error).__name__}: {error}")
        else:
            found += [f"{case.name}: {fault}" for fault in run.faults]
            found += [f"{case.name}: a refusal that {TABLE.name} does not list: {said}" for said in unlisted(run)]
    return found


def in_turn(case: tuple[Option, Option]) -> str:
    """The reading of a pair in the quick suite."""
    first, second = (OPTIONS.index(option) for option in case)
    return [*READINGS][(first + second) % len(READINGS)]


# ---- the list is whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_every_argument_has_an_entry(name: str) -> None:
    assert parameters(KINDS[name].learner) <= covered(), "an argument that no option gives: add an entry to OPTIONS"


def test_every_certifying_learner_has_an_entry() -> None:
    known = {kind.learner for kind in KINDS.values()}
    there = [getattr(cb.certify, name) for name in dir(cb.certify)]
    assert {one for one in there if isinstance(one, type) and issubclass(one, cb.certify.CertifyingLearner)} == known


def test_every_field_of_a_problem_has_an_entry() -> None:
    fields = {field.name for field in dataclasses.fields(cb.Problem)} - {"n_actions", "list_size"}
    assert fields <= covered() | {name for reading in READINGS.values() for name in reading}


def test_every_part_of_a_plan_is_changed_by_some_option() -> None:
    assert covered() >= PARTS_OF_PLAN
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_refusals_are_those_of_the_table() -> None:
    """`python -m tests.pairs.refusals` writes it anew, so that a new refusal is seen in review. That every refusal of
    the quick suite is listed is compared there.
    """
    assert TABLE.read_text(encoding="utf-8") == table()


@pytest.mark.parametrize(
    "said", ["no", "it ends without a full stop, which is no way to end", "<X at 0x7f> is wrong here."]
)
def test_what_is_no_sentence(said: str) -> None:
    assert not is_a_sentence(said)


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", KINDS)
def test_every_option_alone(name: str, reading: str, tmp_path: Path) -> None:
    """Of learners beside `AdaptiveComband` each option under a third of the readings; the slow suite runs all pairs."""
    options = options_of(KINDS[name])
    if name != MAIN:
        options = options[[*READINGS].index(reading) % 3 :: 3]
    cases = [Case(name, reading, ()), *(Case(name, reading, (option,)) for option in options)]
    assert faults_of(cases, folder=tmp_path) == []


@pytest.mark.parametrize("first", OPTIONS[:-1], ids=lambda option: option.name)
def test_every_pair(first: Option) -> None:
    pairs = [pair for pair in pairs_of(KINDS[MAIN]) if pair[0] is first]
    assert faults_of([Case(MAIN, in_turn(pair), pair) for pair in pairs]) == []


def triples(kind: str, n: int, seed: int) -> list[Case]:
    """Some at random, of options that can be said together."""
    rng = np.random.default_rng([seed, 73])
    found: list[Case] = []
    options = options_of(KINDS[kind])
    while len(found) < n:
        one = [options[i] for i in rng.choice(len(options), size=3, replace=False)]
        if all(a.goes_beside(b) for i, a in enumerate(one) for b in one[:i]):
            found.append(Case(kind, str(rng.choice([*READINGS])), tuple(one)))
    return found


@pytest.mark.parametrize("name", KINDS)
def test_triples(name: str) -> None:
    assert faults_of(triples(name, 25 if name == MAIN else 12, seed=0)) == []


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("name", KINDS)
def test_every_pair_of_every_learner(name: str, reading: str) -> None:
    turn = [*READINGS].index(reading)
    pairs = pairs_of(KINDS[name])
    cases = [Case(name, reading, pair) for i, pair in enumerate(pairs) if name == MAIN or (i + turn) % 3 == 0]
    assert faults_of(cases, rounds=150) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_many_triples(name: str, tmp_path: Path) -> None:
    assert faults_of(triples(name, 500, seed=1), rounds=300, folder=tmp_path) == []


# ---- the suite itself would notice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", READINGS)
def test_worlds_are_as_their_values_say(reading: str) -> None:
    """Clicks on a candidate's own lists are as frequent as its value, to five standard errors."""
    world, rng, n = World(3, reading, lists="full"), np.random.default_rng(74), 40_000
    numbers = rng.integers(len(world.chances), size=n)
    values = world.values(np.ones(world.problem.n_actions))
    for lists, value in zip(world.table, values, strict=True):
        clicked = world.clicks(numbers, lists[numbers], rng).sum(axis=1)
        assert abs(clicked.mean() - value) < 5.5 * np.sqrt(value * (1 - value) / n) + 1e-9
