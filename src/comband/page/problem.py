"""The setting, and every check on outside input with its message.

Letters of the mathematics: K = `n_actions`, m = `list_size`, s = `sparsity`, ρ = `max_reward`, γ = `floor`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from comband.page.declaring import Range, Setting, chosen

# Rewards and weights come through floating point: sums may pass their bound by this much.
TOLERANCE = 1e-9

# A generator of double precision (53 bits) draws nothing that is rarer: a smaller propensity is a mistake (often the
# probability of a whole list), and weights of 1/q and their squares stay far from overflow.
SMALLEST_PROPENSITY = 2.0**-53
NO_SUCH_DRAW = "random numbers of 53 bits draw nothing with a probability below 1.1e-16"

# A positive reward below has a square that vanishes.
SMALLEST_REWARD = 1e-100

# A smaller share of uniform lists is none, a smaller bound on rewards is better told by scaling them, and values that
# are closer than this share of the largest reward cannot be told apart in double precision.
_SMALLEST_FLOOR = 1e-12
_SMALLEST_SPARSITY = 1e-9
_SMALLEST_EPSILON = 1e-12
_LARGEST_EFFECT = 1e3  # of one place over another
_SMALLEST_FRACTION = 1e-150  # a count over it is still a number


class InputError(ValueError):
    """Something handed to comband is not what was expected; nothing was changed.

    >>> import comband as cb
    >>> try:
    ...     cb.Problem(n_actions=3, list_size=5)
    ... except cb.InputError as error:  # a ValueError, too
    ...     print(str(error).split(": ")[0])
    list_size must not exceed n_actions, got list_size=5 with n_actions=3
    """


class UnknownDecisionError(InputError):
    """A reward came for a decision that this learner never made.

    >>> import numpy as np
    >>> import comband as cb
    >>> problem = cb.Problem(n_actions=12, list_size=3, sparsity=1)
    >>> shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    >>> policies = shop.candidates(4, seed=2)
    >>> visitors = shop.sample(1, np.random.default_rng(4))
    >>> elsewhere = cb.AdaptiveComband(problem, policies, epsilon=0.1, seed=3).ask(visitors.contexts)
    >>> learner = cb.AdaptiveComband(problem, policies, epsilon=0.1, seed=3)
    >>> try:
    ...     learner.tell(elsewhere, visitors.answer(elsewhere.lists))
    ... except cb.UnknownDecisionError as error:
    ...     print(type(error).__name__)
    UnknownDecisionError
    """


# ---- what settings take; see `comband.page.declaring` ----------------------------------------------------------------


def _whole(name: str, value: Any) -> int:
    return check_count(name, value)


COUNT = Range(int, _whole, least=1)
FLAG = Range(bool, lambda name, value: check_flag(name, value))
FRACTION = Range(float, lambda name, value: check_fraction(name, value), above=0, below=1)
POSITIVE = Range(float, lambda name, value: check_positive(name, value), above=0)
SHARE = Range(float, lambda name, value: check_share(name, value), above=0, most=1)
NUMBERS = Range(list, lambda name, value: tuple(as_floats(name, value).tolist()))
TEXT = Range(str, lambda name, value: check_text(name, value))
PLACES = Range(list, lambda name, value: value, choices=("pairs", "fit"))  # or one factor for each place


def one_of(*words: str) -> Range:
    """One of these words."""
    return chosen(words, lambda name, value, words: check_choice(name, value, words))


@dataclass(frozen=True, slots=True, repr=False)
class Problem:
    """K actions, lists of m distinct actions, rewards in [0, 1] of which one round holds at most s in all.

    Parameters
    ----------
    n_actions:
        K, how many actions (items, labels) there are; they are the integers 0 … K−1.
    list_size:
        m, how many are shown at once.
    sparsity:
        s, a bound on the sum of *all* K rewards of one round (‖r‖₁ ≤ s). None when it is not known:
        then only the trivial bound m on the observed rewards is used.
    feedback:
        What is seen of a shown list: "items", the reward of each of its actions; "total", only their sum (revenue or
        clicks of a page). Learners that cannot learn from totals say so.
    places:
        How the place of an item on the page bears on its reward. None: not at all; where it does, values are those of
        lists in random order. Factors θ (m,), one per place: the reward in place k is θ_k/θ_0 times what it is in the
        first (*examination*; see `fit_examination`); they are kept as θ/θ_0. "fit": by factors that are not known, and
        are fitted on rounds in random order as they come. "pairs": it depends on item and place in any way. Parts of
        comband that read a list as a set refuse problems with places.
    order:
        In which order lists are shown. "random": given the set, all orders are alike, but for production's page, which
        is shown as it is to visitors who do not take part, and with factors all candidates' own lists. "natural": as a
        ranker would, each item where candidates show it or near it, and candidates' own lists as they are; decisions
        then state the probability of each item in each place. None: "natural" where factors are stated (and that is
        what is kept), else "random"; pairs have their places, and no order beside.

    >>> Problem(n_actions=500, list_size=5, sparsity=1).max_reward
    1.0
    >>> Problem(n_actions=500, list_size=3, places=[2, 1, 1]).places
    (1.0, 0.5, 0.5)
    """

    n_actions: Annotated[int, Setting("How many items there are, K.", COUNT, "items")]
    list_size: Annotated[int, Setting("How many are shown at once, m.", COUNT, "items")]
    sparsity: Annotated[
        float | None,
        Setting("At most so much reward per round, if that is known (1: one click).", POSITIVE, "reward per round"),
    ] = None
    feedback: Annotated[
        str,
        Setting("What is seen of a list: the reward of each of its items, or their total.", one_of("items", "total")),
    ] = "items"
    places: Annotated[  # what any array of numbers is made into, (m,) floats, or a word
        Any,
        Setting(
            "How the place of an item bears on its reward: one factor for each place, factors that are fitted as "
            "rounds come (fit), or in any way (pairs); left out: not at all.",
            PLACES,
        ),
    ] = None
    order: Annotated[
        str | None,
        Setting(
            "In which order lists are shown: natural (as a page would, with the exact probability of each item in each "
            "place), or random; left out: natural where factors of places are stated, random where places do not "
            "matter.",
            one_of("natural", "random"),
        ),
    ] = None

    def __post_init__(self) -> None:
        for name in ("n_actions", "list_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}.")
            object.__setattr__(self, name, int(value))
        if self.n_actions >= 2**31:
            raise InputError(f"n_actions must be below 2**31, got {self.n_actions}.")
        if self.list_size > self.n_actions:
            raise InputError(
                f"list_size must not exceed n_actions, got list_size={self.list_size} with "
                f"n_actions={self.n_actions}: a list shows distinct actions."
            )
        if self.sparsity is not None:
            s = check_number("sparsity", self.sparsity)
            if not 0 < s <= self.n_actions:
                raise InputError(
                    f"sparsity must lie in (0, n_actions] = (0, {self.n_actions}], got {self.sparsity!r}; "
                    "leave it out (None) if no bound on a round's rewards is known."
                )
            if s < _SMALLEST_SPARSITY:
                raise InputError(
                    f"sparsity must be at least {_SMALLEST_SPARSITY:g}, got {self.sparsity!r}: divide the rewards by "
                    "it, and state a sparsity of 1."
                )
            object.__setattr__(self, "sparsity", s)
        if check_choice("feedback", self.feedback, ("items", "total")) == "total":
            check_some_left(self)
        object.__setattr__(self, "places", check_places(self.places, self.list_size, fit=True))
        if self.places == "fit" and self.order == "random":
            raise InputError(
                'places="fit" shows lists in natural order as soon as factors are fitted: leave order="random" out, or '
                "state factors."
            )
        if self.order is None:
            object.__setattr__(self, "order", usual_order(self.places))
        else:
            check_choice("order", self.order, ("natural", "random"))
            if self.places == "pairs":
                raise InputError(
                    f"pairs are items in their places, which have no order beside: leave order={self.order!r} out, or "
                    "state factors of places."
                )
            if self.order == "natural" and self.feedback == "total":
                raise InputError(
                    'order="natural" is for rewards of single items: totals are of lists whose order does not matter, '
                    "so leave it out."
                )
        if self.places is not None or self.order == "natural":
            if self.feedback == "total":
                raise InputError('totals do not tell which place was answered: leave places out with feedback="total".')
            if self.n_actions * self.list_size >= 2**31:
                raise InputError(
                    f"n_actions times list_size must be below 2**31 with places, got {self.n_actions}·{self.list_size}."
                )

    def __repr__(self) -> str:
        """As it would be written: what has its default is left out."""
        usual = {"order": usual_order(self.places)}
        stated = [field for field in fields(self) if getattr(self, field.name) != usual.get(field.name, field.default)]
        return f"Problem({', '.join(f'{field.name}={getattr(self, field.name)!r}' for field in stated)})"

    @property
    def max_reward(self) -> float:
        """ρ = min(s, m), the most that one shown list can collect."""
        m = float(self.list_size)
        return m if self.sparsity is None else min(self.sparsity, m)

    @property
    def uniform_propensity(self) -> float:
        """m/K, the probability that a uniform list shows a given action."""
        return self.list_size / self.n_actions

    @property
    def fill_share(self) -> float:
        """f = (m−1)/(K−1), the probability that an action is among m − 1 uniform others of a given one."""
        return (self.list_size - 1) / max(self.n_actions - 1, 1)


def check_some_left(problem: Problem) -> None:
    """Refuse lists that show everything: their totals are all alike."""
    if problem.list_size == problem.n_actions:
        raise InputError(
            f"totals need lists that leave something out, got list_size = n_actions = {problem.n_actions}: every list "
            "has the same total, and nothing can be told apart."
        )


def check_itemised(problem: Problem, who: str) -> None:
    """Refuse totals where the reward of each shown action is needed."""
    if problem.feedback == "total":
        raise InputError(
            f'{who} learns from the rewards of single actions and cannot use totals; it needs feedback="items".'
        )


def check_number(name: str, value: Any) -> float:
    """Return `value` as a finite float; truth values and text are none."""
    if isinstance(value, (bool, np.bool_, str, bytes, bytearray)) or getattr(value, "ndim", 0) > 0:
        raise InputError(f"{name} must be a number, got {value!r}.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {value!r}.") from None
    if not np.isfinite(number):
        raise InputError(f"{name} must be finite, got {number}.")
    return number


def check_places(
    value: Any, list_size: int, *, fit: bool = False
) -> tuple[float, ...] | Literal["pairs", "fit"] | None:
    """Return how places bear on rewards: None, "pairs", or factors relative to the first place; "fit" only for what
    fits them as rounds come.
    """
    if value is None:
        return None
    if isinstance(value, str):
        if value == "fit" and fit:
            return "fit"
        if value == "fit":
            raise InputError(
                'places="fit" is for AdaptiveComband, which fits factors as rounds come; here state factors, which '
                "fit_examination finds on earlier rounds."
            )
        if value != "pairs":
            known = 'None, "pairs", "fit"' if fit else 'None, "pairs"'
            raise InputError(f"places must be {known} or {list_size} factors, one for each place, got {value!r}.")
        return "pairs"
    factors = as_floats("places", value)
    if factors.shape != (list_size,):
        raise InputError(f"places must hold one factor for each of {list_size} places, got shape {factors.shape}.")
    if not np.isfinite(factors).all() or (factors <= 0).any() or factors.max() > _LARGEST_EFFECT * factors.min():
        raise InputError(
            f"factors of places must be above 0 and within {_LARGEST_EFFECT:g} times each other, got "
            f"{factors.tolist()}; a place where nothing is ever answered is no place: make lists shorter."
        )
    return tuple(float(factor) for factor in factors / factors[0])


def usual_order(places: Any) -> Literal["natural"] | None:
    """In which order lists are shown if nothing is said of it: natural where places have factors."""
    return None if places is None or (isinstance(places, str) and places != "fit") else "natural"


def saved_problem(state: Mapping[str, Any]) -> Problem:
    """The problem that a file holds; one that was saved without an order is of lists in random order.

    >>> saved_problem({"n_actions": 9, "list_size": 2, "places": [1, 0.5]})
    Problem(n_actions=9, list_size=2, places=(1.0, 0.5), order='random')
    """
    return Problem(**{**state, "order": saved_order(state.get("places"), state.get("order"))})


def saved_order(places: Any, order: str | None) -> str | None:
    """The order that is meant where one was saved, or none was: then lists were in random order."""
    return "random" if order is None and usual_order(places) is not None else order


def check_problem(value: Any, *, places: bool = False) -> Problem:
    """Return `value` if it is a problem; one with places only for those who know what to do with them."""
    if not isinstance(value, Problem):
        raise InputError(f"problem must be a Problem(n_actions, list_size, sparsity), got {type(value).__name__}.")
    if value.places is not None and not places:
        raise InputError(
            f"places={value.places!r} cannot be taken into account here: this part of comband reads a list as a set. "
            "Give a problem without places; values are then those of lists in random order."
        )
    if value.order == "natural" and not places:
        raise InputError(
            'order="natural" cannot be kept here: this part of comband shows lists in random order. Leave order out.'
        )
    return value


def check_flag(name: str, value: Any) -> bool:
    """Return `value` if it is a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_text(name: str, value: Any) -> str:
    """Return `value` if it is text."""
    if not isinstance(value, str):
        raise InputError(f"{name} must be text, got {value!r}.")
    return value


