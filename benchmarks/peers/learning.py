"""Job 3: learning lists online when only shown labels are confirmed: hits on held-out rows, reward, time and memory.

Sets, division and rounds are those of `benchmarks.list_classification` (`--data`), with digits and iris, which ship
with scikit-learn. Each run is a process of its own. All get the sparse features but mabwiser and mab2rec, which keep a
d × d matrix per label and get 50 components of them (a singular value decomposition of the learning part, without
labels). Most choose one action and know no lists: their best m actions are shown, and each confirmed or refused label
is one observation. Vowpal Wabbit's slates are left out: each slot has its own actions there, so that a label could be
shown twice or in one slot only. The skyline is told all labels of all rows. Everybody is judged without exploration on
the same 1,000 held-out rows, after a fit on all rounds so far if it needs one; that is timed apart from deciding and
learning.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

import comband as cb
from benchmarks.evaluate import timed
from benchmarks.list_classification import VowpalWabbit
from benchmarks.peers.results import Ledger, Row, grouped, markdown, peak_megabytes, peer, spread

Array = NDArray[np.float64]
Lists = NDArray[np.int32]
GRID = (500, 1000, 2000, 5000, 10_000)
COMPONENTS, EPSILON, JUDGED = 50, 0.1, 1000
BATCH = 25  # visitors between two lessons: LinUCB earns a fifth more than with 250, and comband a little


class Scores:
    """A model with a score per label, shown ε-greedily: m best labels, each replaced by a random one with ε."""

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        self.K, self.m, self.rng = problem.n_actions, problem.list_size, np.random.default_rng([seed, 21])

    def ask(self, X: Any) -> Lists:
        """Lists to show."""
        return self.explored(self.predict(X))

    def explored(self, lists: Lists) -> Lists:
        """With some labels at random, none twice."""
        lists = lists.copy()
        for row, place in zip(*np.nonzero(self.rng.random(lists.shape) < EPSILON), strict=True):
            lists[row, place] = self.rng.choice(np.setdiff1d(np.arange(self.K), lists[row]))
        return lists

    def top(self, scores: Array) -> Lists:
        """The m highest, ties at random."""
        noisy = scores + 1e-9 * self.rng.random(scores.shape)
        return np.argsort(-noisy, axis=1)[:, : self.m].astype(np.int32)

    def predict(self, X: Any) -> Lists:
        """The best lists so far."""
        raise NotImplementedError

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """What was confirmed."""
        raise NotImplementedError


class Logged(Scores):
    """comband's BanditListClassifier, fitted on the log of uniform lists so far: explore first, learn once."""

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        super().__init__(problem, seed)
        self.log: list[tuple[Any, Lists, Array]] = []

    def ask(self, X: Any) -> Lists:
        """Random labels."""
        return self.top(np.zeros((X.shape[0], self.K)))

    def predict(self, X: Any) -> Lists:
        """By a fresh fit."""
        model = cb.BanditListClassifier(list_size=self.m, n_actions=self.K)
        contexts, lists, rewards = zip(*self.log, strict=True)
        model.fit(sp.vstack(contexts), lists=np.concatenate(lists), rewards=np.concatenate(rewards))
        return np.asarray(model.predict(X), dtype=np.int32)

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """Into the log."""
        self.log.append((X, lists, rewards))


