"""What is kept of a log of totals: every round, as its list, its total and the list's share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.candidates import CandidateLists
from comband.evaluation.logs.checks import check_candidate_lists, check_total_rounds, known_contexts, new_ids
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import RawRounds
from comband.evaluation.logs.id_memory import IdMemory
from comband.page.contexts import context_digests
from comband.page.totals import TotalRounds, log_lists_with
from comband.policies.mixture import Mixture
from comband.policies.policy_set import PolicySet
from comband.statistics.pseudo_inverse import mixture_shares


class TotalGather:
    """Collects batches; `problem` has the sparsity that was stated."""

    def __init__(self, candidates: CandidateLists, sparsity: float | None, faults: Faults, *, path: str) -> None:
        if not candidates.items.closed:
            raise LogError(
                f"{path} is a log of totals, and what a total is worth depends on how many items there are: give "
                "--n-actions N (n_actions) if they are the whole numbers 0 … N−1, otherwise --items FILE (catalogue)."
            )
        if candidates.sizes is not None or candidates.probabilities is not None:
            raise LogError(f"{path} is a log of totals, so candidates must show lists, all of one length.")
        self.problem = replace(candidates.problem(sparsity=sparsity), feedback="total")
        self._candidates, self._faults = candidates, faults
        self._ids, self._digests = IdMemory(), IdMemory()
        self._parts: list[tuple[NDArray[Any], ...]] = []
        self.n_rounds = self.repeated = 0

    @property
    def policies(self) -> PolicySet:
        """The candidates, as policies of positions in their table."""
        known = self._candidates
        return PolicySet.from_lists(known.lists, self.problem, names=known.names, catalogue=known.items.catalogue)

    def take(self, batch: RawRounds) -> None:
        """Check a batch and keep its rounds."""
        if len(batch) == 0:
            return
        codes = self._candidates.items.codes(batch.items.ravel()).reshape(batch.items.shape)
        fine = check_candidate_lists(batch.rows, codes, batch.items, self._faults)
        totals, given = batch.rewards[:, 0], batch.propensities
        shares = self._shares(given)
        fine &= check_total_rounds(batch.rows, totals, given, shares, self.problem, self._faults, fine)
        places = self._candidates.contexts.find(batch.contexts)
        fine &= known_contexts(batch.rows, batch.contexts, places, fine, self._faults, self._candidates.contexts)
        if batch.ids is not None:
            fine &= new_ids(self._ids, batch.rows, batch.ids, fine, self._faults)
        part = batch.rows[fine], places[fine], codes[fine].astype(np.int32), totals[fine], shares[fine]
        if batch.ids is None:
            whole = np.concatenate([part[1][:, None], part[2], part[3][:, None], part[4][:, None]], axis=1)
            digests = context_digests(whole[part[3] > 0])
            self.repeated += int(self._digests.repeated((digests >> np.uint64(2)).view(np.int64)).sum())
        self._parts.append(part)
        self.n_rounds += len(part[0])

    def rounds(self, law: Mixture | None = None) -> TotalRounds:
        """All that was kept, with the shares that the log states, or those of the mixture that drew the lists."""
        rows, places, lists, totals, shares = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        if law is not None:
            shares = mixture_shares(law, places, lists)
        return TotalRounds.of_shares(places, lists=lists, totals=totals, shares=shares, problem=self.problem, ids=rows)

    def _shares(self, given: NDArray[np.float64]) -> NDArray[np.float64]:
        """q(a): from the probability of the list (n, 1), those of its items to be first (n, m), or unknown (n, 0)."""
        if given.shape[1] == 0:
            return np.full(len(given), self.problem.uniform_propensity)
        if given.shape[1] == 1:  # of lists of one item both are the same
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(np.exp(np.log(given[:, 0]) + log_lists_with(self.problem)))
        return np.asarray(given.sum(axis=1))
