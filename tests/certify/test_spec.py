"""A setting is declared once, and reaches the constructor, files, the service, TOML, commands and reports."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import comband as cb
from comband.certify.claims import CERTIFICATE
from comband.certify.spec import EXPLORATIONS, Spec
from comband.commands.cli import app
from comband.commands.setting_options import with_settings
from comband.commands.simulate import LEARNERS
from comband.page.declaring import Declared, Setting, declared, groups, said, table
from comband.page.problem import COUNT, InputError
from comband.policies.requested import RequestedLists
from comband.serve import wire
from comband.serve.experiments import Experiments
from comband.serve.learning import new_learner
from comband.serve.requests import problem_of
from comband.serve.settings import settings as service_settings
from comband.show import selection_page
from tests.learners.small_worlds import small_world

WORLD = small_world("clustered", 3)
NAMES = ("policy 0", "policy 1", "policy 2", "policy 3", "policy 4")  # of the candidates of `comband simulate`
SETTINGS = {**declared(cb.Problem), **declared(Spec)}
PLAIN = {name: one for name, one in SETTINGS.items() if one.plain}
COMPANIONS: dict[str, dict[str, Any]] = {  # what must be said beside a setting
    "exposure": {"production": NAMES[1]},
    "max_loss": {"production": NAMES[1]},
    "max_harm": {"production": NAMES[1]},
    "false_stop": {"production": NAMES[1], "max_harm": 0.3},
    "prior_error": {"prior_scores": [0.1, 0.2, 0.3, 0.4, 0.5]},
    "weighting": {"exploration": "mixture", "feedback": "total"},
    "eliminate": {"exploration": "ab-test"},
    "shuffled": {"order": "natural"},
    "metrics": {"production": NAMES[1]},
}
CHOSEN: dict[str, Any] = {  # values that depend on more than the range
    "production": NAMES[2],
    "prior_scores": [0.1, 0.2, 0.3, 0.4, 0.5],
    "recent": 700,
    "max_evaluated": 2000,
    "shuffled": 0.5,
    "places": [1.0, 0.5, 0.25],
    "n_actions": 40,
    "list_size": 2,
    "patience": 60,
    "sparsity": 2.0,
    "exploration": "lists",
    "metrics": [{"name": "purchases", "margin": 0.1, "relative": True, "direction": "cost", "largest": 2.0}],
}
OPTIONS = {"n_actions": "items", "list_size": "slots", "max_rounds": "rounds", "exploration": "learner"}
NOT_SERVED = {  # for which the service would have to know all items or all totals
    "n_actions": "unknown field",
    "exploration": "no others",
    "feedback": "no others",
    "weighting": "no others",
    "eliminate": "no others",
}


def another(one: Declared) -> Any:
    """A value that is not the default."""
    takes = one.setting.takes
    if one.name in CHOSEN:
        return CHOSEN[one.name]
    if takes.choices:
        return next(word for word in takes.choices if word != one.default)
    if takes.kind is bool:
        return not one.default
    if takes.kind is int:
        return 7
    return 0.25 if takes.above == 0 else 1.5


def stated(name: str) -> dict[str, Any]:
    """All that is said to set one setting."""
    return {"epsilon": 0.1, **COMPANIONS.get(name, {}), name: another(SETTINGS[name])}


def same(value: Any, other: Any) -> bool:
    """Whether a value is kept, lists of numbers as they are, and tables in what was said of them."""
    if isinstance(other, list) and isinstance(other[0], dict):
        said_of = [{name: getattr(one, name) for name in table} for one, table in zip(value, other, strict=True)]
        return said_of == other
    return bool((list(value) if isinstance(value, tuple) else value) == other)


def text_of(value: Any) -> str:
    """A value as a command takes it."""
    if isinstance(value, list):
        return json.dumps(value) if isinstance(value[0], dict) else ",".join(map(str, value))
    return str(value)


def toml_of(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_of, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name} = {json.dumps(one)}' for name, one in value.items())}}}"
    return json.dumps(value)


def split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the page, and those of the learner."""
    page = {name: value for name, value in values.items() if name in declared(cb.Problem)}
    return page, {name: value for name, value in values.items() if name not in page}


def test_every_setting_says_what_it_is_in_a_sentence_and_has_a_group() -> None:
    for name, one in SETTINGS.items():
        assert one.setting.says[0].isupper(), name
        assert one.setting.says.endswith("."), name
    names = [group.__name__ for group, _ in groups(Spec)]
    assert names == ["Promise", "Visitors", "Beforehand", "Exploring", "Checking", "Objects"]
    assert declared(Spec)["exploration"].setting.takes.choices == tuple(EXPLORATIONS)


