from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from comband import BanditListClassifier, InputError, load_model, save_model

pytest.importorskip("skops")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 4)), RNG.integers(3, size=80)


def saved(path: Path, estimator: Any = None) -> BanditListClassifier:
    model = BanditListClassifier(estimator, list_size=2).fit(X, Y)
    save_model(model, path)
    return model


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        Ridge(alpha=2.0),
        LogisticRegression(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        DecisionTreeClassifier(max_depth=3),
    ],
    ids=["default", "ridge", "logistic", "pipeline", "tree"],
)
def test_a_model_comes_back_the_same(tmp_path: Path, estimator: Any) -> None:
    model = saved(tmp_path / "model.skops", estimator)
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert repr(loaded) == repr(model)


def rewritten(path: Path, change: Any) -> None:
    """The file with its schema changed."""
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    schema = json.loads(entries["schema.json"])
    change(schema)
    entries["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(name, content)


def attribute(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """Put a node of the attacker's among the model's attributes."""
    schema["content"]["content"]["estimator"] = value


def string(text: str) -> dict[str, Any]:
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(text)}


def arguments(*values: str) -> dict[str, Any]:
    return {
        "__class__": "tuple",
        "__module__": "builtins",
        "__loader__": "TupleNode",
        "content": [string(value) for value in values],
    }


def test_a_file_that_would_run_a_command_runs_nothing(tmp_path: Path) -> None:
    path, canary = tmp_path / "model.skops", tmp_path / "canary"
    attacks = [
        {  # an object rebuilt by calling a function
            "__class__": "system",
            "__module__": "os",
            "__loader__": "ObjectNode",
            "content": arguments(f"touch {canary}"),
        },
        {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content": "system"},
        {
            "__class__": "methodcaller",
            "__module__": "operator",
            "__loader__": "OperatorFuncNode",
            "attrs": arguments("x"),
        },
        {"__class__": "Popen", "__module__": "subprocess", "__loader__": "TypeNode", "content": "Popen"},
        # a type that is allowed, by a way of rebuilding that is not
        {"__class__": "dict", "__module__": "builtins", "__loader__": "MethodNode", "content": {}},
        {"__class__": "dict", "__module__": "builtins", "content": {}},
    ]
    for attack in attacks:
        saved(path)
        rewritten(path, lambda schema, attack=attack: attribute(schema, attack))
        with pytest.raises(InputError, match="not on the list"):
            load_model(path)
    assert not canary.exists()


def test_a_pickle_is_not_a_model(tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (canary,)

    path = tmp_path / "model.skops"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match="not a model file"):
        load_model(path)
    # and inside an array, where numpy would have to unpickle it
    saved(path)
    with zipfile.ZipFile(path) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in entries.items():
            file.writestr(name, buffer.getvalue() if name.endswith(".npy") else content)
    with pytest.raises(InputError, match="not a model file"):
        load_model(path)
    assert not canary.exists()


def test_an_oversized_file_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    saved(path)
    with pytest.raises(InputError, match="not opened"):
        load_model(path, max_bytes=100)
    with zipfile.ZipFile(path, "a", compression=zipfile.ZIP_DEFLATED) as file:
        file.writestr("bomb.npy", bytes(20_000_000))
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match="would unpack to 20,"):
        load_model(path, max_bytes=1_000_000)


def test_truncated_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    saved(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a model file"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other.txt", "hello")
    with pytest.raises(InputError, match="not a model file"):
        load_model(path)
    deep = "[" * 100_000 + "]" * 100_000
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("schema.json", deep)
    with pytest.raises(InputError, match="nested deeper"):
        load_model(path)


def test_other_estimators_must_be_named(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    model = saved(path, KNeighborsRegressor(algorithm="brute"))
    with pytest.raises(InputError, match="KNeighborsRegressor"):
        load_model(path)
    names = ["sklearn.neighbors._regression.KNeighborsRegressor", "sklearn.metrics._dist_metrics.EuclideanDistance64"]
    np.testing.assert_array_equal(load_model(path, also_allow=names).predict(X), model.predict(X))
    with pytest.raises(InputError, match="only a BanditListClassifier"):
        save_model(Ridge(), path)
