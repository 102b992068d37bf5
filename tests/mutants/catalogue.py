"""One-line changes that break a promise, with the tests that must notice each.

The text must be found once in the named file (or, moved, once in the package). A change that rewrites such a line takes
its mutant along; one that removes it removes the mutant too, or says what else could go wrong now.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A change and why it matters; `tests` are what pytest is given."""

    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]


TWIN = "tests/learners/test_twin.py::test_all_evidence_is_that_of_the_twin"
ADAPTIVE, LISTS, AB = f"{TWIN}[AdaptiveComband]", f"{TWIN}[UniformLists]", f"{TWIN}[ABTest]"
COMING = f"{TWIN}_while_candidates_come_and_go[AdaptiveComband]"
FIELD = "tests/learners/certifying/test_field.py"
STATED = "tests/learners/test_twin.py::test_an_epoch_states_what_the_formulas_say"
OF_ADAPTIVE = "tests/learners/test_adaptive.py"
BETTING, SEQUENCES = "tests/estimates/test_betting.py", "tests/estimates/test_sequences.py"
GUARDS, HISTOGRAMS = "tests/estimates/test_guards.py", "tests/estimates/test_histograms.py"
CHANGES = f"{GUARDS}::test_bets_on_change_have_mean_at_most_one"
STRETCHES = f"{GUARDS}::test_stretches_are_averaged_with_weights_that_sum_to_one"
EXPOSURE = f"{GUARDS}::test_every_bet_on_exposure_has_mean_one"
EVALUATION = "tests/test_evaluation.py::test_intervals_and_epsilon_are_those_of_the_wealths_at_their_shares_of_delta"
BERNSTEIN, PAIRS = "tests/estimates/test_importance.py::test_intervals_by_hand", "tests/estimates/test_pairs.py"
DESIGN = "tests/test_design.py"
PAC, LEDGER, EXP4 = (f"tests/learners/test_{name}.py" for name in ("pac_comband", "ledger", "exp4_comb_sparse"))
STORAGE, FILES = "tests/test_storage.py", "tests/learners/test_files.py"
TOTALS = "tests/exploration/test_midzuno.py"
MIXTURE, DISAGREEMENT = "tests/policies/test_mixture.py", "tests/exploration/test_disagreement.py"

