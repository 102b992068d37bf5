"""Which of several scikit-learn models recommends best, when only the shown items are ever confirmed.

Run it with `python examples/compare_models.py`; it takes a few seconds.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import comband as cb


def main() -> None:
    """Show two guesses for each handwritten digit and learn only whether the digit is among them."""
    X, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(X))
    X, digits = X[order] / 16, digits[order]
    models = {
        "logistic": LogisticRegression(max_iter=300),
        "naive Bayes": GaussianNB(var_smoothing=1e-3),
        "neighbours": KNeighborsClassifier(3),
        "small tree": DecisionTreeClassifier(max_depth=4, random_state=1),
    }
    problem = cb.Problem(n_actions=10, list_size=2, sparsity=1)
    fitted = [model.fit(X[:200], digits[:200]) for model in models.values()]
    policies = cb.PolicySet([cb.ScoredPolicy(model, problem) for model in fitted], names=list(models))

    rng = np.random.default_rng(2)
    floor = 0.2
    mixture = cb.Mixture(policies, np.full(len(models), 1 / len(models)), problem=problem, floor=floor)
    unseen, wanted = X[200:], digits[200:]
    decisions = mixture.draw(unseen, rng)
    rewards = (decisions.lists == wanted[:, None]).astype(float)
    result = cb.evaluate(
        cb.Rounds(decisions, rewards),
        policies,
        max_reward=problem.max_reward,
        min_propensity=floor * problem.uniform_propensity,
    )
    print(f"{len(unseen):,} digits, two guesses each, only hits are seen:")
    for candidate in result.candidates:
        hits = (policies[candidate.index].predict(unseen) == wanted[:, None]).any(axis=1).mean()
        print(f"  {candidate}   (with all labels known: {hits:.4f})")
    print(f"best: {result.best.name}; no other is better by more than {result.epsilon:.4f}")


if __name__ == "__main__":
    main()
