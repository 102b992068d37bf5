"""A log without propensities: values under the assumption that how often items were shown tells how likely they were.

Within a group of rounds (all of them, or those alike in some columns) the probability that an item is in the list is
taken to be the share of rounds that showed it. That is right if, within a group, what was shown did not depend on
anything that also bears on the reward. No log can confirm it, so nothing here is a promise. What can be said is how
wrong the assumption may be before the answer changes.

Let b lead, and let every true propensity lie within a factor Γ of the estimated one, on either side. Items that both b
and a rival show count for both alike. Of the others, those of b weigh at least 1/Γ of what they do here, and those of
the rival at most Γ times as much. So b stays ahead of that rival while Γ² < A/B, A being the sum of r/Q over what b
alone shows and B that of the rival. The smallest √(A/B) over rivals is the `sensitivity`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.candidates import CandidateLists, read_candidates
from comband.evaluation.logs.columns import as_keys, as_rewards
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import need_columns, note_bad_keys
from comband.evaluation.logs.keys import unify_keys
from comband.evaluation.logs.reading import LogReading, read_log
from comband.evaluation.logs.registry import rename_columns
from comband.evaluation.logs.tables import TableFile, arrow, open_table
from comband.evaluation.logs.usual_names import usual_names
from comband.page.frames import Tabular
from comband.page.problem import InputError
from comband.statistics.importance import SharedActions, ValueSums

Floats = NDArray[np.float64]
_NEEDED = ("round", "item", "reward")


@dataclass(frozen=True, eq=False, slots=True)
class AssumedEvaluation(Tabular):
    """What a log without propensities says, if items were shown as often as they were likely; no promise.

    names, values, standard_errors:
        (P,) of the candidates, in their order; errors know of luck only, not of a wrong assumption.
    covered:
        (P,) the share of each candidate's items that the log shows at all, in their group. The others count as 0.
    factors:
        (P,) by how much estimated propensities may be wrong, each for itself, before the candidate overtakes the
        leader; infinite where it cannot.
    rounds, by:
        How many rounds there are, and the columns that make groups of them.

    >>> import comband as cb
    >>> import pandas as pd
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"]})
    >>> shown = {"round": range(8), "context": 1, "item": ["tea", "rice"] * 4, "reward": [1, 1, 1, 0, 1, 0, 1, 0]}
    >>> told = cb.evaluation.evaluate_assuming(pd.DataFrame(shown), lists)
    >>> told.leader, round(told.sensitivity, 6)
    ('old', 2.0)
    """

    names: tuple[str, ...]
    values: Floats
    standard_errors: Floats
    covered: Floats
    factors: Floats
    rounds: int
    by: tuple[str, ...]

    @property
    def leader(self) -> str:
        """The candidate of highest estimated value."""
        return self.names[int(self.values.argmax())]

    @property
    def sensitivity(self) -> float:
        """By which factor every propensity may be wrong before another one leads."""
        return float(np.delete(self.factors, int(self.values.argmax())).min(initial=np.inf))

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate, the leader first."""
        order = np.argsort(-self.values, kind="stable")
        told = {
            "value": self.values,
            "standard_error": self.standard_errors,
            "covered": self.covered,
            "overtakes_at_factor": self.factors,
        }
        return {"candidate": [self.names[i] for i in order]} | {
            name: column[order].tolist() for name, column in told.items()
        }

    def headline(self) -> str:
        """What is said, with the assumption first."""
        among = f"rounds alike in {', '.join(self.by)}" if self.by else "all rounds"
        if self.values.max() <= 0:
            return f"No promise, and no guess: no candidate's item brought a reward in {self.rounds:,} rounds."
        lead = (
            "whatever they are" if np.isinf(self.sensitivity) else f"by up to a factor of {self.sensitivity:.3g} each"
        )
        return (
            f"No promise: the log has no propensities. Assumed that within {among} an item was as likely to be shown "
            f"as it was shown often, {self.leader!r} leads. It would still lead if propensities were wrong {lead}. "
            f"{self.rounds:,} rounds."
        )


