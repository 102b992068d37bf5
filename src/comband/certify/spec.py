"""What is declared before the first visitor comes: the settings of every certifying learner, each of them once.

A setting is one field below. From that field come the argument of the constructors and its check, the value in files,
the fields of the service and their schema, TOML, the options of `comband simulate`, the table of what was declared, and
the documentation. A new one is refused until its `proved` says that the proofs of all claims were read with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from numpy.typing import ArrayLike

from comband.certify.notifications import Guard
from comband.explore.explorers.adaptive import DisagreementExploration
from comband.explore.explorers.arms import ArmsExploration
from comband.explore.explorers.base import Exploration
from comband.explore.explorers.doubling import DoublingExploration
from comband.explore.explorers.midzuno import MidzunoExploration, UniformTotalsExploration
from comband.explore.explorers.mixture import UniformListsExploration, UniformMixtureExploration
from comband.explore.explorers.own_lists import OwnListExploration
from comband.explore.explorers.whole_lists import WholeListExploration
from comband.learners.base import Seed
from comband.page.declaring import Checked, Range, Setting, declared, said
from comband.page.metrics import METRICS, Metric
from comband.page.problem import (
    COUNT,
    FLAG,
    FRACTION,
    NUMBERS,
    POSITIVE,
    SHARE,
    TEXT,
    InputError,
    Problem,
    check_choice,
    check_number,
    check_positive,
    one_of,
)
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of
from comband.policies.stochastic import check_drawable
from comband.statistics.claims import reading_options


def _check_growth(name: str, value: Any) -> float:
    growth = check_positive(name, value)
    if growth <= 1:
        raise InputError(f"{name} must be above 1, got {value}: epochs must get longer.")
    return growth


def _check_part(name: str, value: Any) -> float:
    part = check_number(name, value)
    if not 0 <= part <= 1:
        raise InputError(f"{name} is a share, at least 0 and at most 1, got {part:g}.")
    return part


def _check_exploration(name: str, value: Any) -> Any:
    return check_choice(name, value, tuple(EXPLORATIONS)) if isinstance(value, str) else value


GROWTH = Range(float, _check_growth, above=1)
OBJECT = Range(object, lambda name, value: value)


@dataclass(frozen=True, kw_only=True)
class Promise(Checked):
    """The promise."""

    epsilon: Annotated[
        float | None,
        Setting(
            "The promise: no candidate's value exceeds the selected one's by more, with probability 1 − delta. Not "
            "set, but with max_rounds: the smallest one is sought that these rounds certify.",
            POSITIVE,
            "reward per round",
            proved=True,
        ),
    ]
    delta: Annotated[float, Setting("Probability allowed for a wrong statement.", FRACTION, proved=True)] = 0.05
    max_rounds: Annotated[
        int | None,
        Setting(
            "A budget of decisions, answered or not; when they are made the best epsilon that is certified by then is "
            "reported. Answers to them may still be told, and count.",
            COUNT,
            "decisions",
            proved=True,
        ),
    ] = None
    patience: Annotated[
        int | None,
        Setting(
            "How many later decisions a decision waits for its answer, before it counts as without reward; if not "
            "set, for ever. Batches must not be larger.",
            COUNT,
            "decisions",
            proved=True,
        ),
    ] = None
    period: Annotated[
        int,
        Setting(
            "The length of a rhythm (a day, a week): epochs begin, and rounds enter the evidence, by whole periods. "
            "Values are then averages over a period, however gaps rise and fall within it. No batch may reach into the "
            "next period.",
            COUNT,
            "rounds",
            proved=True,
        ),
    ] = 1
    recent: Annotated[
        int | None,
        Setting(
            "Count recent rounds only: whenever so many have passed without a certificate (and the period is over), "
            "evidence begins anew, and dropped candidates return. Values are averages over the rounds that count; "
            "delta is spent over all such stretches. If not set, all rounds count.",
            COUNT,
            "rounds",
            proved=True,
        ),
    ] = None
    open_field: Annotated[
        bool,
        Setting(
            "Whether candidates may come and go in ways that depend on the data; half of delta is set aside for that. "
            "Other changes must be planned.",
            FLAG,
            proved=True,
        ),
    ] = False

    def check_together(self) -> None:
        """Without an epsilon there is a budget."""
        if self.epsilon is None and self.max_rounds is None:
            raise InputError(
                "epsilon=None asks for the smallest epsilon that a budget certifies; say the budget, max_rounds, too."
            )
        super().check_together()


@dataclass(frozen=True, kw_only=True)
class Visitors(Checked):
    """The traffic."""

    production: Annotated[
        str | None,
        Setting("The name of the candidate that visitors see without this experiment.", TEXT, proved=True),
    ] = None
    exposure: Annotated[
        float,
        Setting(
            "The share of visitors who take part; all others see production's list as it is. The promise is the same, "
            "in more rounds.",
            SHARE,
            proved=True,
        ),
    ] = 1.0
    max_loss: Annotated[
        float | None,
        Setting(
            "Explore no further when the reward lost so far, beside showing production's list to all, may have reached "
            "so much: when the upper 95% limit of its estimate does.",
            POSITIVE,
            "reward",
            proved=True,
        ),
    ] = None
    max_harm: Annotated[
        float | None,
        Setting(
            "Explore no further when visitors are proven to get less than production's list alone would bring, by more "
            "than this share of it: of the reward, or of a further metric (of a cost: more).",
            FRACTION,
            proved=True,
        ),
    ] = None
    false_stop: Annotated[
        float | None,
        Setting(
            "The probability with which max_harm stops though no round does more harm; if not set, 0.05.",
            FRACTION,
            proved=True,
        ),
    ] = None
    objective: Annotated[
        str,
        Setting(
            'What is to be small: "rounds" until the certificate, or the "reward" that is lost meanwhile, in more '
            "rounds: then most of them show a candidate's own list, drawn by how likely it is to be the best.",
            one_of("rounds", "reward"),
            proved=True,
        ),
    ] = "rounds"
    metrics: Annotated[
        Sequence[Metric],
        Setting(
            "Further values of shown items, each with a margin: the one that is chosen is the best of those that are "
            "certified not to be worse than production by more.",
            METRICS,
            proved=True,
        ),
    ] = ()

    def check_together(self) -> None:
        """Shares, losses and margins are about a candidate that is in production."""
        if self.production is None and self.metrics:
            raise InputError(
                "metrics have margins against the candidate that visitors see without this experiment: say which one "
                "that is, production=<its name>."
            )
        if self.production is None and (self.exposure < 1 or self.max_loss is not None or self.max_harm is not None):
            raise InputError(
                "exposure, max_loss and max_harm are about the candidate that visitors see without this experiment: "
                "say which one it is, production=<its name>."
            )
        if self.max_harm is None and self.false_stop is not None:
            raise InputError("false_stop is the rate of false stops of max_harm: say that too, or leave it out.")
        super().check_together()


@dataclass(frozen=True, kw_only=True)
class Beforehand(Checked):
    """What is known beforehand."""

    prior_scores: Annotated[
        ArrayLike | None,
        Setting(
            "What is known of each candidate beforehand, in their order, such as its hit rate on held-out data. It "
            "decides who leads and what is staked at first; the promise never depends on it.",
            NUMBERS,
            "reward per round",
            proved=True,
        ),
    ] = None
    prior_error: Annotated[
        float | None,
        Setting("The standard error of such a score; if not set, epsilon.", POSITIVE, "reward per round", proved=True),
    ] = None

    def check_together(self) -> None:
        """An error is that of scores."""
        if self.prior_error is not None and self.prior_scores is None:
            raise InputError("prior_error is the standard error of prior_scores; give these too, or leave it out.")
        super().check_together()


@dataclass(frozen=True, kw_only=True)
class Exploring(Checked):
    """The exploration."""

    exploration: Annotated[
        str | Exploration | None,
        Setting(
            "How an epoch explores; in Python also an object of your own, which no file holds. If not set, as this "
            "kind of learner does.",
            Range(str, _check_exploration, choices=("adaptive", "lists", "mixture", "ab-test", "two-phase")),
            proved=True,
        ),
    ] = None
    first_epoch: Annotated[int, Setting("The first epoch's length.", COUNT, "rounds", proved=True)] = 300
    epoch_growth: Annotated[
        float,
        Setting("Each further epoch lasts (epoch_growth − 1) times all rounds so far.", GROWTH, proved=True),
    ] = 1.2
    max_evaluated: Annotated[
        int,
        Setting(
            "Up to how many candidates are evaluated on every context; while more are left, uniform lists are mixed "
            "with the lists of the front runners.",
            COUNT,
            "candidates",
            proved=True,
        ),
    ] = 1000
    shuffled: Annotated[
        float | None,
        Setting(
            "In natural order the share of drawn lists that are put into random order, by which it is seen what places "
            "do. If not set, a fifth in the first 2,000 rounds and a twentieth later.",
            Range(float, _check_part, least=0, most=1),
            proved=True,
        ),
    ] = None
    weighting: Annotated[
        str,
        Setting(
            "What a total counts for where candidates' own lists are shown; only totals have a choice.",
            one_of("lists", "pseudo-inverse"),
            proved=True,
        ),
    ] = "lists"
    eliminate: Annotated[
        bool, Setting("Whether an A/B/n test no longer shows dropped candidates.", FLAG, proved=True)
    ] = False


@dataclass(frozen=True, kw_only=True)
class Checking(Checked):
    """What others can check."""

    audited: Annotated[
        float | None,
        Setting(
            "Keep a record from which others can check the certificate (`certificate`), with the candidates' lists of "
            "all rewarded rounds and of this share of all; random numbers are then a keyed hash of a secret seed and "
            "the decision's number. If not set, no such record is kept.",
            SHARE,
            proved=True,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Objects(Checked):
    """What no file holds."""

    guards: Annotated[
        Sequence[Guard],
        Setting(
            "Guards of your own, beside those that watch anyway (`comband.certify.notifications.Guard`).",
            OBJECT,
            proved=True,
        ),
    ] = ()
    seed: Annotated[
        Seed, Setting("An int, a SeedSequence or a Generator; the same seed gives the same run.", OBJECT, proved=True)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class Spec(Objects, Checking, Exploring, Beforehand, Visitors, Promise):
    """All of it.

    >>> spec = Spec(epsilon=0.01, production="today", exposure=0.2)
    >>> said(spec)
    {'epsilon': 0.01, 'production': 'today', 'exposure': 0.2}
    """

    def check_together(self) -> None:
        """What groups must be to each other."""
        super().check_together()
        if self.recent is not None and self.recent < 2 * self.first_epoch:
            raise InputError(
                f"recent must be at least 2·first_epoch = {2 * self.first_epoch:,} rounds, got {self.recent}: a few "
                "epochs are needed until anything can be certified."
            )
        if self.max_loss is not None and self.recent is not None:
            raise InputError("max_loss is about all rounds, and recent forgets those before: leave one of them out.")

    def options(self, problem: Problem, policies: PolicySet) -> frozenset[str]:
        """The names of settings that differ from their defaults, and of how page and candidates are read: what a claim
        must know of. Those that a class of its own adds, and declares as proved, concern no claim.
        """
        added = proved(type(self)) - proved(Spec)
        used = set(said(self)) - {"epsilon", "seed"} - added | ({"no epsilon"} if self.epsilon is None else set())
        return reading_options(problem, policies) | used


def proved(spec: type[Spec]) -> frozenset[str]:
    """The settings with which all claims were proved."""
    return frozenset(name for name, one in declared(spec).items() if one.setting.proved)


def check_guarded(spec: Spec, problem: Problem) -> None:
    """Refuse what has not been proved together with further metrics."""
    if reading_of(problem).TOTAL:
        raise InputError(
            "metrics are values of shown items, and this problem's feedback is the total of a list, of which no item "
            'tells its part: leave metrics out, or state feedback="items".'
        )
    if reading_of(problem).natural:
        raise InputError(
            'order="natural", which factors of places mean by themselves, has not been proved together with metrics, '
            'whose bounds are those of lists in random order: leave metrics out, or state order="random".'
        )
    for name, used in (("recent", spec.recent is not None), ("open_field", spec.open_field)):
        if used:
            raise InputError(
                f"{name} has not been proved together with metrics, whose accounts follow the lead from the first "
                "round on among the candidates of the start: leave one of them out."
            )


def check_breaker(spec: Spec, problem: Problem) -> None:
    """Refuse what the breaker's bets were not proved with."""
    reading = reading_of(problem)
    if reading.TOTAL or not reading.SETS:
        raise InputError(
            "max_harm compares what visitors bring with what production's items would have brought: that needs rewards "
            "of single items whose places do not matter. Leave max_harm, places or the feedback out."
        )
    if spec.recent is not None:
        raise InputError("max_harm is about all rounds, and recent forgets those before: leave one of them out.")


