"""Logs that other packages made, read by `comband evaluate` and compared with what those packages say about them.

Run it with `python -m benchmarks.interchange [--quick] [--json FILE]`, after `pip install obp vowpalwabbit`; a package
that is not there is left out, and said so. (obp 0.4.1 pins versions that may not build: `pip install --no-deps obp`,
then pandas, torch, pingouin, seaborn, pyyaml, tqdm and mypy_extensions, is enough here.) Four logs:

- slates drawn by obp's SyntheticSlateBanditDataset, with the probability of each item in its slot: each candidate's
  value must be that of obp's SlateIndependentIPS, to rounding;
- the same slates with nothing but obp's `pscore_cascade`: the propensities that follow must fit the lists;
- the sample of the Open Bandit dataset that obp brings along: values must be those of its InverseProbabilityWeighting;
- Vowpal Wabbit's conditional contextual bandit, which learns while it logs: it must take each line of dsjson and find
  the actions, costs and probabilities that we read; our intervals (wrong once in a million) must hold the true values.

Neither package writes such files itself: what they return is written here, with their names for it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import comband as cb

_DELTA = 1e-6
Figures = dict[str, float]


def evaluate(log: Path, lists: Path, *options: str) -> dict[str, Any]:
    """What `comband evaluate` says of a log."""
    command = [
        sys.executable,
        "-c",
        "from comband.commands.cli import main; main()",
        "evaluate",
        str(log),
        "-c",
        str(lists),
    ]
    command += ["--json", "--delta", str(_DELTA), *options]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not run.stdout:
        raise SystemExit(f"comband evaluate refused {log.name}, see above")
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def evaluate_lists(log: Path, policies: cb.PolicySet, n_contexts: int) -> dict[str, Any]:
    """The same, for candidates whose contexts are numbered from 0."""
    lists = log.with_name("lists.parquet")
    cb.write_candidates(policies, np.arange(n_contexts), lists)
    return evaluate(log, lists)


def some_candidates(n_contexts: int, n_actions: int, list_size: int, seed: int) -> cb.PolicySet:
    """A list that never changes, and two that differ from context to context."""
    rng = np.random.default_rng(seed)
    drawn = [np.argsort(rng.random((n_contexts, n_actions)), axis=1)[:, :list_size] for _ in range(2)]
    lists = [np.tile(np.arange(list_size), (n_contexts, 1)), *drawn]
    return cb.PolicySet.from_lists(lists, cb.Problem(n_actions, list_size), names=["fixed", "random a", "random b"])


def compared(answer: dict[str, Any], theirs: Figures) -> Figures:
    """Both sides' values, and the largest relative difference."""
    ours = {c["name"]: c["value"] for c in answer["candidates"]}
    for name, value in theirs.items():
        print(f"  {name:10} {ours[name]:.12g}  {value:.12g}")
    worst = max(abs(ours[name] - value) / max(abs(value), 1e-12) for name, value in theirs.items())
    print(f"  largest relative difference {worst:.1e}")
    return {"largest_relative_difference": worst, "passed": worst < 1e-9}


def obp_slates(folder: Path, quick: bool) -> dict[str, Figures]:
    """The two slate logs."""
    dataset, ope, pandas = (importlib.import_module(name) for name in ("obp.dataset", "obp.ope", "pandas"))
    n, K, m = (1000 if quick else 10_000), 10, 3
    synthetic = dataset.SyntheticSlateBanditDataset(
        n_unique_action=K,
        len_list=m,
        dim_context=2,
        reward_type="binary",
        random_state=1,
        behavior_policy_function=dataset.linear_behavior_policy_logit,
        base_reward_function=dataset.logistic_reward_function,
    )
    feedback = synthetic.obtain_batch_bandit_feedback(n_rounds=n)
    columns = ["slate_id", "position", "action", "reward", "pscore", "pscore_cascade", "pscore_item_position"]
    table = pandas.DataFrame({name: feedback[name] for name in columns})
    policies = some_candidates(n, K, m, seed=2)
    lists = policies.predict(np.arange(n))
    estimator = ope.SlateIndependentIPS(len_list=m)
    theirs = {}
    for p, name in enumerate(policies.names):
        wanted = lists[feedback["slate_id"], p, feedback["position"]]
        theirs[name] = estimator.estimate_policy_value(
            **{key: feedback[key] for key in ("slate_id", "reward", "position", "pscore_item_position")},
            evaluation_policy_pscore_item_position=(wanted == feedback["action"]).astype(float),
        )
    print(f"obp slates, {n:,} of {m} out of {K} items: comband, SlateIndependentIPS")
    log = folder / "slates.csv"
    table.to_csv(log, index=False)
    by_slot = compared(evaluate_lists(log, policies, n), theirs)

    table.drop(columns="pscore_item_position").to_csv(log, index=False)
    check = evaluate_lists(log, policies, n)["propensity_check"]
    print(
        f"obp slates by pscore_cascade alone: items weigh {check['mean']:.4f} per round, {check['expected']:g} is right"
    )
    return {
        "obp slates": by_slot,
        "obp cascade": {"weight": check["mean"], "expected": check["expected"], "passed": check["fits"]},
    }


