"""What `evaluate` takes, and what it adds if it is given more: the rule that drew the lists, or a model of rewards."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from comband.evaluation.answers import Evaluation
from comband.evaluation.clipped import Logging, clipped_gaps
from comband.evaluation.ips import usual_estimates
from comband.evaluation.judging import with_notes
from comband.evaluation.logs.reading import LogReading
from comband.page.frames import is_frame
from comband.page.problem import InputError
from comband.page.rounds import Events, Rounds
from comband.page.totals import TotalRounds
from comband.policies.policy_set import PolicySet

_CLIPPED = (
    "betting bounds, valid at any number of rounds; epsilon from differences with clipped weights, whatever could not "
    "be shown"
)


def check_kind(rounds: Any) -> None:
    """Refuse what is no log, before anything is said about what goes with it."""
    if isinstance(rounds, (Rounds, Events, TotalRounds)) or is_frame(rounds):
        return
    files = isinstance(rounds, (str, os.PathLike, LogReading))
    raise InputError(
        f"rounds must be Rounds or Events, got {type(rounds).__name__}"
        + ("; files, and what read_log gave, are for evaluate_log." if files else ".")
    )


def check_extras(rounds: Any, places: Any, min_propensity: float | None, logging: Any, reward_model: Any) -> None:
    """Refuse what goes with whole rounds of items only."""
    if logging is None and reward_model is None:
        return
    if not isinstance(rounds, Rounds) or places is not None:
        raise InputError(
            "logging and reward_model are for Rounds without places: give these, or leave them out. (A log in a file "
            "or data frame: read_log(…, rounds=True), then evaluate_log(reading, reward_model=…).)"
        )
    if logging is not None and min_propensity is not None:
        raise InputError("logging tells every item's propensity: leave min_propensity out.")


def with_extras(
    answer: Evaluation, rounds: Any, policies: PolicySet, *, logging: Logging | None, reward_model: Any
) -> Evaluation:
    """The answer with bounds on differences by `clipped_gaps`, if a rule can be asked, and with the usual estimates."""
    if logging is not None:
        best, most = answer.candidates[0].index, answer.max_reward
        gaps = clipped_gaps(rounds, policies, best, logging=logging, max_reward=most, delta=answer.delta)
        answer = answer.with_gaps(gaps, _CLIPPED)
        answer = with_notes(answer, stated=False)
    if reward_model is not None:
        usual = usual_estimates(rounds, policies, reward_model=reward_model, delta=answer.delta)
        answer = replace(answer, usual=usual)
    return answer


def with_usual(answer: Evaluation, reading: LogReading, reward_model: Any) -> Evaluation:
    """The answer with the usual estimates on all rounds of a log, where these were kept."""
    if reading.rounds is None:
        if reward_model is not None:
            raise InputError("reward_model needs all rounds of the log: read it with read_log(…, rounds=True).")
        return answer
    if reading.places is not None and reading.places != "pairs":
        raise InputError("the usual estimates know no factors of places: read the log without rounds=True.")
    if reward_model is not None and reading.format.positional:
        raise InputError(
            "a reward_model speaks of items, but the propensities of this log are those of items in slots."
        )
    usual = usual_estimates(reading.rounds, reading.policies, reward_model=reward_model, delta=answer.delta)
    return replace(answer, usual=usual)