class Mabwiser(Scores):
    """mabwiser's LinUCB on components: upper bounds explore, means are judged.

    α = 0.25 was chosen on other seeds among 1 (the default), 0.5, 0.25 and 0.1.
    """

    alpha = 0.25

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        super().__init__(problem, seed)
        mab = peer("mabwiser.mab")
        self.bandit = mab.MAB(list(range(self.K)), mab.LearningPolicy.LinUCB(alpha=self.alpha), seed=seed)
        self.fitted = False

    def ask(self, X: Any) -> Lists:
        """The m highest bounds; at random before it has seen anything."""
        return self.ranked(X) if self.fitted else self.top(np.zeros((len(X), self.K)))

    def predict(self, X: Any) -> Lists:
        """The m highest means: bounds with α = 0."""
        models = self.mab._imp.arm_to_model.values()
        for model in models:
            model.alpha = 0.0
        lists = self.ranked(X)
        for model in models:
            model.alpha = self.alpha
        return lists

    @property
    def mab(self) -> Any:
        """mabwiser's own object."""
        return self.bandit

    def ranked(self, X: Any) -> Lists:
        """By its scores."""
        found = self.bandit.predict_expectations(X)
        each = found if isinstance(found, list) else [found]
        return self.top(np.array([[one[label] for label in range(self.K)] for one in each]))

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """One observation per shown label."""
        fit = self.bandit.partial_fit if self.fitted else self.bandit.fit
        fit(lists.ravel().tolist(), rewards.ravel().tolist(), np.repeat(X, self.m, axis=0))
        self.fitted = True


class Mab2rec(Mabwiser):
    """mab2rec's recommender on the same bandit: it gives the m best itself."""

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        super().__init__(problem, seed)
        policy = peer("mabwiser.mab").LearningPolicy.LinUCB(alpha=self.alpha)
        self.bandit = peer("mab2rec").BanditRecommender(policy, top_k=self.m, seed=seed)
        self.bandit.set_arms(list(range(self.K)))

    @property
    def mab(self) -> Any:
        """mabwiser's object in it."""
        return self.bandit.mab

    def ranked(self, X: Any) -> Lists:
        """Its own lists."""
        return np.array(self.bandit.recommend(X), dtype=np.int32).reshape(len(X), self.m)


class ContextualBandits(Scores):
    """contextualbandits' EpsilonGreedy over logistic regressions, refitted when the log has grown by a quarter, and
    before it is judged.

    C = 10 was chosen on other seeds among 1 (scikit-learn's default), 10 and 30: 30 is better yet on bibtex, 1 on
    Corel5k. Labels confirmed less than `ENOUGH` times have random scores, which is its way of exploring: judged, they
    come last.
    """

    ENOUGH = 2  # its "auto" prior

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        super().__init__(problem, seed)
        kind = peer("contextualbandits.online").EpsilonGreedy
        base = LogisticRegression(C=10, max_iter=200)
        self.policy = kind(base, nchoices=self.K, explore_prob=EPSILON, random_state=seed, njobs=1)
        self.log: list[tuple[Any, Lists, Array]] = []
        self.rounds, self.next, self.fitted = 0, 500, 0
        self.confirmed = np.zeros(self.K)

    def ask(self, X: Any) -> Lists:
        """Its own ranking, with its own exploration."""
        if self.fitted:
            return np.asarray(self.policy.topN(sp.csr_matrix(X), self.m), dtype=np.int32)
        return self.top(np.zeros((X.shape[0], self.K)))

    def predict(self, X: Any) -> Lists:
        """By its scores, without exploration."""
        if self.fitted < self.rounds:
            self.fit()
        scores = self.policy.decision_function(sp.csr_matrix(X))
        return self.top(np.where(self.confirmed < self.ENOUGH, scores - 1, scores))

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """Into the log; fit when it is time."""
        self.log.append((X[np.repeat(np.arange(X.shape[0]), self.m)], lists.ravel(), rewards.ravel()))
        np.add.at(self.confirmed, lists, rewards)
        self.rounds += X.shape[0]
        if self.rounds >= self.next:
            self.next = math.ceil(1.25 * self.rounds)
            self.fit()

    def fit(self) -> None:
        """On everything so far."""
        contexts, labels, answers = zip(*self.log, strict=True)
        self.policy.fit(sp.csr_matrix(sp.vstack(contexts)), np.concatenate(labels), np.concatenate(answers))
        self.fitted = self.rounds