MUTANTS: tuple[Mutant, ...] = (
    # ---- a field that changes ----------------------------------------------------------------------------------------
    Mutant(
        "learners/certifying/evidence.py",
        "self.log_wealth = self.log_wealth - np.maximum(self.of_leaders[leader], 0.0)",
        "self.log_wealth = self.log_wealth + 0.0",
        "what a withdrawn leader, who was better, has brought against others counts on",
        (COMING,),
    ),
    Mutant(
        "learners/certifying/evidence.py",
        "self.log_wealth[whom] += np.minimum(part[whom], 0.0) - before",
        "self.log_wealth[whom] += log_wealth",
        "late answers of rounds that a withdrawn leader led count against others",
        (COMING,),
    ),
    Mutant(
        "learners/certifying/verdict.py",
        "out &= field.present & (against >= self._thresholds)",
        "out &= field.present",
        "who was dropped by a leader that is withdrawn stays dropped, though it may be the best now",
        (COMING, f"{FIELD}::test_what_is_told_follows_the_field"),
    ),
    Mutant(
        "learners/certifying/field.py",
        "while (counted < np.log(1 / self.level(w))).sum() > w:",
        "while w < 0:",
        "whoever sees the data withdraws the better ones for nothing",
        (f"{FIELD}::test_whom_evidence_has_excluded_can_be_withdrawn_for_nothing",),
    ),
    Mutant(
        "learners/certifying/field.py",
        "fresh = np.arange(before + 1, before + 1 + arrivals) * (not planned)",
        "fresh = np.zeros(arrivals, dtype=np.int64)",
        "copies are added for nothing until one looks good",
        (f"{FIELD}::test_levels_sum_to_delta",),
    ),
    Mutant(
        "learners/certifying/queue.py",
        "return n - (self.front + n) % self.period",
        "return n",
        "a part of a period enters the evidence, and a rhythm passes for a difference",
        (f"{FIELD}::test_whole_periods_enter_together",),
    ),
    Mutant(
        "_kernels/gaps.py",
        "taken |= mine[j] == spare[i, following]",
        "taken |= mine[k] == spare[i, following]",
        "a list that the fallback fills shows an action twice",
        ("tests/policies/test_gaps.py::test_a_fallback_fills_what_is_empty",),
    ),
    # ---- the certificate ---------------------------------------------------------------------------------------------
    Mutant(
        "learners/certifying/evidence.py",
        "if epoch.leader == leader and n_rounds:",
        "if n_rounds:",
        "ε credited under every leader: a later leader inherits what was bet for another",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/evidence.py",
        "table = _credits(mu / self.unit)",
        "table = _credits(mu)",
        "where rewards are small ε is credited in another unit than the stakes",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/verdict.py",
        "self._nothing_until = rounds + 0.999999 * needed - 1",
        "self._nothing_until = rounds + 3.0 * needed - 1",
        "uneventful rounds are judged later than they should be",
        (f"{OF_ADAPTIVE}::test_rounds_without_reward_certify_as_soon_as_they_should",),
    ),
    Mutant(
        "learners/certifying/evidence.py",
        "n, n_uncovered = int(here.sum()), int((here & ~covered).sum())",
        "n, n_uncovered = int(here.sum()), 0",
        "uncovered rounds not counted: contexts that break the smallest propensity cost nothing",
        (ADAPTIVE,),
    ),
    Mutant(
        "learners/certifying/planner.py",
        "value_bound=rho / explorer.smallest,",
        "value_bound=rho / explorer.smallest_disputed,",
        "value intervals with the smaller bound: X may pass what the stakes allow for",
        (ADAPTIVE,),
    ),
    Mutant(
        "learners/certifying/verdict.py",
        "self.best_before = self.claim()",
        "self.best_before = None",
        "the best claim never kept: a change of leader forgets what was certified",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/watch.py",
        "self.drift.update(self._in_favour - first, self._opposed - first, moment.n_rounds)",
        "pass",
        "the drift guard never fed: a changing world goes unnoticed",
        (f"{OF_ADAPTIVE}::test_a_world_that_changes_within_an_epoch_is_reported",),
    ),
    Mutant(
        "learners/certifying/seen.py",
        "_PRIOR_ROUNDS = 300",
        "_PRIOR_ROUNDS = 1",
        "prior rounds 300 → 1: a few events decide a rival's variance, and stakes are too large",
        (STATED,),
    ),
    Mutant(
        "learners/certifying/report.py",
        "return float(np.max(rounds, where=missing > 0, initial=0.0))",
        "return float(10 * np.max(rounds, where=missing > 0, initial=0.0))",
        "forecast × 10",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/report.py",
        "reward_lost=float(value * evidence.rounds - evidence.reward)",
        "reward_lost=float(evidence.reward - value * evidence.rounds)",
        "the sign of reward_lost: what exploration cost reads as a gain",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/evidence.py",
        "found[which] = high",
        "found[which] = low",
        "bounds of single rivals are rounded down, to what is not certified",
        ("tests/learners/test_comparison.py",),
    ),
    Mutant(
        "learners/certifying/compared.py",
        "rivals = left[left != claim.leader][:most]",
        "rivals = left[1:][:most]",
        "who has the highest estimate is taken for the leader: bounds are those of others",
        ("tests/learners/test_comparison.py",),
    ),
    Mutant(
        "reports/pages.py",
        "return escape(visible(text))",
        "return visible(text)",
        "names are markup in reports",
        ("tests/reports/test_pages.py",),
    ),
    Mutant(
        "reports/charts.py",
        'return document.replace("<", "\\\\u003c")',
        "return document",
        "a name ends the element that holds the numbers of a report, and goes on as markup",
        ("tests/reports/test_pages.py",),
    ),
    Mutant(
        "learners/certifying/verdict.py",
        "return float(np.log(1 / self.delta))",
        "return float(np.log(1 / self.delta) / 2)",
        "the threshold is log 1/√δ",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/verdict.py",
        "return best if best is not None and best.epsilon < now.epsilon and self.alive[best.leader] else now",
        "return best if best is not None and best.epsilon < now.epsilon else now",
        "the claim of a candidate that has been dropped since is repeated",
        (LISTS, f"{TWIN}[UniformMixture]", AB, f"{TWIN}[TwoPhaseComband]"),
    ),
    Mutant(
        "learners/certifying/verdict.py",
        "out[leader] = False",
        "pass",
        "late answers of an older epoch drop the candidate that leads now, to which all estimates are differences",
        (f"{OF_ADAPTIVE}::test_a_leader_is_not_dropped_by_late_answers_of_an_older_epoch",),
    ),
    Mutant(
        "learners/certifying/queue.py",
        "overdue = (ids < self.ledger.issued - self.patience) & ~np.isin(ids, self.failed)",
        "overdue = (ids <= self.ledger.issued - self.patience) & ~np.isin(ids, self.failed)",
        "decisions count as unanswered one round too early",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/queue.py",
        "first = np.flatnonzero(blocking)",
        "first = np.flatnonzero(blocking)[1:]",
        "answers enter the evidence ahead of an older open decision",
        (LISTS,),
    ),
    Mutant(
        "learners/certifying/evidence.py",
        "chosen = np.flatnonzero(mine & counts)",
        "chosen = np.flatnonzero(mine)",
        "rewards of uncovered rounds enter beside ρ",
        (ADAPTIVE,),
    ),
    Mutant(
        "learners/certifying/planner.py",
        "growth=stake * (aim + gaps) - stake**2 * moments / 2,",
        "growth=stake * (aim + gaps) + stake**2 * moments / 2,",
        "the forecast takes variance for growth",
        (STATED,),
    ),
    Mutant(
        "learners/certifying/planner.py",
        "_DOUBT = 0.5",
        "_DOUBT = 0.0",
        "gaps are believed to be as large as they look",
        (STATED,),
    ),
    Mutant(
        "learners/certifying/watch.py",
        "self.exposure.update(sample.lists, explorer.all_propensities(sample.contexts))",
        "pass",
        "nobody watches which decisions stay without answer",
        (f"{OF_ADAPTIVE}::test_answers_lost_for_an_item_are_noticed_and_others_are_not",),
    ),
    Mutant(
        "learners/certifying/watch.py",
        "self.exposure.update(sample.lists, propensities, sample.propensities)",
        "pass",
        "nobody watches whether lists are drawn with their propensities",
        (f"{OF_ADAPTIVE}::test_lists_that_are_not_drawn_with_their_propensities_are_reported",),
    ),
    Mutant(
        "learners/certifying/watch.py",
        "self.exposure.compare(sample.propensities, explorer.propensities_of(sample.contexts, sample.lists))",
        "pass",
        "a candidate that changes its mind between ask and tell goes unnoticed",
        (
            "tests/learners/test_guarding.py::test_a_candidate_that_changes_its_mind_is_noticed_at_any_number_of_actions",
        ),
    ),
    Mutant(
        "exploration/arms.py",
        "return np.full(len(chosen), self.smallest / parts)",
        "return events.propensities[chosen]",
        "an A/B test divides by the chance of the item where it counts the candidate's own rounds only",
        (AB,),
    ),
    # ---- totals ------------------------------------------------------------------------------------------------------
    Mutant(
        "exploration/midzuno.py",
        "return _round_means(events.propensities[chosen], events.rows[chosen]) - self.problem.fill_share",
        "return _round_means(events.propensities[chosen], events.rows[chosen])",
        "a total is divided as if its list had not been filled up uniformly",
        (f"{TOTALS}::test_differences_are_unbiased_and_bounded",),
    ),
    Mutant(
        "exploration/midzuno.py",
        "self.smallest_disputed = left * self._mixed(smallest_first)",
        "self.smallest_disputed = problem.list_size * left * self._mixed(smallest_first)",
        "the bound on D from totals forgets that a list may hold as many disputed actions as it has places",
        (f"{TOTALS}::test_differences_are_unbiased_and_bounded",),
    ),
    Mutant(
        "estimates/totals.py",
        "ends = low - self._per_list * most, high - self._per_list * least",
        "ends = low - self._per_list * least, high - self._per_list * most",
        "the excess of values from totals is taken off with the wrong end",
        ("tests/learners/test_twin_totals.py::test_all_evidence_from_totals_is_that_of_the_twin[UniformLists]",),
    ),
    Mutant(
        "policies/midzuno.py",
        "lists[:, 1:] = rest + (rest >= first[:, None])",
        "lists[:, 1:] = rest + (rest > first[:, None])",
        "a list is filled up with its first action again",
        ("tests/policies/test_midzuno.py",),
    ),
    Mutant(
        "theory/totals.py",
        "return (m - 1) ** 2 / (K - 1) * (2 +",
        "return (m - 1) ** 2 / (K - 1) * (1 +",
        "the variance from totals forgets half of the overlaps",
        ("tests/theory/test_totals.py::test_fill_moment_by_enumeration",),
    ),
    # ---- bets --------------------------------------------------------------------------------------------------------
    Mutant(
        "estimates/betting.py",
        "total = n_uncovered * np.log1p(-bets.stakes * max_reward)",
        "total = n_uncovered * np.log1p(bets.stakes * max_reward)",
        "uncovered rounds win the bet",
        (ADAPTIVE,),
    ),
    Mutant(
        "estimates/betting.py",
        "SAFETY = 0.9",
        "SAFETY = 0.999",
        "a single round may lose all but a thousandth of a bet",
        (f"{BETTING}::test_stakes_are_capped_and_refused_beyond", STATED, LISTS),
    ),
    Mutant(
        "estimates/grids.py",
        "np.log(np.exp(logs - top).mean(axis=-1))",
        "np.log(np.exp(logs - top).sum(axis=-1))",
        "a mixture of bets counts as their sum",
        ("tests/estimates/test_grids.py",),
    ),
    Mutant(
        "_kernels/disagreement.py",
        "step = (m - fixed) / slope if slope > 0.0 else np.inf",
        "step = 1.1 * (m - fixed) / slope if slope > 0.0 else np.inf",
        "the scale of disagreement sampling is not that of its definition",
        ("tests/exploration/test_disagreement.py::test_propensities_follow_the_definition",),
    ),
    Mutant(
        "_kernels/betting.py",
        "elif inside[e, leader] and not inside[e, p]:",
        "elif inside[e, leader]:",
        "rounds with several rewards count the leader's even where the rival has them too",
        (f"{BETTING}::test_kernel_equals_plain_numpy",),
    ),
    Mutant(
        "estimates/sequences.py",
        "threshold = np.log(2 * np.where(which < self.n_first, self.n_first, later * (later + 1)) / delta)",
        "threshold = np.log(2 * np.where(which < self.n_first, 1, later * (later + 1)) / delta)",
        "value intervals without the union over candidates",
        (LISTS,),
    ),
    Mutant(
        "estimates/sequences.py",
        "high += n_uncovered * np.log1p(-stakes * max_reward)",
        "high += 0.0 * stakes",
        "uncovered rounds count as worthless in the upper end",
        (f"{SEQUENCES}::test_uncovered_rounds_widen_the_interval",),
    ),
    Mutant(
        "estimates/sequences.py",
        "value = constant + gammaln(v + rho) + np.log(inner) - (v + rho) * np.log(total) + s + v",
        "value = constant + gammaln(v + rho) + np.log(inner) - (v + rho) * np.log(total) + s + v + 1",
        "the mixture of exponential bets begins above 1",
        (f"{SEQUENCES}::test_gamma_exponential_mixture_is_the_integral",),
    ),
    Mutant(
        "estimates/sequences.py",
        "before = np.r_[0.25, variance[:-1]]",
        "before = variance",
        "a bet at a fixed time that knows the round's own variance",
        (f"{SEQUENCES}::test_fixed_n_bound_bets_on_the_past_only",),
    ),
    # ---- what is shown, and with which probability -------------------------------------------------------------------
    Mutant(
        "exploration/disagreement.py",
        "self.smallest_disputed = smallest_disputed",
        "self.smallest_disputed = 1.2 * smallest_disputed",
        "the promised smallest propensity is a fifth too high",
        (ADAPTIVE,),
    ),
    Mutant(
        "exploration/mixture.py",
        "share = (1 - mixture.floor) * float(self._weights.min())",
        "share = (1 - mixture.floor) * float(self._weights.max())",
        "the smallest propensity of a mixture is that of its heaviest policy",
        ("tests/exploration/test_mixture.py",),
    ),
    Mutant(
        "policies/mixture.py",
        "mixed: NDArray[np.float64] = (1 - self.floor) * followed + self.floor * self.problem.uniform_propensity",
        "mixed: NDArray[np.float64] = (1 - self.floor) * followed + self.floor / self.problem.n_actions",
        "the floor of a mixture is that of lists of one",
        (f"{MIXTURE}::test_propensities_equal_enumeration_and_sum_to_m",),
    ),
    Mutant(
        "policies/mixture.py",
        "v = (u[followers, 0] - self.floor) / (1 - self.floor)",
        "v = u[followers, 0]",
        "the policies that a mixture draws are not those of its weights",
        (f"{MIXTURE}::test_observed_frequencies_match_propensities",),
    ),
    Mutant(
        "exploration/disagreement.py",
        "contexts=X, covered=covered)",
        "contexts=X)",
        "contexts in which the smallest propensity does not hold are not marked",
        (f"{DISAGREEMENT}::test_contexts_with_too_much_dispute_are_marked",),
    ),
    Mutant(
        "_kernels/disagreement.py",
        "lower[a] = smallest[1] if leads[y] else smallest[0]",
        "lower[a] = smallest[1]",
        "rivals' actions get the leader's smaller propensity",
        (f"{DISAGREEMENT}::test_propensities_follow_the_definition",),
    ),
    Mutant(
        "_kernels/disagreement.py",
        "if edge > u + taken or size - a == m - taken:",
        "if edge > 0.5 + taken or size - a == m - taken:",
        "lists are not drawn with their propensities",
        (f"{DISAGREEMENT}::test_lists_come_with_their_propensities",),
    ),
    Mutant(
        "_kernels/lists.py",
        "y = int(u[i, k] * (top + 1))",
        "y = int(u[i, k] * top)",
        "uniform lists never draw the last action",
        ("tests/test_kernels.py::test_uniform_lists_are_uniform",),
    ),
    Mutant(
        "logs/sequential.py",
        "weights = 1 / (m * p) + (m - 1 - np.arange(m)) / m",
        "weights = 1 / (m * p) + (m - np.arange(m)) / m",
        "lists drawn slot by slot are weighed with a bias",
        ("tests/logs/test_foreign.py::test_sequential_weights_are_unbiased_for_every_item",),
    ),
    # ---- guards ------------------------------------------------------------------------------------------------------
    Mutant(
        "estimates/alarm.py",
        "LEVEL = 0.001",
        "LEVEL = 0.1",
        "guards cry a hundred times as often",
        (f"{GUARDS}::test_the_level_is_one_in_a_thousand",),
    ),
    Mutant(
        "estimates/guards.py",
        "return float(-np.log(2) - 0.5 * np.log(np.clip(2 * tail, 1e-300, 1.0)))",
        "return float(-np.log(2) - 0.5 * np.log(np.clip(tail, 1e-300, 1.0)))",
        "the drift guard's p-value is that of one side",
        (CHANGES,),
    ),
    Mutant(
        "estimates/guards.py",
        "early = int(np.searchsorted(successes, half))",
        'early = int(np.searchsorted(successes, half, side="right"))',
        "the drift guard counts one round too many in the first half",
        (CHANGES,),
    ),
    Mutant(
        "estimates/guards.py",
        "return np.asarray(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))",
        "return np.asarray(betaln(k + 0.5, n - k + 0.5))",
        "the forecaster's chances of what it sees sum to more than one",
        (CHANGES,),
    ),
    Mutant(
        "estimates/guards.py",
        "return float((k + 2) ** -1.5 / (zeta(1.5) - 1))",
        "return float((k + 2) ** -1.5)",
        "the stretches of the drift guard weigh more than one together",
        (STRETCHES,),
    ),
    Mutant(
        "estimates/guards.py",
        "self._slow /= 2",
        "self._slow /= 1",
        "stretches that end when it suits them cost nothing",
        (STRETCHES,),
    ),
    Mutant(
        "_kernels/exposure.py",
        "observed[g] - expected[g], expected[g], most - expected[g]",
        "observed[g] - expected[g], most - expected[g], expected[g]",
        "the exposure guard scales each direction by the other's loss",
        (EXPOSURE,),
    ),
    Mutant(
        "_kernels/exposure.py",
        "expected[n_groups - 1], largest[n_groups - 1] = n_positive, m * inverse",
        "expected[n_groups - 1], largest[n_groups - 1] = n_positive / 2, m * inverse",
        "inverse propensities are expected to add up to half of what they do",
        (EXPOSURE,),
    ),
    # ---- logged rounds -----------------------------------------------------------------------------------------------
    Mutant(
        "evaluation/judging.py",
        "max(P - 1, 1) / (delta - alarm)",
        "1 / (delta - alarm)",
        "evaluate's ε without the union over rivals",
        (EVALUATION,),
    ),
    Mutant(
        "evaluation/judging.py",
        "sides, rivals = 2 * P / (delta - alarm)",
        "sides, rivals = 2 / (delta - alarm)",
        "evaluate's intervals without the union over candidates",
        (EVALUATION,),
    ),
    Mutant(
        "evaluation/parts.py",
        "offsets=-block.sums_of(best, earned))",
        "offsets=0 * block.sums_of(best, earned) - block.sums_of(best, earned).mean())",
        "evaluate compares with the best one's average, not round by round",
        (EVALUATION,),
    ),
    Mutant(
        "evaluation/judging.py",
        "doubted = uncovered if stated else np.ones(P, dtype=bool)",
        "doubted = uncovered",
        "evaluate assumes that every candidate's items could be shown, though nobody said so",
        ("tests/test_evaluation.py::test_nothing_is_promised_wrongly_by_exact_enumeration",),
    ),
    Mutant(
        "evaluation/judging.py",
        "P, bound = len(names), max_reward / min_propensity",
        "P, bound = len(names), 1 / min_propensity",
        "evaluate's largest estimate forgets that a round may bring several rewards",
        (EVALUATION,),
    ),
    Mutant(
        "estimates/histograms.py",
        "_BETS = stake_grid(16, largest=0.98)",
        "_BETS = stake_grid(16, largest=1.98)",
        "bets of more than can be lost",
        (f"{HISTOGRAMS}::test_bounds_miss_no_more_often_than_promised",),
    ),
    Mutant(
        "estimates/histograms.py",
        "zeros = self.n_rounds - counts.sum(axis=1)",
        "zeros = self.n_rounds + 0.0 * counts.sum(axis=1)",
        "rewarded rounds count twice, once as zeros",
        (f"{HISTOGRAMS}::test_never_below_the_exact_bound_and_hardly_above",),
    ),
    Mutant(
        "_kernels/betting.py",
        "share = min(max((size - below) / (above - below), 0.0), 1.0)",
        "share = 1.0 if size > 0.5 * (above + below) else 0.0",
        "values are moved to the nearest column: bounds may fall below the exact ones",
        (f"{HISTOGRAMS}::test_splitting_keeps_counts_and_means",),
    ),
    Mutant(
        "estimates/exact.py",
        "if self._pending[0] + n > MOST:",
        "if n > MOST:",
        "sums in whole numbers run over",
        ("tests/estimates/test_exact.py::test_digits_are_carried_before_they_run_over",),
    ),
    Mutant(
        "_kernels/betting.py",
        "sums[1, p] += exact[2]",
        "sums[1, p] += 0 * exact[2]",
        "sums of values lose what is below 2^−40 of their bound",
        ("tests/estimates/test_exact.py::test_sums_are_those_of_rational_numbers",),
    ),
    Mutant(
        "estimates/importance.py",
        "log_term = np.log(2 / (delta / (2 * len(self.sums))))",
        "log_term = np.log(2 / (delta / 2))",
        "empirical Bernstein without the union over policies",
        (BERNSTEIN,),
    ),
    Mutant(
        "estimates/importance.py",
        "7 * bound * log_term / (3 * (n - 1))",
        "7 * bound * log_term / (3 * n * (n - 1))",
        "empirical Bernstein without its range",
        (BERNSTEIN,),
    ),
    Mutant(
        "estimates/importance.py",
        "return np.maximum(centred, 0.0) / max(n - 1, 1)",
        "return np.maximum(centred, 0.0) / max(2 * n, 1)",
        "half the sample variance",
        (BERNSTEIN,),
    ),
    # ---- two phases --------------------------------------------------------------------------------------------------
    Mutant(
        "estimates/pairs.py",
        "self.sums[others], self.squares[others], self.n_rounds, bound=bound, delta=delta, rivals=rivals",
        "self.sums[others], self.squares[others], self.n_rounds, bound=bound, delta=delta",
        "PAC learners' ε without the union over rivals",
        (f"{PAIRS}::test_sums_against_plain_loops",),
    ),
    Mutant(
        "estimates/pairs.py",
        "log_term = (math.log(len(BETS)) + math.log(rivals) - math.log(delta)) / n_rounds",
        "log_term = (math.log(rivals) - math.log(delta)) / n_rounds",
        "the best of twelve bets at the price of one",
        (f"{PAIRS}::test_bound_refutes_by_true_wealth",),
    ),
    Mutant(
        "estimates/pairs.py",
        "h = -(np.log1p(-a) + a) / a**2",
        "h = 0.5",
        "the quadratic lower bound of the logarithm lies above it",
        (f"{PAIRS}::test_bound_refutes_by_true_wealth",),
    ),
    Mutant(
        "learners/two_phase/report.py",
        "gaps = pairs.bounds(bound=theory.estimate_range(self.problem, floor=floor), delta=self.delta)",
        "gaps = pairs.bounds(bound=self.problem.max_reward, delta=self.delta)",
        "PAC learners' ε with the range of rewards for that of their estimates",
        (f"{PAC}::test_epsilon_by_hand",),
    ),
    Mutant(
        "theory/estimation.py",
        "return rho * K / (gamma * m)",
        "return K / (gamma * m)",
        "the printed range of the estimates, wrong where a list may collect several rewards",
        ("tests/theory/test_estimation.py",),
    ),
    Mutant(
        "theory/estimation.py",
        "return math.ceil((4 * v / eps**2 + 2 * (b + eps) / (3 * eps)) * math.log((P - 1) / delta))",
        "return math.ceil((2 * v / eps**2 + 2 * (b + eps) / (3 * eps)) * math.log((P - 1) / delta))",
        "N₂ forgets that a difference has the variance of two",
        ("tests/theory/test_estimation.py",),
    ),
    Mutant(
        "theory/exploration.py",
        "rad = G * math.sqrt(2 * min(m, 2 * rho) * (m * s / K) * math.log(P))",
        "rad = G * math.sqrt(min(m, 2 * rho) * (m * s / K) * math.log(P))",
        "N₁ with half of Massart's constant",
        ("tests/theory/test_exploration.py::test_explore_rounds_by_hand",),
    ),
    Mutant(
        "theory/lower_bound.py",
        "return s * m / (3072 * eps**2)",
        "return s * m / (1536 * eps**2)",
        "twice the lower bound that is proved",
        ("tests/theory/test_references.py",),
    ),
    # ---- the design --------------------------------------------------------------------------------------------------
    Mutant(
        "solvers/frank_wolfe.py",
        "gap=max(0.0, (1.0 - potential.floor) * (maximum - average)),",
        "gap=max(0.0, (1.0 - potential.floor) ** 2 * (maximum - average)),",
        "the design's gap is smaller than its distance from the optimum may be",
        ("tests/solvers/test_frank_wolfe.py::test_every_rule_reports_the_truth_about_where_it_stopped",),
    ),
    Mutant(
        "solvers/frank_wolfe.py",
        "maximum = float(found.scores[0])",
        "maximum = average",
        "the design's largest variance is its average one",
        (f"{DESIGN}::test_reports_what_its_mixture_does_on_the_rounds",),
    ),
    Mutant(
        "design.py",
        "weights: Floats = events.rewards / (events.n_rounds * events.propensities)",
        "weights: Floats = events.rewards / (events.n_rounds + 0 * events.propensities)",
        "the design believes what was shown often",
        (f"{DESIGN}::test_a_round_shown_more_often_counts_no_more",),
    ),
    Mutant(
        "design.py",
        "certified=final.exact,",
        "certified=True,",
        "an approximate oracle's maximum passes for a certificate",
        (f"{DESIGN}::test_an_approximate_oracle_gets_no_certificate",),
    ),
    Mutant(
        "solvers/potential.py",
        "return self.weights / self.mix(coverage)",
        "return self.weights / np.maximum(coverage, self.floor)",
        "the variance proxy forgets the floor",
        ("tests/solvers/test_potential.py",),
    ),
    # ---- regret ------------------------------------------------------------------------------------------------------
    Mutant(
        "solvers/ftrl.py",
        "losses, self.eta, self.eta / self.nu, self._theta, self._shift, self.weights",
        "losses, self.eta, self.eta * self.nu, self._theta, self._shift, self.weights",
        "the log-barrier's strength is inverted",
        ("tests/solvers/test_ftrl.py::test_minimises_the_objective",),
    ),
    Mutant(
        "solvers/ftrl.py",
        "return (self._root() - 1.0 - math.log(self.eta / self.nu)) / self.eta - self._shift",
        "return (self._root() - 1.0) / self.eta - self._shift",
        "the multiplier λ of the FTRL step is not that of its optimality conditions",
        ("tests/solvers/test_ftrl.py::test_optimality_and_scipy_on_extreme_inputs",),
    ),
    Mutant(
        "theory/regret.py",
        'return 1 / (16 * rho), "ν = 1/(16ρ)"',
        'return 1 / 16, "ν = 1/(16ρ)"',
        "the safe barrier is the printed one, unstable for lists that collect much",
        ("tests/theory/test_regret.py::test_regret_bounds_by_hand",),
    ),
    Mutant(
        "theory/regret.py",
        "kappa = 1 / (2 * (1 - nu * rho)) if nu * rho < 1 else math.inf",
        "kappa = 1 / 2",
        "the stability constant without what the barrier costs",
        ("tests/theory/test_regret.py::test_regret_bounds_by_hand",),
    ),
    Mutant(
        "theory/regret.py",
        "regret=rho + P * math.log(T) / nu + math.log(P) / eta + eta * kappa * s * rho * T,",
        "regret=rho + math.log(T) / nu + math.log(P) / eta + eta * kappa * s * rho * T,",
        "the regret bound without the barrier's price for every policy",
        ("tests/theory/test_regret.py::test_regret_bounds_by_hand",),
    ),
    Mutant(
        "learners/weighted.py",
        "amounts = -gained[where, position] / q[where, position]",
        "amounts = -gained[where, position] + 0 * q[where, position]",
        "losses of the regret minimisers are not importance-weighted",
        (f"{EXP4}::test_estimates_are_unbiased",),
    ),
    # ---- the ledger --------------------------------------------------------------------------------------------------
    Mutant(
        "_kernels/records.py",
        "if ids[i] >= low and not done[place]:",
        "if ids[i] >= low:",
        "a repeated answer counts twice",
        (f"{LEDGER}::test_equals_a_book_of_every_decision",),
    ),
    Mutant(
        "_kernels/records.py",
        "if known[place, 0] != _shown_print(i, ids, lists, propensity_bits):",
        "if place < 0:",
        "a list or propensities that were altered are taken in",
        (f"{LEDGER}::test_says_which_column_differs",),
    ),
    Mutant(
        "_kernels/records.py",
        "if known[place, 1] != _plan_print(i, epochs, covered, arms):",
        "if place < 0:",
        "decisions are counted under another epoch than their own",
        (f"{LEDGER}::test_says_which_column_differs",),
    ),
    Mutant(
        "_kernels/records.py",
        "if known[place, 2] != contexts[i]:",
        "if place < 0:",
        "candidates are judged by another context than the one they were shown for",
        (f"{LEDGER}::test_says_which_column_differs",),
    ),
    Mutant(
        "_kernels/records.py",
        "fault = 0 if makers[i] == signatures[k] else 16",
        "fault = 0",
        "copies of one learner take each other's decisions",
        (f"{LEDGER}::test_copies_refuse_each_others_decisions_and_know_those_before",),
    ),
    # ---- files -------------------------------------------------------------------------------------------------------
    Mutant(
        "storage.py",
        'if entries.pop("checksum").tobytes() != _digest(entries).tobytes():',
        'if entries.pop("checksum").tobytes() == b"":',
        "a damaged file is taken for what was written",
        (f"{STORAGE}::test_any_changed_byte_of_the_content_is_found",),
    ),
    Mutant(
        "storage.py",
        "if unpacked > _largest_unpacked(size):",
        "if unpacked < 0:",
        "a small file fills the memory",
        (f"{STORAGE}::test_a_bomb_is_not_unpacked",),
    ),
    Mutant(
        "storage.py",
        'part = target.with_name(f".comband-{secrets.token_hex(8)}.part")',
        'part = target.with_name(".comband.part")',
        "writers write into each other's files",
        (f"{STORAGE}::test_readers_beside_several_writers_see_whole_files",),
    ),
    Mutant(
        "learners/certifying/possible.py",
        "largest += epoch.bets.grid[levels_of(epoch, seen.columns)] * lost[:, None]",
        "largest += 1e9",
        "a file certifies a candidate without evidence",
        (f"{FILES}::test_a_forged_learner_is_refused",),
    ),
    Mutant(
        "_kernels/disagreement.py",
        "shuffle_row(shown[i], propensities[i], u[i, 1])",
        "pass",
        "lists are shown in an order that goes with the items",
        ("tests/learners/test_placed.py::test_lists_are_shown_in_random_order",),
    ),
    Mutant(
        "_kernels/orders.py",
        "j = np.int64(uniform * (k + 1))",
        "j = np.int64(uniform * k)",
        "some orders of a list never come",
        ("tests/test_kernels_orders.py::test_orders_are_uniform_given_the_set",),
    ),
    Mutant(
        "exploration/placed.py",
        "q * self._theta.mean() / self._theta[actions % m] / m",
        "q * self._theta.mean() / m",
        "rewards by examination are weighed as if all places were the first",
        ("tests/learners/test_placed.py::test_explorers_say_what_rewards_are_divided_by",),
    ),
    Mutant(
        "estimates/place_guard.py",
        "before = self._counts + np.cumsum(shares, axis=0) - shares",
        "before = self._counts + np.cumsum(shares, axis=0)",
        "the place guard bets on a click that it has seen",
        (
            "tests/estimates/test_place_guard.py::test_the_guard_is_the_plain_product",
            "tests/estimates/test_place_guard.py::test_bets_have_mean_one_where_places_do_not_matter",
        ),
    ),
    Mutant(
        "places.py",
        "propensities=np.repeat(events.propensities, m) * np.tile(theta.mean() / theta, n),",
        "propensities=np.repeat(events.propensities, m),",
        "events under factors are weighed as if all places were alike",
        ("tests/learners/test_pac_places.py::test_everything_by_definition",),
    ),
    Mutant(
        "held_out.py",
        "            lists = pair_lists(lists)",
        "            pass",
        "a design of pairs is certified by items",
        ("tests/test_design_places.py::test_designs_with_places_are_certified_on_held_out_rounds",),
    ),
    Mutant(
        "places.py",
        "return replace(setting, sparsity=min(problem.sparsity * problem.list_size, setting.n_actions))",
        "return setting",
        "theorems about pairs forget that an item may be wanted in each of its places",
        (
            "tests/test_design_places.py::test_settings_of_designs",
            "tests/learners/test_pac_places.py::test_parameters_are_the_theorems",
        ),
    ),
    Mutant(
        "learners/two_phase/report.py",
        "return stretch(self.problem) * theory.estimate_range(",
        "return theory.estimate_range(",
        "PAC-COMBAND by examination takes rewards for smaller than they may count",
        ("tests/learners/test_pac_places.py::test_everything_by_definition",),
    ),
    Mutant(
        "_kernels/places.py",
        "up = min(min(1.0 - f[h, k], f[a, k]), min(f[h, m], 1.0 - f[a, m]))",
        "up = min(1.0 - f[h, k], f[a, k])",
        "items are rounded within a place as if they could always be left out",
        ("tests/test_kernels_places.py::test_rounding_is_exact_by_enumeration_of_its_coins",),
    ),
    Mutant(
        "evaluation/clipped.py",
        "histograms.add(won + most - won[:, [best]])",
        "histograms.add(won - won[:, [best]])",
        "what clipping loses is not counted",
        ("tests/evaluation/test_clipped.py::test_clipped_differences_are_never_too_small_on_average",),
    ),
)