def check_by_chance(spec: Spec, problem: Problem, policies: PolicySet) -> None:
    """Refuse what does not go with candidates that are given by the probabilities of items."""
    check_drawable(problem, policies)
    if spec.audited is not None:
        raise InputError(
            "the record that others check (audited) holds candidates' lists, and these are given by the probabilities "
            "of items: leave audited out."
        )


def check_recorded(spec: Spec, problem: Problem) -> None:
    """Refuse what the record that others check does not hold."""
    if reading_of(problem).natural:
        raise InputError(
            'the record that others check (audited) holds no probabilities of places, which order="natural" (factors '
            'of places mean it by themselves) needs: leave audited out, or state order="random".'
        )
    if spec.max_harm is not None:
        raise InputError(
            "the record that others check (audited) does not say when visitors are proven to be harmed (max_harm): "
            "leave one of them out."
        )
    if reading_of(problem).factors is not None and (spec.exposure < 1 or spec.objective == "reward"):
        raise InputError(
            "the record that others check (audited) holds no probabilities of places, which candidates' own lists need "
            "where factors of places are stated: leave audited out, or exposure and objective."
        )
    if spec.metrics:
        raise InputError(
            "the record that others check (audited) holds one reward per item, and no further metrics: leave audited "
            "or metrics out."
        )