def features_of(X: Any) -> list[dict[int, float]]:
    """Rows of a sparse matrix as dictionaries."""
    parts = (slice(X.indptr[row], X.indptr[row + 1]) for row in range(X.shape[0]))
    return [dict(zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True)) for part in parts]


class River(Scores):
    """river's logistic regression per label, ε-greedy; of its own LinUCB river says that it is too slow.

    Labels begin as unlikely ones. The rate of its steps and that beginning were chosen on other seeds, the rate among
    0.01 (its default), 0.1, 1 and 10; scaling did harm.
    """

    rate, beginning = 1.0, -3.0

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        super().__init__(problem, seed)
        kind, steps = peer("river.linear_model").LogisticRegression, peer("river.optim").SGD
        self.models = [kind(optimizer=steps(self.rate), intercept_init=self.beginning) for _ in range(self.K)]

    def predict(self, X: Any) -> Lists:
        """The m most likely labels."""
        rows = features_of(X)
        return self.top(np.array([[model.predict_proba_one(row)[True] for model in self.models] for row in rows]))

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """One observation per shown label."""
        for features, labels, confirmed in zip(features_of(X), lists, rewards, strict=True):
            for label, reward in zip(labels, confirmed, strict=True):
                self.models[label].learn_one(features, bool(reward))


class VowpalPerSlot:
    """Vowpal Wabbit's cb_explore_adf asked once per slot, each time without the labels that are in the list already.

    A label's probability falls with its predicted cost, which does not depend on the other labels: without exploration
    the list is that of the m highest probabilities, and one question is enough.
    """

    def __init__(self, problem: cb.Problem, seed: int) -> None:
        self.K, self.m, self.rng = problem.n_actions, problem.list_size, np.random.default_rng([seed, 22])
        options = "--cb_explore_adf --squarecb --cb_type mtr -q UA --ignore_linear U -b 22 --quiet"
        self.vw: Any = peer("vowpalwabbit").Workspace(f"{options} --random_seed {seed + 1}")
        self.chances = np.empty((0, self.m))

    def ask(self, X: Any) -> Lists:
        """Drawn from its probabilities."""
        lists, self.chances = np.empty((X.shape[0], self.m), dtype=np.int32), np.empty((X.shape[0], self.m))
        for row in range(X.shape[0]):
            left = list(range(self.K))
            for slot in range(self.m):
                p = np.array(self.vw.predict(self._example(X, row, left)))
                pick = int(self.rng.choice(len(left), p=p / p.sum()))
                lists[row, slot], self.chances[row, slot] = left[pick], p[pick] / p.sum()
                del left[pick]
        return lists

    def predict(self, X: Any) -> Lists:
        """The most likely."""
        everything = list(range(self.K))
        p = np.array([self.vw.predict(self._example(X, row, everything)) for row in range(X.shape[0])])
        return np.argsort(-p, axis=1, kind="stable")[:, : self.m].astype(np.int32)

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """One example per slot, with the labels that were left."""
        for row in range(X.shape[0]):
            left = list(range(self.K))
            for slot, label in enumerate(lists[row].tolist()):
                outcome = f"0:{-rewards[row, slot]}:{self.chances[row, slot]} "
                self.vw.learn(self._example(X, row, left, label, outcome))
                left.remove(label)

    def _example(self, X: Any, row: int, left: list[int], label: int = -1, outcome: str = "") -> list[str]:
        part = slice(X.indptr[row], X.indptr[row + 1])
        features = " ".join(f"{j}:{v:.5g}" for j, v in zip(X.indices[part], X.data[part], strict=True))
        return [f"shared |U c {features}", *(f"{outcome if y == label else ''}|A a{y}" for y in left)]


