"""What is refused, with its sentence: a table that is kept, and compared by a test.

`python -m tests.pairs.refusals` writes it.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.pairs.options import KINDS, OPTIONS, options_of, pairs_of
from tests.pairs.runs import Case, Run
from tests.pairs.worlds import READINGS

TABLE = Path(__file__).with_name("refusals.md")
MAIN, NOTHING, MAKING = "AdaptiveComband", "no option at all", "the learner: "
_HEAD = """# What is refused

Written by `python -m tests.pairs.refusals`. For each sentence: which options. What is refused when a learner is made
says of which learners and under which readings; what is refused later, that it was in some run. Of pairs only those are
listed of which neither option alone is refused so, and of learners other than AdaptiveComband those with an option that
it does not have.
"""


def table() -> str:
    """All refusals, by sentence."""
    found: dict[str, dict[str, dict[str, list[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for name, kind in KINDS.items():
        for reading in READINGS:
            nothing = _refused(Case(name, reading, ()))
            alone = {option.name: _refused(Case(name, reading, (option,))) for option in options_of(kind)}
            for said in nothing:
                found[said][NOTHING][name].append(reading)
            for option, sentences in alone.items():
                for said in sentences - nothing:
                    found[said][option][name].append(reading)
            for pair in pairs_of(kind):
                if name != MAIN and not set(pair) & set(kind.options):
                    continue
                first, second = (option.name for option in pair)
                known = nothing | alone[first] | alone[second]
                if not any(said.startswith(MAKING) for said in known):
                    for said in _refused(Case(name, reading, pair)) - known:
                        found[said][f"{first} + {second}"][name].append(reading)
    lines = [_HEAD]
    for said in sorted(found):
        lines += [f"## {said}", ""]
        for options, learners in found[said].items():
            lines.append(f"- {options}" + (f": {_words(learners)}" if said.startswith(MAKING) else ""))
        lines.append("")
    return "\n".join(lines)


def _refused(case: Case) -> set[str]:
    return set(Run(case, 0, rounds=60, followed=False).go().refused)


def _words(learners: dict[str, list[str]]) -> str:
    """Which learners, each with the readings."""
    return "; ".join(f"{name} ({', '.join(readings)})" for name, readings in learners.items())


@cache
def listed() -> dict[str, list[frozenset[str]]]:
    """The table as it is kept: for each sentence the options that are refused so."""
    found: dict[str, list[frozenset[str]]] = defaultdict(list)
    said = ""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            said = line[3:]
        elif line.startswith("- "):
            options = line[2:].partition(": ")[0]
            found[said].append(frozenset() if options == NOTHING else frozenset(options.split(" + ")))
    return found


def unlisted(run: Run) -> list[str]:
    """What a run was refused, and the table does not say so."""
    options = {option.name for option in run.case.options}
    return [said for said in run.refused if not any(part <= options for part in listed().get(said, ()))]


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
    print(f"{TABLE.name}: {len(OPTIONS)} options, {len(KINDS)} learners, {len(READINGS)} readings")