def check_fitted(spec: Spec, exploration: str | Exploration) -> None:
    """Refuse what cannot be done with factors of places that are fitted as rounds come."""
    if exploration != "adaptive":
        here = f'"{exploration}"' if isinstance(exploration, str) else f"a {type(exploration).__name__}"
        raise InputError(
            'places="fit" is for the exploration "adaptive", which shows lists in random order until factors are '
            f"clear, and this one is {here}: leave it out, or state factors."
        )
    if spec.max_loss is not None:
        raise InputError(
            'max_loss is about all rounds, and with places="fit" those until factors are clear do not count: leave one '
            "of them out, or state factors."
        )


# ---- explorations by name --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """An exploration that has a name: how it is made, and those settings of its own that it takes."""

    make: Callable[[Spec, Problem], Exploration]
    takes: frozenset[str] = frozenset()


def _adaptive(spec: Spec, problem: Problem) -> Exploration:
    of_items = DisagreementExploration(spec.max_evaluated)
    return MidzunoExploration() if reading_of(problem).TOTAL else of_items


def _lists(spec: Spec, problem: Problem) -> Exploration:
    return UniformTotalsExploration() if reading_of(problem).TOTAL else UniformListsExploration()


def _mixture(spec: Spec, problem: Problem) -> Exploration:
    if reading_of(problem).TOTAL:
        return OwnListExploration() if spec.weighting == "pseudo-inverse" else WholeListExploration()
    if spec.weighting != "lists":
        raise InputError('single rewards need no pseudo-inverse: leave weighting out, or state feedback="total".')
    return UniformMixtureExploration()


