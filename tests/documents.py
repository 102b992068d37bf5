"""Running the code of a document: its python blocks in one namespace, its comband commands in between."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import comband as cb
from comband.cli import app

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def setting() -> dict[str, Any]:
    """Names that reference pages may use without making them: a small problem, its world, candidates and rounds."""
    problem = cb.Problem(n_actions=40, list_size=4, sparsity=1)
    world = cb.SyntheticRecommender(problem, click_rate=0.3, seed=1)
    policies = world.candidates(6, seed=2)
    rng = np.random.default_rng(3)
    batch = world.sample(2000, rng)
    decisions = cb.Mixture(policies, np.full(6, 1 / 6), problem=problem, floor=0.5).draw(batch.contexts, rng)
    rounds = cb.Rounds(decisions, batch.answer(decisions.lists))
    return {
        "np": np,
        "cb": cb,
        "problem": problem,
        "world": world,
        "policies": policies,
        "rng": rng,
        "X": batch.contexts,
        "decisions": decisions,
        "rounds": rounds,
    }


def blocks(path: Path) -> list[tuple[str, str, int]]:
    """(language, code, line) of every block that is meant to run."""
    text = path.read_text(encoding="utf-8")
    return [(match[1], match[2], text.count("\n", 0, match.start()) + 2) for match in _BLOCK.finditer(text)]


def run_document(path: Path, namespace: dict[str, Any]) -> int:
    """Run all blocks in the current folder; returns how many there were."""
    found = blocks(path)
    for language, code, line in found:
        if language == "python":
            # Padded with empty lines, so that an error points into the document.
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), namespace)
            continue
        for command in code.splitlines():
            if not command.startswith("$ comband "):
                continue
            outcome = CliRunner().invoke(app, shlex.split(command)[2:])
            assert outcome.exit_code == 0, f"{path.name}: {command}: {outcome.stderr}"
    return len(found)