@pytest.mark.parametrize("name", PLAIN)
def test_from_python_into_a_file_and_back(name: str, tmp_path: Path) -> None:
    page, more = split(stated(name))
    problem = cb.Problem(**{"n_actions": 20, "list_size": 3, "sparsity": 1, **page})
    shop = cb.SyntheticRecommender(problem, click_rate=0.3, seed=1)
    policies = shop.candidates(5, seed=2)
    learner = cb.certify.CertifyingLearner(problem, policies, **more)
    learner.save(tmp_path / "learner.npz")
    again = cb.certify.CertifyingLearner.load(tmp_path / "learner.npz", policies)
    for one in (learner, again):
        holder = one.problem if name in declared(cb.Problem) else one.spec
        assert same(getattr(holder, name), another(SETTINGS[name]))
        assert name in {row[0] for row in one.declared}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("toml", [False, True])
def test_over_http_and_in_toml(name: str, toml: bool, tmp_path: Path) -> None:
    values = {"name": "test", "candidates": list(NAMES), "list_size": 3, "sparsity": 1, **stated(name)}

    def learner() -> cb.AdaptiveComband:
        if toml:
            path = tmp_path / "service.toml"
            lines = [f"{key} = {toml_of(value)}" for key, value in values.items()]
            path.write_text("\n".join(["[[experiments]]", *lines]), encoding="utf-8")
            [spec] = service_settings(path, {}).experiments
        else:
            spec = wire.spec_of(json.dumps(values).encode())
        assert same(getattr(spec, name), another(SETTINGS[name]))
        Experiments.check(Experiments.__new__(Experiments), spec)
        return new_learner(spec, RequestedLists(NAMES, problem_of(spec)), seed=0)

    if name in NOT_SERVED:
        with pytest.raises((InputError, msgspec.ValidationError), match=NOT_SERVED[name]):
            learner()
        return
    made = learner()
    holder = made.problem if name in declared(cb.Problem) else made.spec
    if name in ("patience", "audited"):  # decisions wait in the journal, which keeps the record too
        assert getattr(made.spec, name) is None
    else:
        assert same(getattr(holder, name), another(SETTINGS[name]))


@pytest.mark.parametrize("name", PLAIN)
def test_by_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def run(agent: Any, *args: Any, **more: Any) -> None:
        seen.append(agent)
        raise InputError("that is enough.")

    monkeypatch.setattr("comband.commands.simulate.run", run)
    line = ["simulate", "--items", "20", "--slots", "3", "--candidates", "5", "--rounds", "900"]
    for key, value in stated(name).items():
        option = f"--{OPTIONS.get(key, key).replace('_', '-')}"
        text = text_of(value)
        line += [option if value else f"--no-{option[2:]}"] if isinstance(value, bool) else [option, text]
    outcome = CliRunner().invoke(app, line)
    assert "that is enough" in outcome.output, outcome.output
    [agent] = seen
    holder = agent.problem if name in declared(cb.Problem) else agent.spec
    if name == "exploration":
        assert isinstance(agent, cb.UniformLists)
    else:
        assert same(getattr(holder, name), another(SETTINGS[name]))


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", [name for name in declared(Spec) if name in PLAIN and name != "exploration"])
def test_every_option_of_the_command_works_with_every_learner_or_is_refused(learner: str, name: str) -> None:
    values = {key: value for key, value in stated(name).items() if key not in ("exploration", "feedback")}
    line = ["--quiet", "simulate", "--items", "20", "--slots", "3", "--candidates", "5", "--learner", learner]
    for key, value in {"max_rounds": 20, **values}.items():
        option = f"--{OPTIONS.get(key, key).replace('_', '-')}"
        text = text_of(value)
        line += [option] if isinstance(value, bool) else [option, text]
    outcome = CliRunner().invoke(app, line)
    assert outcome.exit_code in (0, 1), (line, outcome.output, outcome.exception)
    assert isinstance(outcome.exception, (SystemExit, type(None))), (line, outcome.exception)
    if outcome.exit_code:
        assert outcome.output.rstrip().endswith("."), outcome.output


def test_settings_that_no_proof_knows_are_refused_and_objects_are_no_plain_values() -> None:
    assert all(one.setting.proved for one in declared(Spec).values())
    assert set(declared(Spec)) <= CERTIFICATE.knows
    assert [name for name, one in declared(Spec).items() if not one.plain] == ["guards", "seed"]


