"""What an explorer promises: exact propensities, the same lists elsewhere, and rewards that weigh what they should."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np

from comband.explore.explorers.base import Explorer, explorer_from_state
from comband.page.contexts import Contexts, n_contexts, take_contexts
from comband.page.problem import Problem
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import State, load, save
from comband.policies.policy_set import PolicySet
from comband.worlds.testing.base import Suite, expect

_N = 60
_FALSE_ALARM = 1e-9


class ExplorerSuite(Suite):
    """For an explorer: say `problem`, `policies()`, `explorer(policies)` and `contexts(n, rng)`.

    All evidence divides by propensities: if one of these fails, certificates are worth nothing.

    >>> import numpy as np
    >>> import comband as cb
    >>> from comband.worlds.testing import ExplorerSuite, check
    >>> class OfMine(ExplorerSuite):
    ...     problem = cb.Problem(n_actions=6, list_size=2)
    ...     def policies(self):
    ...         return cb.PolicySet.from_lists([[[0, 1]], [[0, 2]], [[0, 3]]], self.problem)
    ...     def explorer(self, policies):
    ...         return cb.explore.explorers.MixtureExplorer(
    ...             policies, np.arange(3), weights=np.full(3, 1 / 3), floor=0.5, problem=self.problem
    ...         )
    ...     def contexts(self, n, rng):
    ...         return np.zeros(n, dtype=int)
    ...
    >>> check(OfMine)
    """

    problem: Problem

    draws = 20_000
    """How many lists frequencies and means are taken over; a right explorer fails with probability 1e-9 at most."""

    def policies(self) -> PolicySet:
        """The class that it explores."""
        raise NotImplementedError("say which policies to explore: def policies(self).")

    def explorer(self, policies: PolicySet) -> Explorer:
        """Yours, over these policies."""
        raise NotImplementedError("say how to make your explorer: def explorer(self, policies).")

    def contexts(self, n: int, rng: np.random.Generator) -> Contexts:
        """n contexts that the policies can answer."""
        raise NotImplementedError("say how to draw contexts: def contexts(self, n, rng).")

    def test_decisions_are_as_asked(self) -> None:
        """One per context, numbered from `first_id`, of the given epoch; m distinct items with Q in (0, 1]."""
        X = self._some()
        made = self._mine().draw(X, 0, first_id=17, epoch=3).decisions
        m, K = self.problem.list_size, self.problem.n_actions
        expect(made.lists.shape == (_N, m), f"lists must be (n, m) = {(_N, m)}, got {made.lists.shape}.")
        expect(made.ids.tolist() == list(range(17, 17 + _N)), "ids must count up from first_id.")
        expect((made.epochs == 3).all(), "decisions must carry the epoch they were drawn for.")
        expect(made.lists.min() >= 0 and made.lists.max() < K, f"items must lie in 0 … {K - 1}.")
        ordered = np.sort(made.lists, axis=1)
        expect((ordered[:, 1:] != ordered[:, :-1]).all(), "a list shows an item twice.")
        Q = made.propensities
        expect(((Q > 0) & (Q <= 1)).all(), f"propensities lie in (0, 1], got {np.nanmin(Q):g} … {np.nanmax(Q):g}.")

    def test_the_same_numbers_give_the_same_lists_however_contexts_are_cut(self) -> None:
        """Lists depend on contexts and the random stream, not on batches."""
        X, explorer = self._some(), self._mine()
        whole = explorer.draw(X, np.random.default_rng(5)).decisions
        rng = np.random.default_rng(5)
        parts = [take_contexts(X, np.arange(*ends)) for ends in ((0, 1), (1, 21), (21, _N))]
        cut = [explorer.draw(part, rng).decisions for part in parts]
        for column in ("lists", "propensities", "covered", "arms"):
            joined = np.concatenate([getattr(part, column) for part in cut])
            same = np.array_equal(getattr(whole, column), joined)
            expect(same, f"cut into batches of 1, 20 and {_N - 21}, {column} are others.")

    def test_propensities_can_be_computed_anew(self) -> None:
        """`propensities_of` and `all_propensities` say for a drawn list what the decision says."""
        X, explorer = self._some(), self._mine()
        made = explorer.draw(X, 1).decisions
        again = explorer.propensities_of(made.contexts, made.lists)
        expect(np.allclose(again, made.propensities, rtol=1e-9), "propensities_of differs from what was drawn with.")
        rows = np.arange(_N)[:, None]
        dense = explorer.all_propensities(made.contexts).dense()
        expect(np.allclose(dense[rows, made.lists], made.propensities, rtol=1e-9), "all_propensities differs.")
        total = dense.sum(axis=1)
        m = self.problem.list_size
        expect(
            np.allclose(total, m, rtol=1e-9), f"Q of all items sums to m = {m}, got {total.min():g} … {total.max():g}."
        )

    def test_items_are_shown_as_often_as_propensities_say(self) -> None:
        """Frequencies over many lists for one context, for each item within Hoeffding's bound."""
        explorer, one = self._mine(), take_contexts(self._some(), np.zeros(self.draws, dtype=np.int64))
        made = explorer.draw(one, 2).decisions
        K = self.problem.n_actions
        seen = np.bincount(made.lists.ravel(), minlength=K) / self.draws
        Q = explorer.all_propensities(take_contexts(self._some(), np.arange(1))).dense()[0]
        radius = math.sqrt(math.log(2 * K / _FALSE_ALARM) / (2 * self.draws))
        worst = int(np.abs(seen - Q).argmax())
        expect(
            abs(seen[worst] - Q[worst]) <= radius,
            f"item {worst} should be shown with probability {Q[worst]:.4g}; it is in {seen[worst]:.4g} of "
            f"{self.draws:,} lists, which is off by more than {radius:.2g}.",
        )

    def test_the_smallest_propensity_holds_where_it_is_said_to(self) -> None:
        """In a covered round no item of a candidate has less."""
        X, policies = self._some(), self.policies()
        explorer = self.explorer(policies)
        covered = explorer.draw(X, 3).decisions.covered
        dense = explorer.all_propensities(X).dense()
        lists = policies.predict(X, explorer.candidates, problem=self.problem)
        least = np.take_along_axis(dense[:, None, :], lists.astype(np.int64), axis=2).min(axis=(1, 2))
        least = least[covered]
        smallest = float(least.min(initial=1.0))
        expect(
            smallest >= explorer.smallest * (1 - 1e-9),
            f"smallest is {explorer.smallest:.6g}, but in a covered round an item of a candidate has {smallest:.6g}.",
        )
        expect(explorer.smallest <= explorer.smallest_disputed <= 1, "smallest must not exceed smallest_disputed.")

    def test_what_is_kept_is_what_candidates_show(self) -> None:
        """`Drawn.lists`, if there are any, are those of all candidates on the last contexts."""
        X, policies = self._some(), self.policies()
        explorer = self.explorer(policies)
        for keep in (0, 7, _N):
            lists = explorer.draw(X, 4, keep=keep).lists
            if lists is not None:
                last = take_contexts(X, np.arange(_N - len(lists), _N))
                right = policies.predict(last, explorer.candidates, problem=self.problem)
                expect(len(lists) <= keep, f"it was told to keep {keep} contexts' lists and kept {len(lists)}.")
                expect(np.array_equal(lists, right), "the lists it kept are not its candidates' on the last contexts.")

    def test_draws_the_same_lists_elsewhere(self) -> None:
        """Its state can be saved, and makes an explorer that draws the same lists from the same random numbers."""
        X, policies = self._some(), self.policies()
        explorer = self.explorer(policies)

        def build(state: State) -> Explorer:
            return explorer_from_state(state, policies, self.problem)

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "explorer.npz"
            save(path, "explorer", explorer.state())
            again = load(path, "explorer", build)
        one, other = explorer.draw(X, 6).decisions, again.draw(X, 6).decisions
        for column in ("lists", "propensities", "covered", "arms"):
            same = np.array_equal(getattr(one, column), getattr(other, column))
            expect(same, f"made again from its state, it draws other {column}.")
        same = (again.smallest, again.smallest_disputed) == (explorer.smallest, explorer.smallest_disputed)
        expect(
            same and np.array_equal(again.candidates, explorer.candidates), "made again, it promises something else."
        )

    def test_rewards_weigh_what_they_should(self) -> None:
        """The mean of Σ r/divisor over a candidate's events is its value: in a world where one item is rewarded."""
        policies = self.policies()
        explorer = self.explorer(policies)
        X = self.contexts(self.draws, np.random.default_rng(7))
        made: Decisions = explorer.draw(X, 8).decisions
        wanted = np.random.default_rng(9).integers(self.problem.n_actions, size=self.draws)
        events = Rounds(made, (made.lists == wanted[:, None]).astype(np.float64)).events()
        chosen = np.arange(len(events))
        inside, divisors = explorer.inside(events, chosen), explorer.divisors(events, chosen)
        shape = (len(events), len(explorer.candidates))
        expect(inside.shape == shape, f"inside must be (E, S) = {shape}, got {inside.shape}.")
        lists = policies.predict(X, explorer.candidates, problem=self.problem)
        values = (lists == wanted[:, None, None]).any(axis=2).mean(axis=0)
        weights = events.rewards[chosen] / divisors
        weighed = weights @ inside / self.draws
        # Per round a candidate gets 0 or 1/divisor: Bernstein's bound for their mean, around that of the same contexts.
        largest = float(weights.max(initial=1 / explorer.smallest))
        log = math.log(2 * len(values) / _FALSE_ALARM)
        radius = math.sqrt(2 * largest * log / self.draws) + largest * log / (3 * self.draws)
        worst = int(np.abs(weighed - values).argmax())
        expect(
            abs(weighed[worst] - values[worst]) <= radius,
            f"candidate {worst} collects {values[worst]:.4g} per round; weighed by its divisors it is "
            f"{weighed[worst]:.4g}, which is off by more than {radius:.2g}.",
        )

    def _mine(self) -> Explorer:
        return self.explorer(self.policies())

    def _some(self) -> Contexts:
        X = self.contexts(_N, np.random.default_rng(0))
        expect(n_contexts(X) == _N, f"contexts(n, rng) must return n = {_N} contexts, got {n_contexts(X)}.")
        return X
