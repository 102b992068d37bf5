"""Sentences that promise something: each is made with its premises, and goes when one of them does not hold."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import comband as cb
from comband.certify import CertifyingLearner
from comband.certify.claims import CERTIFICATE, COVER, KINDS, Run
from comband.certify.notifications import Guard, Moment
from comband.certify.spec import Spec
from comband.page.declaring import Setting
from comband.page.problem import FLAG, InputError
from comband.policies import cover_blends
from comband.show import selection_page
from comband.statistics.claims import Claim
from tests.learners.small_worlds import small_world

WORLD = small_world("clustered", 3)
LEARNERS = (cb.AdaptiveComband, cb.UniformLists, cb.UniformMixture, cb.ABTest, cb.TwoPhaseComband)


class Alarm(Guard):
    """Speaks up after some rounds."""

    seen = 0

    def observe(self, moment: Moment) -> None:
        self.seen = self.seen + 1

    @property
    def warning(self) -> str:
        return "the moon is full" if self.seen > 2 else ""


@dataclass(frozen=True, kw_only=True)
class MoonlitSpec(Spec):
    """One setting more, with which nothing was proved."""

    moonlight: Annotated[bool, Setting("Whether the moon is out.", FLAG)] = False


def run_of(learner: CertifyingLearner) -> Run:
    return learner._all.report(learner.rounds, learner.options())


def play(learner: CertifyingLearner, n: int = 400) -> CertifyingLearner:
    rng = np.random.default_rng(0)
    for _ in range(n // 100):
        WORLD.play(learner, 100, rng)
    return learner


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_setting_is_known_to_the_certificate_or_an_object_of_the_callers(learner: Any) -> None:
    names = set(inspect.signature(learner).parameters) - {"problem", "policies", "epsilon", "seed"}
    assert names <= CERTIFICATE.knows


def test_a_setting_that_no_proof_knows_is_refused() -> None:
    class Moonlit(cb.AdaptiveComband, spec=MoonlitSpec):
        """Looks at the moon."""

    make: Any = Moonlit
    make(WORLD.problem, WORLD.policies, epsilon=0.1)
    with pytest.raises(InputError, match="the certificate has not been proved with moonlight; leave it out"):
        make(WORLD.problem, WORLD.policies, epsilon=0.1, moonlight=True)


def test_an_option_in_use_is_one_that_differs_from_its_default() -> None:
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.1)
    assert learner.options() == frozenset()
    first = WORLD.policies.names[0]
    more = cb.AdaptiveComband(
        WORLD.problem,
        WORLD.policies,
        epsilon=None,
        max_rounds=500,
        patience=50,
        period=10,
        production=first,
        exposure=0.5,
        guards=[Alarm()],
        prior_scores=np.zeros(len(WORLD.policies)),
    )
    assert more.options() == {
        "no epsilon",
        "max_rounds",
        "patience",
        "period",
        "production",
        "exposure",
        "guards",
        "prior_scores",
    }


def test_an_alarm_takes_every_sentence_of_the_certificate_away() -> None:
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.5, guards=[Alarm()], seed=1)
    WORLD.play(learner, 200, np.random.default_rng(1))
    while not learner.done:
        WORLD.play(learner, 200, np.random.default_rng(1))
    result = learner.result()
    assert result.claim is not None
    assert not result.claim.holds
    assert result.claim.failures == ("a guard has given alarm: see the warning",)
    assert str(result).splitlines()[0] == "Not valid. The moon is full."
    for text in (str(result), learner.comparison().headline(), str(learner.status())):
        assert "with probability" not in text
    assert "no promise: a guard has given alarm" in str(result)
    assert learner.status().certified is None
    page = selection_page(result, {"rounds": np.empty(0)}, problem=WORLD.problem, n_candidates=4)
    assert "With probability" not in page
    assert "The moon is full" in page


def test_all_is_well_in_a_run_in_which_all_is_well() -> None:
    learner = play(cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.5, seed=1), 2000)
    result = learner.result()
    assert [claim.holds for claim in result.claims] == [True] * len(result.claims)
    assert [claim.kind for claim in result.claims] == ["certificate", "intervals"]
    assert result.claim is not None
    assert result.claim.text in str(result)
    assert learner.comparison().claim == replace(result.claim)


def failure(run: Run, name: str) -> str:
    claim = CERTIFICATE.claim("", run, options=(), delta=0.05)
    return next(premise.failure for premise in claim.premises if premise.name == name)


def test_each_premise_of_the_certificate_can_fail() -> None:
    learner = play(cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=1e-4, period=100, seed=1))
    run = run_of(learner)
    assert not CERTIFICATE.claim("", run, options=(), delta=0.05).failures
    run.queue.front += 1
    assert "out of the order of decisions" in failure(run, "order")
    assert "a period of 100 rounds was cut in two" in failure(run, "period")
    run.queue.front -= 1
    field = run.verdict.field
    field.chosen[0] = True
    assert "in a closed field" in failure(run, "field")
    field.chosen[0] = False
    spent = run.verdict.spent
    run.verdict.spent = lambda: 0.1  # type: ignore[method-assign]
    assert "may be wrong with probability 0.1, more than 0.05" in failure(run, "delta")
    run.verdict.spent = spent  # type: ignore[method-assign]
    assert not CERTIFICATE.claim("", run, options=(), delta=0.05).failures


def test_every_planned_field_has_delta_and_the_promise_says_so() -> None:
    """Each stretch between planned changes may claim something wrong with probability δ, and all of it is claimed."""
    learner = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.5, delta=0.04, seed=1)
    play(learner, 100)
    for change, chance in enumerate((0.92, 0.88), start=1):
        learner.add(WORLD.policies[0], name=f"a copy {change}", planned=True)
        result = play(learner, 100).result()
        assert result.claim is not None
        assert result.claim.holds
        assert f"with probability {chance}" in str(result)
        assert result.delta == pytest.approx(1 - chance)
    paid = cb.AdaptiveComband(WORLD.problem, WORLD.policies, epsilon=0.5, delta=0.04, open_field=True, seed=1)
    play(paid, 100)
    paid.add(WORLD.policies[0], name="a copy")
    assert play(paid, 100).result().delta == 0.04


# ---- a family that the candidates stand for --------------------------------------------------------------------------


def covered(places: Any = None, **options: Any) -> tuple[cb.Problem, cb.PolicySet]:
    rng = np.random.default_rng(0)
    problem = cb.Problem(20, 3, 1, places=places, **options)
    first, second = rng.normal(size=(2, 5, 20))
    return problem, cover_blends(first, second, rng.normal(size=(2000, 5)), problem=problem)


def about_the_family(result: cb.Selection) -> Claim:
    (claim,) = (one for one in result.claims if one.kind == COVER.name)
    assert claim.text in result.notes
    return claim


def answer(learner: Any) -> cb.Selection:
    rng = np.random.default_rng(1)
    for _ in range(2):  # those with two phases are then in the second
        decisions = learner.ask(rng.normal(size=(150, 5)))
        learner.tell(decisions, np.zeros(decisions.lists.shape))
    result = learner.result()
    assert isinstance(result, cb.Selection)
    return result


def makers(problem: cb.Problem, policies: cb.PolicySet) -> list[Any]:
    return [
        cb.AdaptiveComband(problem, policies, epsilon=0.3, seed=1),
        cb.PacComband(problem, policies, n_explore=100, n_estimate=100, seed=1),
        cb.UniformExploration(problem, policies, n_rounds=300, seed=1),
    ]


@pytest.mark.parametrize("places", [(1, 0.5, 0.2), "pairs"])
def test_a_cover_says_nothing_where_places_matter(places: Any) -> None:
    """Its sets are the same whatever the order: a representative may be worth .08, and a blend of the same set .80."""
    for learner in makers(*covered(places)):
        claim = about_the_family(answer(learner))
        assert not claim.holds
        assert claim.text.startswith("no promise about every blend (1−t)·a + t·b: places matter")
    for learner in makers(*covered()):
        claim = about_the_family(answer(learner))
        assert claim.holds
        assert "within ε + ρη = " in claim.text
        assert claim.text.endswith("contexts)")


def test_a_cover_says_nothing_when_a_representative_was_withdrawn() -> None:
    problem, policies = covered()
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.3, open_field=True, seed=1)
    assert about_the_family(answer(learner)).holds
    learner.withdraw(policies.names[3])
    claim = about_the_family(answer(learner))
    assert claim.failures == ("1 representatives were withdrawn, and nothing stands for their part of the family",)
    newcomer = cb.AdaptiveComband(problem, policies, epsilon=0.3, open_field=True, seed=1)
    newcomer.add(policies[0], name="a copy")
    assert about_the_family(answer(newcomer)).holds
    newcomer.withdraw("a copy")
    assert about_the_family(answer(newcomer)).holds


# ---- the page --------------------------------------------------------------------------------------------------------


def table() -> str:
    rows = ["| sentence | what it rests on | not with |", "|---|---|---|"]
    every = frozenset().union(*(kind.knows for kind in KINDS))
    for kind in KINDS:
        rests = "; ".join(premise.text for premise in kind.premises) or "nothing: it is a guess"
        without = ", ".join(f"`{name}`" for name in sorted(every - kind.knows)) or "–"
        rows.append(f"| {kind.name} | {rests} | {without} |")
    return "\n".join(rows)


def test_the_docs_list_every_sentence_with_what_it_rests_on() -> None:
    page = Path(__file__).parents[2] / "docs" / "promise.md"
    assert table() in page.read_text(encoding="utf-8")