def test_constructors_spell_out_every_setting_with_its_type_and_default() -> None:
    for learner in (cb.AdaptiveComband, cb.UniformLists, cb.UniformMixture, cb.ABTest, cb.TwoPhaseComband):
        found = inspect.signature(learner).parameters
        assert list(found) == ["problem", "policies", *declared(Spec)]
        assert found["delta"].annotation is float
        assert found["delta"].default == 0.05
        assert found["epsilon"].default is inspect.Parameter.empty
        assert all(f"    {name}:\n" in (learner.__doc__ or "") for name in declared(Spec))
    with pytest.raises(TypeError, match="moonlight"):
        cb.ABTest(WORLD.problem, WORLD.policies, epsilon=0.1, moonlight=True)  # type: ignore[call-arg]


def test_an_exploration_that_cannot_heed_a_setting_says_so() -> None:
    make: Any = cb.ABTest
    with pytest.raises(InputError, match="objective is for the exploration 'adaptive', and this one is 'ab-test'"):
        make(WORLD.problem, WORLD.policies, epsilon=0.1, objective="reward")


# ---- a further setting, as a next owner would add it: one field, and nothing else ------------------------------------


@dataclass(frozen=True, kw_only=True)
class LongerSpec(Spec):
    """One more."""

    warm_up: Annotated[int | None, Setting("How many rounds are for warming up.", COUNT, "rounds", proved=True)] = None


class Longer(cb.AdaptiveComband, spec=LongerSpec):
    """Warms up.

    Parameters
    ----------
    problem, policies:
        As ever.

    >>> 1
    1
    """


def longer(**settings: Any) -> cb.AdaptiveComband:
    make: Any = Longer
    learner: cb.AdaptiveComband = make(WORLD.problem, WORLD.policies, epsilon=0.1, seed=1, **settings)
    return learner


def test_a_further_setting_reaches_everything_by_one_field(tmp_path: Path) -> None:
    learner = longer(warm_up=40)
    WORLD.play(learner, 100, np.random.default_rng(0))
    with pytest.raises(InputError, match="warm_up must be a whole number of at least 1, got 0"):
        longer(warm_up=0)
    # the documentation, the file, an older file
    assert "    warm_up:\n        How many rounds are for warming up. (a whole number" in (Longer.__doc__ or "")
    learner.save(tmp_path / "learner.npz")
    again: Any = Longer.load(tmp_path / "learner.npz", WORLD.policies)
    assert again.spec.warm_up == 40
    assert said(again.spec) == {name: value for name, value in said(learner.spec).items() if name != "seed"}
    older = learner.state()
    del older["config"]["warm_up"]
    before: Any = Longer.from_state(older, WORLD.policies)
    assert before.spec.warm_up is None
    newer = {**older, "config": {**older["config"], "moonlight": 1}}
    with pytest.raises(InputError, match="moonlight"):
        Longer.from_state(newer, WORLD.policies)
    # the message and its schema, and TOML, which is read as a message
    message = wire.message_of(cb.Problem, LongerSpec)
    assert msgspec.json.decode(b'{"list_size": 2, "epsilon": 0.1, "warm_up": 9}', type=message).warm_up == 9
    assert msgspec.convert({"list_size": 2, "epsilon": 0.1, "warm_up": 9}, message).warm_up == 9
    with pytest.raises(msgspec.ValidationError, match="warm_up"):
        msgspec.json.decode(b'{"list_size": 2, "epsilon": 0.1, "warm_up": 0}', type=message)
    schema = msgspec.json.schema(message)["$defs"]["Declared"]["properties"]["warm_up"]
    assert "How many rounds are for warming up. In rounds." in json.dumps(schema)
    # the command
    found: list[Any] = []
    command = typer.Typer()

    @command.command()
    @with_settings(LongerSpec, without=("epsilon",))
    def go(*, settings: Any) -> None:
        found.append(settings)

    helped = CliRunner().invoke(command, ["--help"], env={"COLUMNS": "200"})
    assert "How many rounds are for warming up." in helped.output
    assert CliRunner().invoke(command, ["--warm-up", "12"]).exit_code == 0
    assert found == [{"warm_up": 12}]
    # the report
    assert ("warm_up", "40 rounds", "How many rounds are for warming up.") in table(learner.spec)
    history = {name: np.empty(0) for name in ("rounds", "survivors", "certified", "forecast")}
    page = selection_page(learner.result(), history, problem=WORLD.problem, n_candidates=len(WORLD.policies))
    cells = re.findall("<td[^>]*>(.*?)</td>", page)
    assert cells[cells.index("warm_up") + 1] == "40 rounds"
