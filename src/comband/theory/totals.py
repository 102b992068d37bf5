"""Full-bandit feedback: what estimates from totals of Midzuno's lists are worth, with constants.

R(π) = T·#(π∩a)/q(a) and D = (R(π) − R(ℓ))/(1−f), f = (m−1)/(K−1), are those of `comband.statistics.totals`. Uniform
rounds with their totals estimate F(p) = −E (K/m)·T·log q_p(x, a) without bias. It is the paper's potential with
#(π∩a)/m ∈ [0, 1] where the paper has a bit, so that N₁ and the certificate on held-out rounds are those of rewards of
single actions: only #(π∩a)/m ≤ 1, its variance ≤ its mean, and T ≤ ρ enter their proofs (docs/open_problems.md).
"""

from __future__ import annotations

from comband.page.problem import Problem, check_positive, check_problem
from comband.theory.letters import all_letters


def fill_moment(problem: Problem) -> float:
    """E N(N−1) for N = #(π∩a), a an action of π and m−1 uniform others: (m−1)²/(K−1)·(2 + (m−2)²/(K−2)).

    N = 1 + H, H hypergeometric with E H = (m−1)²/(K−1), E H(H−1) = (m−1)²(m−2)²/((K−1)(K−2)). Lists around an action
    that is not in π have fewer of its actions: the m of π compete for m−1 places, and one of them may be called first.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.

    >>> import comband as cb
    >>> cb.theory.fill_moment(cb.Problem(n_actions=11, list_size=2))  # (m−1)²/(K−1)·2
    0.2
    """
    check_problem(problem)
    K, m = problem.n_actions, problem.list_size
    if m == 1:
        return 0.0
    return (m - 1) ** 2 / (K - 1) * (2 + ((m - 2) ** 2 / (K - 2) if m > 2 else 0.0))


def total_range(problem: Problem, *, floor: float) -> float:
    """The largest D = T(#(π∩a) − #(ℓ∩a))/((1−f)·q(a)): ρK/(γ(1−f)), as q(a) ≥ #a·γ/K.

    The value estimate T(#(π∩a) − fm)/((1−f)q(a)) lies in an interval of the same length.

    Parameters
    ----------
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.
    floor:
        γ, the share of uniform lists in the mixture.

    >>> import comband as cb
    >>> round(cb.theory.total_range(cb.Problem(11, 2, 1), floor=0.5), 2)  # ρK/(γ(1−f)), f = 1/10
    24.44
    """
    gamma, K, _, _, rho = all_letters(problem, floor)
    return rho * K / (gamma * (1 - problem.fill_share))


def total_variance(problem: Problem, *, floor: float, proxy: float | None = None) -> float:
    """A bound on E (R(π)/(1−f))², free of K but for the share of rare overlaps; E D² is at most twice that.

    T² ≤ ρT gives E R² ≤ ρ·E Σ_y r(y)·E[N²/q(a)], a made of y and a uniform fill, N = #(π∩a). Of N² = N + N(N−1), the
    first part is m times the variance proxy V = E Σ_y r(y) E[(N/m)/q(a)], which `proxy` bounds (2s/(1−γ) by the
    gradient route's N₁; without a floor to design for, γ = 1, K/m·s). The second is at most s·K/(γm) times
    `fill_moment`, since q(a) ≥ γm/K. So E R² ≤ ρ·(m·V + s·κ), κ = fill_moment·K/(γm), about 2m/γ for K ≫ m².

    Where that is smaller, both parts by the floor: ρs·K/(γm)·E N², E N² = fill_moment + 1 + (m−1)²/(K−1).

    Parameters
    ----------
    floor:
        γ, the share of uniform lists in the mixture.
    proxy:
        A bound on V, if a smaller one is known.
    problem:
        The setting: K items, lists of m, rewards that sum to s at most.

    >>> import comband as cb
    >>> cb.theory.total_variance(cb.Problem(11, 2, 1), floor=0.5) > cb.theory.estimate_variance(cb.Problem(11, 2, 1))
    True
    """
    gamma, K, m, s, rho = all_letters(problem, floor)
    moment = fill_moment(problem)
    by_floor = s * K / (gamma * m) * (moment + 1 + (m - 1) ** 2 / max(K - 1, 1))
    if gamma == 1 and proxy is None:
        return rho * by_floor / (1 - problem.fill_share) ** 2
    V = 2 * s / (1 - gamma) if proxy is None else check_positive("proxy", proxy)
    return rho * min(m * V + s * moment * K / (gamma * m), by_floor) / (1 - problem.fill_share) ** 2