def check_path(value: Any) -> str | os.PathLike[str]:
    """Return `value` if it can be the path of a file; a number would be taken for an open file of this process."""
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fsdecode(value):
        raise InputError(f"a path must be text without NUL, or a Path, got {value!r}.")
    return value


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return `value` if it is one of these words."""
    if not isinstance(value, str) or value not in choices:
        known = " or ".join([", ".join(f"{word!r}" for word in choices[:-1]), f"{choices[-1]!r}"])
        raise InputError(f"{name} must be {known}, got {value!r}.")
    return value


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """Return `value` as an int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if value > 10**150:
        raise InputError(f"{name} must be at most 1e150, got a number of {len(hex(value)) - 2} hexadecimal digits.")
    return int(value)


def check_fraction(name: str, value: Any) -> float:
    """Return `value` as a float strictly between 0 and 1 (δ, shares)."""
    number = check_number(name, value)
    if not 0 < number < 1:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {number}.")
    if number < _SMALLEST_FRACTION:
        raise InputError(f"{name} must be at least {_SMALLEST_FRACTION:g}, got {number}: no promise is surer.")
    return number


def check_share(name: str, value: Any) -> float:
    """Return `value` as a float above 0 and at most 1, of which enough is left to tell it from 0."""
    number = check_number(name, value)
    if not 0 < number <= 1 or 1 - number == 1:
        raise InputError(f"{name} is a share, above 0 and at most 1, got {value}.")
    return number


