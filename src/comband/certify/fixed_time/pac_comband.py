"""PAC-COMBAND, Algorithm 1 of the paper."""

from __future__ import annotations

from functools import cached_property

from comband import theory
from comband.certify.fixed_time.learner import TwoPhase
from comband.page.rounds import Events
from comband.policies.reading import reading_of


class PacComband(TwoPhase):
    """Explore with N₁ uniform lists, design a low-variance mixture p̂, estimate with N₂ lists of it, return the best.

    The design minimises F̂(p) = −(1/N₁)(K/m) Σ_i Σ_{y∈a_i} r_i(y)·log Q^γ_p(x_i, y) over mixtures p of policies; at its
    minimum every E Σ_{y∈π(x)} r(y)/Q^γ(x, y) is at most s/(1−γ), so the estimates of phase 2 have a variance that does
    not grow with K. The answer is the maximiser of Σ_i Σ_{y∈π(x_i)∩a_i} r_i(y)/Q^γ_p̂(x_i, y) over phase 2.

    Where the problem's feedback is the total, phase 2 shows `MidzunoLists` of the design made from totals, and what is
    maximised is Σ_i T_i·#(π(x_i) ∩ a_i)/q(x_i, a_i): again the variance does not grow with K (docs/open_problems.md).

    Where places matter as pairs of item and place, this is the algorithm with pairs for actions (K·m of them, each in a
    uniform list with probability 1/K, and with s·m for s). By examination, factors θ, the design is that of sets, and
    in phase 2 a reward counts θ_{k_π(y)}/e(x, y) for π, where e(x, y) is how much y was examined. In random order that
    is (m/Θ)·θ_{k_π(y)}/Q^γ(x, y): range and deviation grow by at most c = θ_max·m/Θ, so the theorem's parameters are
    those for ε/c. In natural order candidates' lists are shown as they are, uniform ones in random order: then the
    range grows by at most c, and the deviation by at most c = θ_max/√(θ_min·Θ/m), which takes its place.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    seed:
        An int, a SeedSequence or a Generator; the same seed gives the same run.
    policies:
        A `PolicySet`, or an oracle of a class that can be reached only through it (not with places).
    epsilon, delta:
        The promise that the theorem's parameters are computed for; `delta` is also that of the reported ε.
    n_explore, n_estimate, n_steps:
        N₁, N₂ and T. Left out, they are those of `theory.pac_comband`, which are enough in the worst case.
        n_estimate="measured" sets N₂ once the design is made, by Bernstein's inequality with the variance that phase 1
        measured (with a margin) instead of the worst case. The ε that `result` reports is computed from phase 2 alone,
        and holds for N₂ of any origin.
    floor:
        γ, the share of uniform lists in phase 2.
    solver:
        "corrective" (default) stops by its gap; "frank-wolfe" is Algorithm 2 as printed, for `n_steps` steps.
    n_policies:
        The size of a class behind an oracle (a `PolicySet` knows its own).
    n_verify:
        How many decisions after phase 1 are held out of the design, to certify it (`Design.certify`) before phase 2
        begins; they show uniform lists too. None unless told, or unless the route is "held-out".
    route:
        Where parameters that are left out come from (`theory.pac_comband`): "gradient", "joint", "refined" or
        "printed" trust that N₁ rounds are enough for the design; "held-out" verifies it instead, with far fewer rounds,
        and sets N₂ by the variance that was certified. Left out, it is "held-out" behind an exact oracle if n_explore
        is left out too, and "gradient" otherwise.

    References
    ----------
    Erez & Koren, Algorithm 1 and Theorem 1. Where the printed text is loose see docs/errata.md: the range of the
    estimates is min(s, m)·K/(γm).

    >>> import comband as cb
    >>> world = cb.SyntheticRecommender(cb.Problem(20, 2, 1), click_rate=.3, seed=1)
    >>> learner = cb.PacComband(world.problem, world.candidates(10, seed=2), n_explore=2000, n_estimate=6000)
    >>> selection = cb.run(learner, world, batch_size=2000).result
    >>> selection.rounds, selection.certified
    (8000, True)
    """

    FROM_TOTALS = True
    KNOWS_PLACES = True
    KNOWS_ORDER = True

    def _check_problem(self) -> None:
        pass  # any will do

    @cached_property
    def advice(self) -> str | None:
        """That `OnlineComband` needs fewer rounds, where candidates are listed and the theorem's are planned."""
        plain = reading_of(self.problem).KIND == "items"
        if not (self._listed and plain and self._given[0] is None and self._given[1] is None and self.epsilon):
            return None
        online = theory.online_comband(
            self.problem,
            n_policies=len(self.policies),
            epsilon=self.epsilon,
            delta=self.delta,
            early_stop=True,
        )
        planned = self._plan().n_rounds
        if online.n_rounds >= planned:
            return None
        way = "with uniform lists" if online.uniform else "by exploring with weights that are learnt online"
        return (
            f"OnlineComband promises the same within {online.n_rounds:,} rounds, {way}; this schedule has {planned:,}"
        )

    def _theory(self, n_policies: int, epsilon: float) -> theory.PacSchedule:
        return theory.pac_comband(
            reading_of(self.problem).theory,
            n_policies=n_policies,
            epsilon=epsilon,
            delta=self.delta,
            floor=self.floor,
            route=self.route,
        )

    def _weighed(self, events: Events) -> Events:
        return events  # logged with q = m/K, so r/(n·q) = r·K/(m·N₁)
