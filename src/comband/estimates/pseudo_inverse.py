"""The pseudo-inverse estimator of totals, for lists that are shown as the candidates make them.

With C = E[a aᵀ | x], a and π as 0/1 vectors, R(π) = T·πᵀC⁺a has mean πᵀC⁺C·r, which is V(π) = πᵀr for all rewards r
exactly when π lies in the span of the shown lists; and likewise for a difference π − ℓ. It helps where the rank of the
lists is below the number of distinct ones; otherwise it weighs each list by the inverse of its own probability.
With K items everything goes through overlaps of lists (|π_j ∩ π_k|), and no K × K matrix is made.

Reference: Swaminathan et al. (2017), Off-policy evaluation for slate recommendation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comband.problem import Problem

_RANK = 1e-9  # of the largest eigenvalue: below it a direction is none


def list_overlaps(lists: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.float64]:
    """|π_j ∩ a_k| (n, J, L) of lists (n, J, m) and (n, L, m) of distinct actions."""
    same = lists[:, :, None, :, None] == others[:, None, :, None, :]
    return np.asarray(same.sum(axis=(-1, -2)), dtype=np.float64)


def own_list_weights(overlaps: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Z (n, S, S) = ΠC⁺Πᵀ for C = Σ_k p_k π_kπ_kᵀ, p > 0: T·Z[j, k] estimates V(π_j) when the list of k was shown.

    With D = diag p and G = ΠΠᵀ the overlaps, ΠC⁺Πᵀ = D^−½·proj(D^½GD^½)·D^−½: A = D^½Π has C = AᵀA, and A(AᵀA)⁺Aᵀ is
    the projection on the range of AAᵀ.
    """
    root = np.sqrt(p)
    values, vectors = np.linalg.eigh(root[:, None] * overlaps * root)
    kept = vectors * (values > _RANK * values[..., -1:])[..., None, :]
    return np.asarray((kept @ np.swapaxes(kept, -1, -2)) / root[:, None] / root)


def mixed_list_weights(
    overlaps: NDArray[np.float64],
    shown: NDArray[np.float64],
    p: NDArray[np.float64],
    *,
    floor: float,
    problem: Problem,
) -> NDArray[np.float64]:
    """Z (n, S, L) = π_jᵀC⁻¹a_l for C = γ(αI + β11ᵀ) + (1−γ)Σ_k p_k π_kπ_kᵀ, of any lists a_l.

    α = m(K−m)/(K(K−1)) and β = m(m−1)/(K(K−1)) are those of uniform lists. By Woodbury's identity with U = [1, Π],
    W = diag(γβ, (1−γ)p): C⁻¹ = (I − U·W^½(γα·I + W^½UᵀUW^½)⁻¹·W^½·Uᵀ)/(γα).

    Parameters
    ----------
    overlaps:
        (n, S, S) of the candidates with each other.
    shown:
        (n, S, L) of the candidates with the lists in question.
    p, floor, problem:
        p (S,), γ > 0; K and m.
    """
    n, S, L = shown.shape
    K, m = problem.n_actions, problem.list_size
    alpha, beta = m * (K - m) / (K * (K - 1)), m * (m - 1) / (K * (K - 1))
    root = np.sqrt(np.concatenate([[floor * beta], (1 - floor) * p]))
    gram = np.empty((n, S + 1, S + 1))
    gram[:, 0, 0] = K
    gram[:, 0, 1:] = gram[:, 1:, 0] = m
    gram[:, 1:, 1:] = overlaps
    with_shown = np.concatenate([np.full((n, 1, L), float(m)), shown], axis=1)
    inner = floor * alpha * np.eye(S + 1) + root[:, None] * gram * root
    correction = np.linalg.solve(inner, root[:, None] * with_shown)
    return np.asarray((shown - (gram[:, 1:] * root) @ correction) / (floor * alpha))
