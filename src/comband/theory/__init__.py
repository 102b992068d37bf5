"""The paper's quantities as functions: sample sizes, steps and bounds, with every constant stated.

The paper hides constants behind Θ and Õ. Here each is written out and derived, in several routes:

* ``"online"``, where candidates can be listed: no phases at all, but exploration that is learnt online, with the
  optimal rate (docs/optimal_rate.md). `comband plan` and what `PacComband` advises take this one.
* ``"gradient"`` (default of the schedules of two phases): N₁ by uniform convergence of the gradient of the potential,
  which is what phase 2 needs, instead of the potential: (K/m)³ rounds (docs/open_problems.md). The rest is as in the
  refined route.
* ``"joint"``: the same with as much exploration as pays, K/(m·ε^(4/3)) rounds; ``"held-out"``: as few rounds as one
  likes, and a certificate of the design on others.
* ``"refined"``: the text's chain of lemmas, proved with explicit constants (docs/theory.md has the
  derivations). Three steps are sharper than the printed ones: rewards of one list are paired by
  Cauchy-Schwarz with the rewards as weights, so ρ = min(s, m) stands where the text has m; the
  vector contraction of Maurer (2016) replaces the L∞ contraction, so that N₁ grows as (K/m)⁷
  instead of K⁹/m⁸ and without logarithms of n; policies are compared in pairs.
* ``"printed"``: the text's own chain of lemmas. Its L∞ contraction (Foster & Rakhlin 2019) has a
  constant that no text states; it is the argument `contraction_constant`, 1 unless told, and a
  schedule that depends on it is labelled as such. The range of the estimates is the correct
  min(s, m)·K/(γm) in all routes, not the printed K/(γm) (docs/errata.md).

Letters: K = n_actions, m = list_size, s = sparsity (K when unknown: rewards lie in [0, 1]),
ρ = min(s, m), γ = floor, P = n_policies, log is natural.

May be imported: what is listed here. Knows the problem alone: no policies, no data.
Read first: `letters.py`, then `pac.py`.
"""

from __future__ import annotations

from comband.theory.design import (
    design_accuracy,
    design_curvature,
    frank_wolfe_gap_steps,
    frank_wolfe_steps,
)
from comband.theory.estimation import (
    estimate_epsilon,
    estimate_range,
    estimate_rounds,
    estimate_variance,
    uniform_exploration,
)
from comband.theory.exploration import explore_rounds
from comband.theory.gradient import GradientRounds, gradient_labels, gradient_rounds, sampling_excess
from comband.theory.growth import blend_list_growth, linear_dimension, linear_event_growth, linear_list_growth
from comband.theory.held_out import held_out_plan, held_out_rounds
from comband.theory.joint import JointRounds, joint_rounds
from comband.theory.lower_bound import lower_bound
from comband.theory.online import OnlineSchedule, online_comband
from comband.theory.pac import PacSchedule, pac_comband
from comband.theory.regret import Barrier, RegretSchedule, exp4, exp4_comb_sparse
from comband.theory.single_label import earlier_single_label, single_label
from comband.theory.totals import fill_moment, total_range, total_variance

__all__ = [
    "Barrier",
    "GradientRounds",
    "JointRounds",
    "OnlineSchedule",
    "PacSchedule",
    "RegretSchedule",
    "blend_list_growth",
    "design_accuracy",
    "design_curvature",
    "earlier_single_label",
    "estimate_epsilon",
    "estimate_range",
    "estimate_rounds",
    "estimate_variance",
    "exp4",
    "exp4_comb_sparse",
    "explore_rounds",
    "fill_moment",
    "frank_wolfe_gap_steps",
    "frank_wolfe_steps",
    "gradient_labels",
    "gradient_rounds",
    "held_out_plan",
    "held_out_rounds",
    "joint_rounds",
    "linear_dimension",
    "linear_event_growth",
    "linear_list_growth",
    "lower_bound",
    "online_comband",
    "pac_comband",
    "sampling_excess",
    "single_label",
    "total_range",
    "total_variance",
    "uniform_exploration",
]
