"""What an honest learner writes is verified: by a program that shares no code with it."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comband as cb
from comband.certify import verify as verifier
from comband.certify.verify import verify
from tests.certify.checking.honest import LEARNERS, READINGS, certificate, learner_of
from tests.pairs.options import BY_NAME, KINDS, options_of
from tests.pairs.runs import Case, Run

VECTORS = Path(__file__).parent / "vectors"
SOURCE = Path(str(verifier.__file__))


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_reading_and_every_exploration(reading: str, learner: str, tmp_path: Path) -> None:
    path = tmp_path / "certificate.zip"
    try:
        head = certificate(path, reading, learner, 3)
    except cb.InputError:  # the two do not go together
        assert learner in ("pseudo-inverse", "two-phase")
        return
    report = verify(str(path), [head])
    assert report.verified, report.reason
    unchecked = [line for line in report.not_checked if "not recomputed" in line]
    assert bool(unchecked) == (reading == "pairs" and learner == "adaptive")


def test_the_program_stands_alone(tmp_path: Path) -> None:
    """It imports the standard library and numpy only, and runs out of the certificate."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    imported = {name.name.split(".")[0] for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names}
    imported |= {str(one.module).split(".")[0] for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) == {"numpy"}
    head = certificate(tmp_path / "certificate.zip", "items", "adaptive", 3)
    with zipfile.ZipFile(tmp_path / "certificate.zip") as file:
        assert file.read("verify.py") == SOURCE.read_bytes()
        file.extract("verify.py", tmp_path)
    command = [sys.executable, "-I", "verify.py", "certificate.zip", "--head"]
    right = subprocess.run([*command, head], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert right.returncode == 0, right.stderr
    assert right.stdout.rstrip().endswith("VERIFIED")
    wrong = subprocess.run([*command, "0" * 64], cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert wrong.returncode == 1
    assert "REFUSED: a published head is not in the chain" in wrong.stdout


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.zip")), ids=lambda path: path.stem)
def test_vectors_are_verified_for_ever(path: Path) -> None:
    report = verify(str(path), [(VECTORS / f"{path.stem}.head").read_text(encoding="utf-8").strip()])
    assert report.verified, report.reason


def test_there_is_a_vector_for_every_reading() -> None:
    assert {path.stem.split()[0] for path in VECTORS.glob("*.zip")} >= READINGS.keys()


def test_a_certificate_that_is_written_again_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one", "other"):
        certificate(tmp_path / f"{name}.zip", "items", "adaptive", 3, rounds=300)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


def test_heads_along_the_way_are_all_in_the_chain(tmp_path: Path) -> None:
    learner, shop = learner_of("items", "adaptive", 4)
    heads, rng = [learner.head], np.random.default_rng(1)
    for _ in range(6):
        visitors = shop.sample(70, rng)
        decisions = learner.ask(visitors.contexts)
        heads.append(learner.head)
        learner.tell(decisions, visitors.answer(decisions.lists))
        heads.append(learner.head)
    assert len(set(heads)) == len(heads)
    learner.certificate(tmp_path / "certificate.zip")
    report = verify(str(tmp_path / "certificate.zip"), heads)
    assert report.verified, report.reason
    assert any("may be of one piece" in line for line in verify(str(tmp_path / "certificate.zip")).not_checked)


def test_looking_and_batches_change_no_list(tmp_path: Path) -> None:
    """What is drawn depends on the seed, the plan and the decision's number: also after a save, and a failure."""
    rng = np.random.default_rng(2)
    learner, shop = learner_of("items", "adaptive", 4, first_epoch=10_000)
    visitors = shop.sample(60, rng)
    whole = learner.ask(visitors.contexts)
    parts, _ = learner_of("items", "adaptive", 4, first_epoch=10_000)
    lists = []
    for start in range(0, 60, 20):
        lists.append(parts.ask(visitors.contexts[start : start + 20]).lists)
        _ = parts.head
        parts.save(tmp_path / "learner.npz")
        parts = type(parts).load(tmp_path / "learner.npz", parts.policies)
    assert (np.concatenate(lists) == whole.lists).all()


def test_without_a_record_there_is_no_certificate(tmp_path: Path) -> None:
    learner, _ = learner_of("items", "adaptive", 4, audited=None)
    with pytest.raises(cb.InputError, match=r"keeps no record .* audited=0\.01"):
        learner.certificate(tmp_path / "certificate.zip")
    with pytest.raises(cb.InputError, match="keeps no record"):
        _ = learner.head
    recorded, _ = learner_of("items", "adaptive", 4)
    with pytest.raises(cb.InputError, match="no decision has been answered yet"):
        recorded.certificate(tmp_path / "certificate.zip")


class Failing:
    """A candidate that fails when it is told to."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.fails = inner, False

    def predict(self, X: Any) -> Any:
        if self.fails:
            raise RuntimeError("no answer")
        return self.inner.predict(X)


def test_what_fails_leaves_nothing_in_the_record(tmp_path: Path) -> None:
    problem = cb.Problem(n_actions=15, list_size=3, sparsity=1)
    shop = cb.SyntheticRecommender(problem, click_rate=0.4, seed=1)
    policies = shop.candidates(4, seed=2)
    failing = Failing(policies[0])
    mine = cb.PolicySet([failing, *(policies[i] for i in range(1, 4))])
    learner = cb.AdaptiveComband(problem, mine, epsilon=0.1, seed=3, audited=0.3, patience=100, first_epoch=60)
    rng = np.random.default_rng(3)
    for step in range(12):
        visitors = shop.sample(30, rng)
        if step % 3 == 1:
            failing.fails = True
            before = learner.head
            with pytest.raises(Exception, match="no answer"):
                learner.ask(visitors.contexts)
            assert learner.head == before
            failing.fails = False
        decisions = learner.ask(visitors.contexts)
        rewards = visitors.answer(decisions.lists)
        if step % 3 == 2:
            failing.fails = True
            with pytest.raises(Exception, match="no answer"):
                learner.tell(decisions, rewards)
            failing.fails = False
            learner.ask(shop.sample(80, rng).contexts)  # whose answers never come, and make the others wait
        learner.tell(decisions, rewards)
    learner.certificate(tmp_path / "certificate.zip")
    report = verify(str(tmp_path / "certificate.zip"), [learner.head])
    assert report.verified, report.reason


def refusals(seeds: range, *, every: int = 1) -> tuple[int, list[str]]:
    """How many honest runs there were, and which were refused: every option, reading and learner."""
    audited, n, found = BY_NAME["audited"], 0, []
    for kind, one in KINDS.items():
        options = [option for option in options_of(one) if option is not audited and option.goes_beside(audited)]
        cases = [Case(kind, reading, (audited, option)) for reading in READINGS for option in options]
        for case in cases[::every]:
            for seed in seeds:
                run = Run(case, seed, followed=False).go()
                n += 1
                found += [f"{case.name}, {seed}: {fault}" for fault in run.faults if "certificate" in fault]
    return n, found


def test_honest_certificates_with_every_option_are_verified() -> None:
    n, found = refusals(range(1), every=9)
    assert found == []
    assert n > 80


@pytest.mark.slow
def test_a_thousand_honest_certificates_are_verified() -> None:
    n, found = refusals(range(100, 102))
    assert found == []
    assert n >= 1000


def test_digests_of_candidates_stand_in_the_first_record(tmp_path: Path) -> None:
    problem = cb.Problem(n_actions=4, list_size=1, sparsity=1)

    class Ranker(cb.ConstantPolicy):
        digest = "9f2c"

    policies = cb.PolicySet([Ranker([0], problem), cb.ConstantPolicy([1], problem)], names=["new", "live"])
    learner = cb.AdaptiveComband(problem, policies, epsilon=0.5, audited=0.5, seed=1, open_field=True)
    decisions = learner.ask(np.zeros((200, 1)))
    learner.tell(decisions, (decisions.lists == 0) * 0.5)
    learner.add(Ranker([2], problem), name="newer")
    learner.certificate(tmp_path / "certificate.zip")
    found = verify(str(tmp_path / "certificate.zip"), [learner.head])
    assert found.verified, found.reason
    assert "digests of 2 candidates stand in the chain: new is 9f2c; newer is 9f2c" in found.checked
