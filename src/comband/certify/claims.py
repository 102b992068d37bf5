"""All sentences by which a certifying learner promises or estimates something, with what each rests on.

`KINDS` is the list. A premise is compared with the run as it was. A kind knows the settings that the spec declares as
`proved`, less those with which its own proof was not read; what the certificate does not know is refused at the start,
where a learner is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from comband.certify.certifier import Certified, Certifier
from comband.certify.epochs import Epochs
from comband.certify.planner import Planner
from comband.certify.queue import Queue
from comband.certify.spec import Spec, proved
from comband.certify.traffic import SURE
from comband.certify.watch import PlacesGuard, Watch
from comband.page.problem import Problem
from comband.page.text import visible
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.statistics.claims import HOLDS, READINGS, Checked, Claim, Kind, Premise, within, within_safe
from comband.statistics.results import Lift


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """What claims are compared with: a learner's parts; `rounds` are those that count, and `options` the
    settings that differ from their defaults and the readings of page and candidates.
    """

    problem: Problem
    options: frozenset[str]
    policies: PolicySet
    planner: Planner
    epochs: Epochs
    verdict: Certifier
    queue: Queue
    watch: Watch
    rounds: int


# ---- what claims rest on ---------------------------------------------------------------------------------------------


def _in_order(run: Run) -> str:
    same = run.verdict.evidence.rounds == run.queue.front
    return HOLDS if same else "rounds have entered the evidence out of the order of decisions"


def _whole_periods(run: Run) -> str:
    period = run.queue.period
    begun = [run.queue.front, *(epoch.first_id for epoch in run.epochs)]
    return HOLDS if all(number % period == 0 for number in begun) else f"a period of {period:,} rounds was cut in two"


def _field(run: Run) -> str:
    field = run.verdict.field
    depends = bool(field.chosen.any() or field.number.any())
    return "candidates came or went by what was seen, in a closed field" if depends and not field.open else HOLDS


def _levels(run: Run) -> str:
    verdict = run.verdict
    spent = verdict.spent()
    allowed = verdict.claimed_delta
    if allowed >= 1:
        return f"each of {verdict.field.planned_fields:,} planned fields has δ, and nothing is left of probability"
    enough = spent <= allowed * (1 + 1e-9)
    return HOLDS if enough else f"claims so far may be wrong with probability {spent:g}, more than {allowed:g}"


def _guards(run: Run) -> str:
    return "a guard has given alarm: see the warning" if run.watch.warnings else HOLDS


def _places_do_not_matter(run: Run) -> str:
    if reading_of(run.problem).SETS:
        return HOLDS
    return "places matter, and a cover says which sets of items are shown, not in which order"


def _factors_are_fitted(run: Run) -> str:
    if not run.epochs.current.fitting:
        return HOLDS
    rewarded = run.watch[PlacesGuard].fit.n_rounds
    return (
        f"factors of places are not clear yet after {rewarded:,} rewarded rounds in random order: nothing is bet until "
        "they are"
    )


def _representatives(run: Run) -> str:
    cover, present = run.policies.cover, run.verdict.field.present
    gone = 0 if cover is None else int((~present[: len(cover.shares)]).sum())
    return f"{gone:,} representatives were withdrawn, and nothing stands for their part of the family" * (gone > 0)


def _all_rounds(run: Run) -> str:
    return "earlier rounds were forgotten (recent)" if run.verdict.evidence.since else HOLDS


ORDER: Premise[Run] = Premise("order", "answers count in the order of decisions, or as missing", _in_order)
PERIOD: Premise[Run] = Premise("period", "epochs begin and rounds count by whole periods", _whole_periods)
FIELD: Premise[Run] = Premise("field", "changes of the field were planned, or paid for (open_field)", _field)
LEVELS: Premise[Run] = Premise(
    "delta", "all claims of all stretches and arrivals are wrong with probability δ together", _levels
)
GUARDS: Premise[Run] = Premise("guards", "no guard has given alarm", _guards)
PLACES: Premise[Run] = Premise("places", "rewards depend on the set of items alone", _places_do_not_matter)
FACTORS: Premise[Run] = Premise(
    "factors", "places are examined by the factors that each epoch had", _factors_are_fitted, pending=True
)
REPRESENTATIVES: Premise[Run] = Premise("present", "every representative is still a candidate", _representatives)
ALL_ROUNDS: Premise[Run] = Premise("stretches", "all rounds count", _all_rounds)

# ---- the kinds -------------------------------------------------------------------------------------------------------

_ALL = proved(Spec) | {"no epsilon"} | READINGS

CERTIFICATE: Kind[Run] = Kind("certificate", (ORDER, PERIOD, FIELD, LEVELS, FACTORS, GUARDS), knows=_ALL)
"""No candidate of the field exceeds the selected one by more than ε."""

INTERVALS: Kind[Run] = Kind("intervals", (ORDER, PERIOD, LEVELS, FACTORS, GUARDS), knows=_ALL)
"""All values of candidates lie in their intervals, at all times."""

COVER: Kind[Run] = Kind("cover", (*CERTIFICATE.premises, PLACES, REPRESENTATIVES), knows=_ALL - {"metrics"})
"""No member of the family that the candidates stand for exceeds the selected one by more than ε + ρη."""

GUESS: Kind[Run] = Kind("best guess", (ORDER,), knows=_ALL)
"""Who looks best, with a standard error."""

LOSS: Kind[Run] = Kind("loss", (ORDER, ALL_ROUNDS), knows=_ALL - {"recent", "fitted factors"})
"""What the experiment has cost beside production, with a standard error."""

FORECAST: Kind[Run] = Kind("forecast", (), knows=_ALL)
"""How many rounds it will take."""

UNLESS_HARMFUL: Kind[Run] = Kind("certificate if safe", CERTIFICATE.premises, knows=_ALL)
"""What the certificate says of one that is not known to be safe, should it be."""

FALLBACK: Kind[Run] = Kind("fallback", CERTIFICATE.premises, knows=_ALL)
"""The same of one that is known to be safe: production, at least."""

LIFT: Kind[Run] = Kind("lift", (ORDER, PERIOD, FIELD, GUARDS, ALL_ROUNDS), knows=_ALL - {"recent", "fitted factors"})
"""How much more than production the selected one collects."""

BELIEF = "if places do not matter: lists were shown in orders of their own"


def basis_of(run: Run, basis: str) -> str:
    """What a bound comes from, with what is believed of places where nothing else is stated of them."""
    reading = reading_of(run.problem)
    believed = reading.SETS and any(getattr(epoch.explorer, "own_orders", False) for epoch in run.epochs)
    return f"{basis}; {BELIEF}" if believed else basis


KINDS = (CERTIFICATE, INTERVALS, COVER, GUESS, LOSS, FORECAST, UNLESS_HARMFUL, FALLBACK, LIFT)


def claims(run: Run, selected: Certified, lift: Lift | None = None) -> tuple[Claim, ...]:
    """All that can be said of the selected candidate; the certificate first."""
    verdict, rho, options = run.verdict, run.verdict.evidence.problem.max_reward, run.options
    epsilon = selected.epsilon
    found = [certificate(run, selected)]
    if epsilon < rho:
        found.append(
            INTERVALS.claim(
                "all values lie in their intervals, at all times",
                run,
                options=options,
                delta=verdict.interval_delta,
                basis=basis_of(run, "they are cut to the certificate, whose δ is part of this"),
                condition=_as_fitted(run),
            )
        )
    cover = run.policies.cover
    if cover is not None:
        both, family = verdict.claimed_delta + cover.delta, f"every {cover.family}"
        sentence = cover.sentence(epsilon, rho)
        found.append(COVER.claim(sentence, run, options=options, delta=both, basis=cover.basis, subject=family))
    loss = run.planner.traffic.loss(verdict.evidence)
    if loss is not None:
        found.append(
            LOSS.claim(
                f"lost beside production so far: {loss.estimate:,.0f} ± {loss.error:,.0f} rewards, at most "
                f"{loss.most:,.0f}",
                run,
                options=options,
                delta=None,
                basis=f"a standard error, and {SURE:g} of them: a normal approximation",
            )
        )
    if not verdict.is_safe(selected.leader):
        found += _without_safety(run, selected)
    if lift is not None and lift.high - lift.low < 2 * rho:
        found.append(
            LIFT.claim(
                str(lift),
                run,
                options=options,
                delta=lift.delta,
                basis=basis_of(run, "by betting, with a δ of its own"),
            )
        )
    return tuple(found)


def _without_safety(run: Run, selected: Certified) -> list[Claim]:
    """What can be said while the one that is named is not known to be safe."""
    verdict, rho = run.verdict, run.verdict.evidence.problem.max_reward
    delta, name = verdict.claimed_delta, visible(run.policies.names[selected.leader])
    found = []
    if selected.epsilon < rho:
        sentence = f"if {name} is safe, it is within {selected.epsilon:.4g} of the best safe candidate"
        found.append(UNLESS_HARMFUL.claim(sentence, run, options=run.options, delta=delta, subject=name))
    other = verdict.fallback()
    safe = visible(run.policies.names[other.leader])
    within_it = f", and within {other.epsilon:.4g} of the best safe candidate" if other.epsilon < rho else ""
    sentence = f"until then show {safe}, which is safe{within_it}"
    return [*found, FALLBACK.claim(sentence, run, options=run.options, delta=delta, subject=safe)]


def _as_fitted(run: Run) -> str:
    """What a sentence rests on where factors are fitted: the error of the fit is no part of δ."""
    epoch = run.epochs.current
    if epoch.factors is None or epoch.fitting:
        return ""
    return f"if places are examined as fitted ({', '.join(f'{one:.2g}' for one in epoch.factors)})"


def certificate(run: Run, selected: Certified) -> Claim:
    """What is certified of the candidate that is named."""
    epsilon, guardrails = selected.epsilon, run.verdict.evidence.guardrails
    trivial = epsilon >= run.verdict.evidence.problem.max_reward
    names = () if guardrails is None else tuple(metric.name for metric in guardrails.metrics)
    claim = CERTIFICATE.claim(
        within_safe(epsilon, names) if names else within(epsilon),
        run,
        options=run.options,
        delta=run.verdict.claimed_delta,
        basis="trivial: nothing is certified yet"
        if trivial
        else basis_of(run, "from differences on the same rounds, by betting, valid at any time"),
        condition=_as_fitted(run),
    )
    if not names:
        return claim
    name = visible(run.policies.names[selected.leader])
    failure = HOLDS if run.verdict.is_safe(selected.leader) else f"{name} is not shown safe by {', '.join(names)}"
    safety = Checked("safety", "the selected candidate is certified safe", failure, pending=True)
    return replace(claim, premises=(*claim.premises, safety))
