"""A ranker that wins on clicks may lose purchases, and another one may be best on phones: what a log says of both.

Eight rankers of a simulated shop; a click on half of the items ends in a purchase.
"""

import numpy as np

import comband as cb

problem = cb.Problem(n_actions=40, list_size=4, sparsity=1)
shop = cb.SyntheticRecommender(problem, click_rate=0.35, seed=1)
rankers = shop.candidates(8, seed=2)
sells = np.random.default_rng(3).random(40) < 0.5

# Last month's lists: half of them at random, the others from the rankers in turn.
month = cb.Mixture(rankers, np.full(8, 1 / 8), problem=problem, floor=0.5)
rng = np.random.default_rng(4)
visitors = shop.sample(30_000, rng)
decisions = month.draw(visitors.contexts, rng)
clicks = visitors.answer(decisions.lists)

answer = cb.evaluate(
    cb.Rounds(decisions, clicks),
    rankers,
    max_reward=problem.max_reward,
    min_propensity=month.floor * problem.uniform_propensity,
    production=rankers.names[7],
    metrics=[cb.Metric(name="purchases", margin=0.1, relative=True)],  # a tenth fewer than today at most
    values={"purchases": clicks * sells[decisions.lists]},
    segments=cb.Segments(["phone", "desktop"], lambda X: np.where(X[:, 0] > 0, "phone", "desktop")),
)
print(answer.verdict)
print(answer.best)
for row in answer.guarded:
    print(row, row.interval)
assert answer.segmented is not None  # for segments were declared
for segment in answer.segmented.segments:
    print(f"{segment.name}, {segment.share:.0%} of rounds: {segment.evaluation.verdict.title}")
for claim in answer.claims:
    print(claim)