def evaluate_assuming(
    log: Any,
    candidates: Any,
    *,
    by: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    sparsity: float | None = None,
    on_error: str = "refuse",
) -> AssumedEvaluation:
    """Estimate candidates from a click log without propensities, under an assumption, with its sensitivity.

    Parameters
    ----------
    log:
        A file or a data frame with one row per shown item: `round`, `item`, `reward` and perhaps `context`, or what
        these are usually called.
    candidates:
        What `read_candidates` gave, or takes.
    by:
        Columns within whose values lists did not depend on what bears on rewards: the ranker's version, the device, the
        segment. Everything that the system looked at belongs here.
    columns, sparsity, on_error:
        As for `read_log`.

    >>> import pandas as pd
    >>> from comband.evaluation import evaluate_assuming
    >>> lists = pd.DataFrame({"context": 1, "candidate": ["old", "new"], "item_0": ["tea", "rice"]})
    >>> shown = {"round": range(8), "context": 1, "item": ["tea", "rice"] * 4, "reward": [1, 1, 1, 0, 1, 0, 1, 0]}
    >>> print(evaluate_assuming(pd.DataFrame(shown), lists).headline()[:46])
    No promise: the log has no propensities. Assum
    """
    if isinstance(by, str) or not all(isinstance(name, str) for name in by):
        raise InputError(f"by must be the names of columns, such as ('device',), got {by!r}.")
    table = rename_columns(open_table(log), columns)
    names = usual_names(table)
    table = table.renamed({ours: theirs for ours, theirs in names.items() if ours in (*_NEEDED, "context")})
    need_columns(table, [*_NEEDED, *by], "a click log with one row per shown item")
    if not isinstance(candidates, CandidateLists):
        candidates = read_candidates(candidates, on_error=on_error)
    frame = _with_propensities(table, tuple(by))
    reading = read_log(frame, candidates, format="impressions", sparsity=sparsity, on_error=on_error)
    return _judged(reading, tuple(by))


def _with_propensities(table: TableFile, by: tuple[str, ...]) -> Any:
    """The log as a table with the share of a group's rounds that showed each item."""
    keys = [*_NEEDED[:2], *(["context"] if "context" in table.names else [])]
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in (*keys, *by, "reward")}
    faults = Faults(str(table.path))
    for piece in table.pieces(list(parts), faults):
        found = {name: as_keys(piece.columns[name]) for name in (*keys, *by)}
        good = ~note_bad_keys(piece, found, faults)
        for name, column in found.items():
            parts[name].append(column.values[good])
        parts["reward"].append(as_rewards(piece.columns["reward"]).values[good])
    faults.settle("refuse")
    if not parts["round"] or not sum(map(len, parts["round"])):
        raise LogError(f"{table.path} holds no row.")
    values = {name: unify_keys(parts[name]) for name in (*keys, *by)}
    group = np.zeros(len(values["round"]), dtype=np.int64)
    for name in by:
        number = np.unique(values[name], return_inverse=True)[1]
        group = np.unique(group * (int(number.max()) + 1) + number, return_inverse=True)[1]
    rounds, items = (np.unique(values[name], return_inverse=True)[1] for name in ("round", "item"))
    n_rounds = np.bincount(np.unique(np.stack([group, rounds]), axis=1)[0])
    pairs, place = np.unique(np.stack([group, items]), axis=1, return_inverse=True)
    seen = np.unique(np.stack([place.ravel(), rounds]), axis=1)[
        0
    ]  # a round shows an item once, however often it says so
    shown = np.bincount(seen, minlength=pairs.shape[1])
    pa = arrow()
    columns = {name: pa.array(column.tolist()) for name, column in values.items() if name in keys}
    columns["reward"] = pa.array(np.concatenate(parts["reward"]))
    columns["propensity"] = pa.array(shown[place.ravel()] / n_rounds[group])
    return pa.table(columns)


def _judged(reading: LogReading, by: tuple[str, ...]) -> AssumedEvaluation:
    events, policies, m = reading.events, reading.policies, reading.problem.list_size
    sums = ValueSums.from_events(events, policies)
    best = int(sums.means.argmax())
    own, others = np.zeros(len(policies)), np.zeros(len(policies))
    weights = events.rewards / events.propensities
    blocks = SharedActions.blocks(policies, events.contexts, events.rows, events.actions) if len(events) else ()
    for block in blocks:
        inside = np.asarray(block.inside, dtype=np.float64)
        leads = inside[:, best : best + 1]
        w = weights[block.events]
        own += w @ np.maximum(leads - inside, 0.0)
        others += w @ np.maximum(inside - leads, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(others > 0, np.sqrt(own / others), np.inf)
    factors[best] = np.inf
    weight = np.zeros(len(policies))
    sample = reading.sample
    if sample is not None and len(sample):
        made = sample.decisions
        rows = np.repeat(np.arange(len(sample)), made.lists.shape[1])
        shared = policies.contains(made.contexts, rows, made.lists.ravel())
        weight = (1 / made.propensities.ravel()) @ shared / (len(sample) * m)
    errors = np.sqrt(sums.variances / max(events.n_rounds, 1))
    return AssumedEvaluation(policies.names, sums.means, errors, np.minimum(weight, 1.0), factors, events.n_rounds, by)
