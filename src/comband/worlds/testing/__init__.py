"""What a policy, oracle, environment, explorer or learner promises, as suites that an own one can be put through.

Subclass a suite in a test file and say how to make yours; pytest runs one test per promise:

    class TestMine(PolicySuite):
        problem = Problem(n_actions=20, list_size=3)

        def policy(self):
            return Mine()

        def contexts(self, n, rng):
            return rng.normal(size=(n, 8))

Without pytest, `check(TestMine)` runs them all and raises one error that names every broken promise.
"""

from comband._lazy import lazily

__all__, __getattr__, __dir__ = lazily(__name__, __file__)