def check_positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above 0."""
    number = check_number(name, value)
    if number <= 0:
        raise InputError(f"{name} must be above 0, got {number}.")
    if not 1e-150 <= number <= 1e150:
        raise InputError(f"{name} must lie in [1e-150, 1e150], where squares are numbers, got {number}.")
    return number


def check_floor(value: Any) -> float:
    """Return γ, the share of uniform lists, which must lie in (0, 1]."""
    number = check_number("floor", value)
    if not 0 < number <= 1:
        raise InputError(
            f"floor (the share of uniform lists) must lie in (0, 1], got {number}: "
            "without it some propensities would be zero and nothing could be estimated."
        )
    if number < _SMALLEST_FLOOR:
        raise InputError(f"floor (the share of uniform lists) must be at least {_SMALLEST_FLOOR:g}, got {number}.")
    return number


def check_epsilon(value: Any, problem: Problem) -> float:
    """Return ε, the accuracy that is to be promised, below ρ and large enough to be told from 0."""
    number = check_number("epsilon", value)
    rho = problem.max_reward
    if number <= 0:
        raise InputError(f"epsilon must be above 0, got {number}.")
    if number >= rho:
        raise InputError(
            f"epsilon must lie below {rho:g}, the most that one list can collect in a round, got {number:g}: no "
            "candidate exceeds another by more, so any one of them would do. It is in units of reward per round, not "
            "in per cent."
        )
    if number < _SMALLEST_EPSILON * rho:
        raise InputError(
            f"epsilon must be at least {_SMALLEST_EPSILON * rho:g}, got {number:g}: values so close cannot be told "
            "apart in double precision."
        )
    return number


def check_weights(weights: ArrayLike, n_policies: int) -> NDArray[np.float64]:
    """Return `weights` as a point of the simplex over `n_policies` policies."""
    w = as_floats("weights", weights)
    if w.shape != (n_policies,):
        raise InputError(f"weights must hold one number per policy, shape ({n_policies},), got shape {w.shape}.")
    if not np.isfinite(w).all():
        raise InputError("weights must be finite, got NaN or infinity.")
    if (w < -TOLERANCE).any():
        raise InputError(f"weights must not be negative, got {w.min()} at index {int(w.argmin())}.")
    total = float(w.sum())
    if abs(total - 1) > 1e-6:
        raise InputError(f"weights must sum to 1, got {total!r}; divide them by their sum.")
    w = np.clip(w, 0, None)
    return np.asarray(w / w.sum(), dtype=np.float64)


def check_reward_matrix(rewards: Any, *, n: int) -> sp.csr_array:
    """Return reward estimates as a CSR array (n, K) with finite entries ≥ 0 and no explicit zeros."""
    refuse_masked("rewards", rewards)
    matrix = sp.csr_array(rewards, dtype=np.float64, copy=True)
    if matrix.ndim != 2 or matrix.shape[0] != n:
        raise InputError(f"rewards must be a matrix (contexts, n_actions) with {n} rows, got shape {matrix.shape}.")
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise InputError("rewards must be finite, got NaN or infinity.")
    if (matrix.data < 0).any():
        raise InputError(f"rewards must not be negative, got {matrix.data.min()}.")
    matrix.eliminate_zeros()
    return matrix


def as_generator(seed: int | np.random.SeedSequence | np.random.Generator) -> np.random.Generator:
    """Return a Generator for an int, a SeedSequence or a Generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.SeedSequence):
        return np.random.default_rng(seed)
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return np.random.default_rng(int(seed))
    raise InputError(f"seed must be a whole number of at least 0, a SeedSequence or a Generator, got {seed!r}.")


