"""A small log with candidates, in memory and as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import comband as cb

PROBLEM = cb.Problem(n_actions=20, list_size=3, sparsity=1)


def small_log(n: int = 400, seed: int = 1) -> tuple[cb.Rounds, cb.PolicySet]:
    """Rounds of a mixture of five candidates, contexts numbered 0 … 29."""
    rng = np.random.default_rng(seed)
    lists = rng.permuted(np.tile(np.arange(20), (5, 30, 1)), axis=2)[:, :, :3]
    names = ["plain", "with space", "ünïcode", "comma, quoted", "7"]
    policies = cb.PolicySet.from_lists(lists, PROBLEM, names=names)
    mixture = cb.Mixture(policies, rng.dirichlet(np.ones(5)), problem=PROBLEM, floor=0.4)
    contexts = rng.integers(0, 30, size=n)
    decisions = mixture.draw(contexts, rng)
    chosen = rng.integers(0, 3, size=n)
    rewards = np.zeros((n, 3))
    rewards[np.arange(n), chosen] = np.where(rng.random(n) < 0.4, rng.random(n), 0)
    return cb.Rounds(decisions, rewards), policies


def write_both(folder: Path, kind: str = "jsonl", n: int = 400) -> tuple[Path, Path]:
    """The small log and its candidates as files."""
    rounds, policies = small_log(n)
    log, lists = folder / f"log.{kind}", folder / f"lists.{kind}"
    cb.write_rounds(rounds, log)
    cb.write_candidates(policies, np.arange(30), lists)
    return log, lists