EXPLORATIONS: dict[str, Way] = {
    "adaptive": Way(_adaptive, frozenset({"max_evaluated", "exposure", "objective", "shuffled"})),
    "lists": Way(_lists),
    "mixture": Way(_mixture, frozenset({"weighting"})),
    "ab-test": Way(lambda spec, problem: ArmsExploration(spec.eliminate), frozenset({"eliminate"})),
    "two-phase": Way(lambda spec, problem: DoublingExploration()),
}
_OF_EXPLORATIONS = frozenset().union(*(way.takes for way in EXPLORATIONS.values()))
_OF_OBJECTS = frozenset({"exposure", "objective", "shuffled"})  # which a standing tells an exploration of one's own


def exploration_of(spec: Spec, problem: Problem, usual: str) -> Exploration:
    """The exploration that a spec asks for, `usual` where it names none; refuses settings that it cannot heed."""
    name, asked = usual if spec.exploration is None else spec.exploration, said(spec)
    takes = EXPLORATIONS[name].takes if isinstance(name, str) else _OF_OBJECTS
    for one in sorted((_OF_EXPLORATIONS - takes) & asked.keys()):
        able = " or ".join(repr(other) for other, way in EXPLORATIONS.items() if one in way.takes)
        here = repr(name) if isinstance(name, str) else f"a {type(name).__name__}"
        raise InputError(f"{one} is for the exploration {able}, and this one is {here}: leave it out, or explore so.")
    if reading_of(problem).FITTED:
        check_fitted(spec, name)
    if "shuffled" in asked and not reading_of(problem).natural:
        raise InputError(
            f"shuffled={asked['shuffled']:g} is the share in random order of lists in natural order, and these are "
            'not: leave it out, or state order="natural".'
        )
    if not isinstance(name, str):
        return name
    if not reading_of(problem).OWN_LISTS:
        for one in ("objective", "exposure"):
            if one in asked:
                value = f'"{asked[one]}"' if one == "objective" else f"{asked[one]:g}"
                raise InputError(
                    f"{one}={value} is for rewards of single items: leave it out, or state the problem with its items' "
                    "rewards."
                )
    return EXPLORATIONS[name].make(spec, problem)