_LEARNER_STREAM = 0x1EA24E2


def learner_generator(seed: int | np.random.SeedSequence | np.random.Generator) -> np.random.Generator:
    """As `as_generator`, but a stream of the learner's own.

    A world with the same seed (0 by default, like the learner) must not draw the numbers that the learner draws:
    lists would be functions of contexts, and every propensity false.
    """
    as_generator(seed)
    if isinstance(seed, np.random.Generator):
        return seed
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))
    return np.random.default_rng(
        np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, _LEARNER_STREAM), pool_size=root.pool_size)
    )


def refuse_masked(name: str, values: Any) -> None:
    """Raise if an entry is masked: numpy would go on with the number under the mask."""
    for part in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            hidden = int(np.ma.getmaskarray(part).sum())
            raise InputError(
                f"{name} must not be masked, got {hidden:,} of {part.size:,} entries that are: say "
                "what they hold, values.filled(…), or leave these rounds out."
            )


def as_floats(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A copy of `values` as an array of floats."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values.copy()
    refuse_masked(name, values)
    try:
        if np.iscomplexobj(values):
            raise TypeError
        return np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a rectangular array of numbers, got {type(values).__name__}.") from None


def as_column(name: str, given: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """`given` as an array of this type, if that changes no number."""
    if type(given) is not np.ndarray:
        refuse_masked(name, given)
    try:
        array = np.asarray(given)
        if array.dtype == dtype:
            return array
        with np.errstate(invalid="ignore", over="ignore"):  # NaN as a whole number is seen below
            column = (
                np.asarray(array, dtype=dtype)
                if array.dtype.kind in "biuf" or (array.size == 0 and array.dtype.kind != "c")
                else None
            )
    except (TypeError, ValueError, OverflowError):
        column = None
    if column is None or (dtype.kind in "ib" and not np.array_equal(column, array)):
        kind = {"i": "whole numbers", "b": "true or false"}.get(dtype.kind, "numbers")
        raise InputError(f"{name} must be a rectangular array of {kind}, got {type(given).__name__} of other things.")
    return column
