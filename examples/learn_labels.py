"""Learn to list the right labels when only the shown ones are ever confirmed.

Run it with `python examples/learn_labels.py`; it takes a few seconds.
"""

import numpy as np

import comband as cb


def main() -> None:
    """Teach a list classifier the handwritten digits, two guesses an image, and keep the model."""
    learn, held_out = cb.MultilabelData.from_sklearn("digits").split(seed=0)
    world = cb.MultilabelWorld(learn, list_size=2)
    learner = cb.OnlineListClassifier(world.problem, seed=7)

    rng = np.random.default_rng(1)
    for _ in range(20):
        batch = world.sample(100, rng)  # images arrive
        decisions = learner.ask(batch.contexts)  # two guesses each, with propensities
        learner.tell(decisions, batch.answer(decisions.lists))  # which guess was right, if any
        if learner.rounds % 500 == 0:
            hits = held_out.hits(learner.predict(held_out.features))
            print(f"after {learner.rounds:,} images: {hits:.1%} of new ones have the right digit among two guesses")

    print(learner.result())  # a value with its interval, and honestly no more than the trivial promise

    everything = cb.BanditListClassifier(list_size=2).fit(learn.features, learn.labels)
    print(f"with all labels known: {everything.score(held_out.features, held_out.labels):.1%}")


if __name__ == "__main__":
    main()