def obp_open_bandit(folder: Path, quick: bool) -> dict[str, Figures]:
    """The Open Bandit sample.

    The 10,000 rows have 38 clicks, so two candidates copy the log to meet many of them. They are no honest candidates,
    and comband's alarm about the propensities, which then cannot fit, is right.
    """
    dataset, ope, pandas = (importlib.import_module(name) for name in ("obp.dataset", "obp.ope", "pandas"))
    log = folder / "all.csv"
    shutil.copy(Path(str(dataset.__file__)).parent / "obd" / "random" / "all" / "all.csv", log)
    rows = pandas.read_csv(log)
    n, K, m = len(rows), 80, 3
    orders = np.random.default_rng(3).random((n, K)).argsort(axis=1)
    lists = np.stack([orders[:, :m], *(_follow(orders, rows, share)[:, :m] for share in (0.5, 1.0))], axis=1)
    names = ("random", "logged half", "logged")
    policies = cb.PolicySet.from_lists(lists.transpose(1, 0, 2), cb.Problem(K, m), names=names)
    theirs = {}
    for p, name in enumerate(names):
        dist = np.zeros((n, K, m))
        dist[np.arange(n)[:, None], lists[:, p], np.arange(m)] = 1
        theirs[name] = ope.InverseProbabilityWeighting().estimate_policy_value(
            reward=rows["click"].to_numpy(),
            action=rows["item_id"].to_numpy(),
            pscore=rows["propensity_score"].to_numpy(),
            position=rows["position"].to_numpy() - 1,
            action_dist=dist,
        )
    print(f"Open Bandit sample, {n:,} rows: comband, InverseProbabilityWeighting")
    return {"Open Bandit": compared(evaluate_lists(log, policies, n), theirs)}


def _follow(orders: NDArray[np.int64], rows: Any, share: float) -> NDArray[np.int64]:
    """Orders of items with the logged item in its slot, in the first `share` of the rows."""
    result, some = orders.copy(), np.arange(int(share * len(orders)))
    item, slot = rows["item_id"].to_numpy()[some], rows["position"].to_numpy()[some] - 1
    place = (orders[some] == item[:, None]).argmax(axis=1)
    result[some, place], result[some, slot] = orders[some, slot], item
    return result