class Decided:
    """Methods with decisions, as those without."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def ask(self, X: Any) -> Lists:
        """Lists to show."""
        self.decisions = self.inner.ask(X)
        return np.asarray(self.decisions.lists)

    def predict(self, X: Any) -> Lists:
        """The best so far."""
        return np.asarray(self.inner.predict(X))

    def tell(self, X: Any, lists: Lists, rewards: Array) -> None:
        """What was confirmed."""
        self.inner.tell(self.decisions, rewards)


def _ccb(problem: cb.Problem, seed: int) -> Any:
    peer("vowpalwabbit")
    return Decided(VowpalWabbit(problem, seed))


METHODS: dict[str, Callable[[cb.Problem, int], Any]] = {
    "comband: OnlineListClassifier": lambda problem, seed: Decided(cb.OnlineListClassifier(problem, seed=seed)),
    'comband: OnlineListClassifier, objective="reward"': lambda problem, seed: Decided(
        cb.OnlineListClassifier(problem, objective="reward", seed=seed)
    ),
    "comband: BanditListClassifier, uniform lists": Logged,
    "VW CCB": _ccb,
    "VW cb_explore_adf per slot": VowpalPerSlot,
    "contextualbandits EpsilonGreedy": ContextualBandits,
    "mabwiser LinUCB": Mabwiser,
    "mab2rec LinUCB": Mab2rec,
    "river logistic regression": River,
}
DENSE = ("mabwiser LinUCB", "mab2rec LinUCB")
# With more labels than FEW, five to twenty milliseconds per round and seconds to be judged: so many rounds only.
FEW = 10
MOST_ROUNDS = {"VW cb_explore_adf per slot": 5000, "VW CCB": 5000}
SHIPPED: dict[str, Literal["digits", "iris"]] = {"digits": "digits", "iris": "iris"}
MODULES = {"VW": "vowpalwabbit", "contextualbandits": "contextualbandits", "mabwiser": "mabwiser"}
MODULES |= {"mab2rec": "mab2rec", "river": "river"}


def load(name: str, folder: Path | None) -> cb.MultilabelData:
    """A set with rows of unit length."""
    if name in SHIPPED:
        data = cb.MultilabelData.from_sklearn(SHIPPED[name])
    elif folder is None:
        raise SystemExit(f"{name} is read from a folder: say --data DIR; digits and iris ship with scikit-learn.")
    else:
        data = cb.MultilabelData.from_npz(folder, name)
    return cb.MultilabelData(normalize(sp.csr_array(data.features, dtype=np.float64)), data.labels)


def learn(name: str, method: str, seed: int, rounds: int, folder: Path | None) -> Row:
    """One method on one set: hits on held-out rows at the grid, reward per round, time and memory."""
    data = load(name, folder)
    part, held_out = data.split(seed=seed)
    world = cb.MultilabelWorld(part, list_size=min(5, max(1, data.n_actions // 4)))
    judged = cb.MultilabelData(held_out.features[:JUDGED], held_out.labels[:JUDGED])
    if method == "skyline":
        fitted = cb.BanditListClassifier(list_size=world.problem.list_size).fit(part.features, part.labels)
        return {"hits": {"0": judged.hits(fitted.predict(judged.features))}}
    learner = METHODS[method](world.problem, seed)
    seen: Callable[[Any], Any] = lambda X: X  # noqa: E731
    if method in DENSE:
        n = min(COMPONENTS, part.features.shape[1] - 1)
        seen = TruncatedSVD(n, random_state=seed).fit(part.features).transform
    rng, done, spent, reward = np.random.default_rng([seed, 1]), 0, 0.0, 0.0
    hits: dict[str, float] = {}
    rewards: dict[str, float] = {}
    judging: dict[str, float] = {}
    if data.n_actions > FEW:
        rounds = min(rounds, MOST_ROUNDS.get(method, rounds))
    while done < rounds:
        stop = min(n for n in (*GRID, rounds) if n > done)
        batch = world.sample(min(BATCH, stop - done), rng)
        start = time.process_time()
        X = seen(batch.contexts)
        lists = learner.ask(X)
        spent += time.process_time() - start
        answers = batch.answer(lists)
        start = time.process_time()
        learner.tell(X, lists, answers)
        spent += time.process_time() - start
        done, reward = done + len(batch), reward + float(answers.sum())
        if done in GRID:
            start = time.process_time()
            hits[str(done)] = judged.hits(learner.predict(seen(judged.features)))
            judging[str(done)], rewards[str(done)] = time.process_time() - start, reward / done
    found = {"hits": hits, "rewards": rewards, "judging": judging}
    return {**found, "milliseconds": 1e3 * spent / done, "memory": peak_megabytes()}


def in_a_process(key: Row, folder: Path | None) -> Row:
    """The same, in a process of its own."""
    module = MODULES.get(key["method"].split()[0])
    if module is not None:
        peer(module)
    place = [] if folder is None else [str(folder)]
    arguments = [key["set"], key["method"], str(key["seed"]), str(key["rounds"]), *place]
    printed = timed([sys.executable, "-W", "ignore", "-m", "benchmarks.peers.learning", *arguments])[3]
    found: Row = json.loads(printed.splitlines()[-1])
    return found


def run(ledger: Ledger, options: argparse.Namespace) -> None:
    """All sets, methods and seeds."""
    shipped = ["digits"] if options.quick else [*SHIPPED]
    names = options.sets or [*(["bibtex", "Corel5k", "enron"] if options.data else []), *shipped]
    rounds = 1000 if options.quick else 10_000
    wanted = [name for name in (*METHODS, "skyline") if not options.methods or any(p in name for p in options.methods)]
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name in names:
            for method in wanted:
                key = {"set": name, "rounds": rounds, "method": method, "seed": seed}
                ledger.run(key, lambda key=key: in_a_process(key, options.data))  # type: ignore[misc]
            print(f"learning: {name}, seed {seed}", flush=True)


def tables(rows: list[Row]) -> str:
    """Hits on held-out rows after so many rounds; reward while learning, time and memory."""
    text = []
    for (name, rounds), some in grouped(rows, "set", "rounds").items():
        grid = sorted({int(n) for row in some for n in row["hits"]} - {0})
        learners = [row for row in some if row["method"] != "skyline"]
        common = max(n for n in grid if all(str(n) in row["hits"] for row in learners))
        hits, rewards = [], []
        for (method,), runs in grouped(some, "method").items():
            if method == "skyline":
                skyline = spread((row["hits"]["0"] for row in runs), ".3f")
                hits.append(["skyline (all labels of all rows)", *[""] * (len(grid) - 1), skyline])
                continue
            hits.append([method, *_at(grid, [row["hits"] for row in runs])])
            costs = [f"{np.median([run['milliseconds'] for run in runs]):.2f}"]
            costs.append(f"{np.median([run['judging'][str(common)] for run in runs]):.1f}")
            costs.append(f"{np.median([run['memory'] for run in runs]):,.0f}")
            rewards.append([method, *_at(grid, [row["rewards"] for row in runs]), *costs])
        seeds, header = len({row["seed"] for row in some}), ["method", *(f"{n:,}" for n in grid)]
        text.append(f"### {name}, {rounds:,} rounds ({seeds} seeds, quartiles)\n")
        text.append("Hits per list on held-out rows after so many rounds:\n")
        text.append(markdown(header, hits) + "\n")
        text.append("Reward per round until then, and costs (medians; some 300 MB are imports, the same for all):\n")
        text.append(markdown([*header, "ms per round", f"s to be judged at {common:,}", "peak MB"], rewards) + "\n")
    return "\n".join(text)


def _at(grid: list[int], runs: list[dict[str, float]]) -> list[str]:
    return [spread((run[str(n)] for run in runs if str(n) in run), ".3f") for n in grid]


if __name__ == "__main__":
    given = sys.argv[1:]
    place = Path(given[4]) if len(given) > 4 else None
    print(json.dumps(learn(given[0], given[1], int(given[2]), int(given[3]), place)))
