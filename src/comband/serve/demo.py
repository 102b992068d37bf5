"""Simulated visitors of a simulated shop, so that there is something to see."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import numpy as np

from comband.page.problem import Problem
from comband.policies import ScoredPolicy
from comband.serve.journal import NotRunningError, TakenError
from comband.serve.service import Service
from comband.serve.wire import DecisionRequest, RewardPost, Spec
from comband.worlds import SyntheticRecommender

NAME = "demo"


class Shop:
    """A shop of 300 items, of which 5 are shown; candidates that know its visitors' taste more or less.

    Parameters
    ----------
    n_candidates:
        How many compete.
    seed:
        Of the shop; visitors come at random.
    """

    def __init__(self, *, n_candidates: int = 40, seed: int = 7) -> None:
        self.problem = Problem(n_actions=300, list_size=5, sparsity=1)
        self.world = SyntheticRecommender(self.problem, click_rate=0.3, seed=seed)
        rankers = self.world.candidates(n_candidates, seed=seed + 1)
        self._weights = np.stack([np.asarray(one.weights) for one in rankers if isinstance(one, ScoredPolicy)])
        self.names = [f"ranker {i:02d}" for i in range(n_candidates)]

    def spec(self, name: str = NAME, *, epsilon: float = 0.04) -> Spec:
        """The experiment."""
        return Spec(
            name=name,
            candidates=self.names,
            list_size=5,
            epsilon=epsilon,
            sparsity=1,
            window_seconds=30,
            fallback=self.names[0],
            note="Simulated visitors of a shop with 300 items, who click on one of five now and then.",
        )

    async def visit(self, service: Service, name: str, n: int, rng: np.random.Generator, delay: float) -> None:
        """n visitors come at once; what they click comes back after a while, on average after `delay` seconds."""
        batch = self.world.sample(n, rng)
        scores = np.einsum("nd,pdk->npk", batch.contexts, self._weights)  # as rankers would that are no part of comband
        tables = np.argsort(-scores, axis=2)[:, :, : self.problem.list_size]
        needed = service.experiments.find(name).plan
        asked = []
        for table in tables:
            lists: dict[str, list[str | int]] = {
                called: [f"item {item}" for item in row]
                for i, (called, row) in enumerate(zip(self.names, table.tolist(), strict=True))
                if needed is None or needed.needed[i]
            }
            asked.append(DecisionRequest(lists=lists))
        decisions = await service.decide(name, asked)
        shown = np.array([[int(str(item).split()[1]) for item in one.items] for one in decisions])
        clicks = batch.answer(shown)
        await asyncio.sleep(random.expovariate(1 / delay))
        await service.reward(
            name,
            [
                RewardPost(one.decision, list(zip(one.items, map(float, row), strict=True)))
                for one, row in zip(decisions, clicks, strict=True)
            ],
        )


async def visitors(service: Service, *, per_second: float = 150.0, at_once: int = 5, delay: float = 0.5) -> None:
    """Visitors come until the process stops."""
    shop, rng = await asyncio.to_thread(Shop), np.random.default_rng()
    with suppress(TakenError):
        await service.create(shop.spec())
    under_way: set[asyncio.Task[None]] = set()
    while True:
        if len(under_way) < 200:
            task = asyncio.create_task(_quietly(shop, service, at_once, rng, delay))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.sleep(random.expovariate(per_second / at_once))


async def _quietly(shop: Shop, service: Service, n: int, rng: np.random.Generator, delay: float) -> None:
    with suppress(NotRunningError):
        await shop.visit(service, NAME, n, rng, delay)