def vowpal_wabbit(folder: Path, quick: bool) -> dict[str, Figures]:
    """A CCB log of a learner at work."""
    vw = importlib.import_module("vowpalwabbit")
    ccb, scores = vw.LabelType.CONDITIONAL_CONTEXTUAL_BANDIT, vw.PredictionType.DECISION_SCORES
    n, served, users, K, m = (4000 if quick else 40_000), 1000, 4, 6, 2
    rng = np.random.default_rng(4)
    wants = rng.random((users, K)) * 0.5
    names = [f"item {k}" for k in range(K)]
    learner = vw.Workspace("--ccb_explore_adf --dsjson --quiet -q UA --epsilon 0.4")
    log, model = folder / "ccb.dsjson", folder / "model.vw"
    differing = 0
    with log.open("w") as file:
        for start in range(0, n, served):
            # Lists come from the model as it was when this batch began.
            learner.save(str(model))
            server = vw.Workspace(f"--json --quiet -i {model} --random_seed {start + 1}")
            for i in range(start, start + served):
                user = int(rng.integers(users))
                context = {
                    "User": {"id": f"user {user}"},
                    "_multi": [{"_tag": name, "A": {"id": name}} for name in names],
                    "_slots": [{"_id": f"slot {j}"} for j in range(m)],
                }
                asked = server.parse(json.dumps(context), ccb)
                shown = server.predict(asked, prediction_type=scores)
                server.finish_example(asked)
                outcomes = [
                    {
                        "_label_cost": -float(rng.random() < wants[user, slot[0][0]]),
                        "_id": f"slot {j}",
                        "_a": [action for action, _ in slot],
                        "_p": [chance for _, chance in slot],
                    }
                    for j, slot in enumerate(shown)
                ]
                line = json.dumps({"EventId": f"event {i}", "c": context, "_outcomes": outcomes})
                file.write(line + "\n")
                told = learner.parse(line, ccb)
                differing += labels(told) != outcomes_in_single(outcomes)
                learner.learn(told)
                learner.finish_example(told)
            server.finish()
    learner.finish()
    lists = np.array([[[0, 1]] * users, np.argsort(-wants, axis=1)[:, :m], np.argsort(wants, axis=1)[:, :m]])
    candidates = ("fixed", "best", "worst")
    file_of_lists = folder / "lists.jsonl"
    with file_of_lists.open("w") as file:
        for user in range(users):
            own = {who: [names[k] for k in lists[p, user]] for p, who in enumerate(candidates)}
            file.write(json.dumps({"context": f"user {user}", "lists": own}) + "\n")
    least = 0.4 / K  # what --epsilon gives every action of a slot, at least
    answer = evaluate(log, file_of_lists, "--context", "c.User.id", "--min-propensity", str(least))
    truth = {who: float(np.take_along_axis(wants, lists[p], axis=1).sum() / users) for p, who in enumerate(candidates)}
    inside = True
    print(f"Vowpal Wabbit CCB, {n:,} rounds: comband, truth, interval; {differing} lines that VW read otherwise")
    for candidate in answer["candidates"]:
        low, high = candidate["interval"]
        true = truth[candidate["name"]]
        inside &= low <= true <= high
        print(f"  {candidate['name']:10} {candidate['value']:.5f}  {true:.5f}  [{low:.5f}, {high:.5f}]")
    check = answer["propensity_check"]
    print(f"  items weigh {check['mean']:.4f} per round, {check['expected']:g} is right")
    error = max(abs(c["value"] - truth[c["name"]]) for c in answer["candidates"])
    return {
        "Vowpal Wabbit": {
            "lines_read_otherwise": differing,
            "largest_error": error,
            "passed": bool(inside and check["fits"] and not differing),
        }
    }


def labels(examples: Sequence[Any]) -> list[Any]:
    """What VW found in a line: each slot's cost, and its actions with their probabilities."""
    slots = [example for example in examples if example.get_ccb_has_outcome()]
    return [
        (
            slot.get_ccb_cost(),
            [(slot.get_ccb_action(i), slot.get_ccb_probability(i)) for i in range(slot.get_ccb_num_probabilities())],
        )
        for slot in slots
    ]


def outcomes_in_single(outcomes: Sequence[dict[str, Any]]) -> list[Any]:
    """What we wrote, in VW's single precision."""
    return [
        (slot["_label_cost"], [(a, float(np.float32(p))) for a, p in zip(slot["_a"], slot["_p"], strict=True)])
        for slot in outcomes
    ]


PARTS: dict[str, Callable[[Path, bool], dict[str, Figures]]] = {
    "obp": obp_slates,
    "obp.dataset": obp_open_bandit,
    "vowpalwabbit": vowpal_wabbit,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    figures: dict[str, Figures] = {}
    for package, part in PARTS.items():
        try:
            importlib.import_module(package)
        except ImportError as error:
            print(f"left out, {package.split('.')[0]} is not there or does not load: {error}")
            continue
        with tempfile.TemporaryDirectory() as name:
            figures |= part(Path(name), options.quick)
    for name, figure in figures.items():
        print(f"{name:15} {'agrees' if figure['passed'] else 'DIFFERS'}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))
    return int(not all(figure["passed"] for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
