"""Fitted models in files that cannot run anything: skops, a pinned list of types, and a size check before unpacking."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

from comband.classify.classifier import BanditListClassifier
from comband.page.problem import InputError, check_count, check_path
from comband.page.storage import whole_file
from comband.page.text import missing_extra

_SKLEARN = {
    "sklearn.linear_model._ridge": ("Ridge", "RidgeClassifier"),
    "sklearn.linear_model._base": ("LinearRegression",),
    "sklearn.linear_model._logistic": ("LogisticRegression",),
    "sklearn.linear_model._coordinate_descent": ("Lasso", "ElasticNet"),
    "sklearn.linear_model._stochastic_gradient": ("SGDClassifier", "SGDRegressor"),
    "sklearn.svm._classes": ("LinearSVC", "LinearSVR"),
    "sklearn.naive_bayes": ("GaussianNB", "BernoulliNB", "MultinomialNB", "ComplementNB"),
    "sklearn.tree._classes": (
        "DecisionTreeClassifier",
        "DecisionTreeRegressor",
        "ExtraTreeClassifier",
        "ExtraTreeRegressor",
    ),
    "sklearn.tree._tree": ("Tree",),
    "sklearn.ensemble._forest": (
        "RandomForestClassifier",
        "RandomForestRegressor",
        "ExtraTreesClassifier",
        "ExtraTreesRegressor",
    ),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing._data": ("StandardScaler", "MaxAbsScaler", "MinMaxScaler", "Normalizer"),
    "sklearn.preprocessing._label": ("LabelBinarizer",),
}
_COMBAND = {
    "comband.classify.classifier": ("BanditListClassifier",),
    "comband.explore.oracles.scorers": ("LinearScorer", "ActionModels"),
    "comband.policies.scored": ("ScoredPolicy",),
    "comband.page.problem": ("Problem",),
}
_PLAIN = {
    "builtins": ("dict", "list", "tuple", "set", "str", "int", "float", "bool", "NoneType", "slice"),
    "collections": ("OrderedDict", "defaultdict"),
    "numpy": ("ndarray", "dtype", "bool", "bool_", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64"),
    "scipy.sparse._csr": ("csr_array", "csr_matrix"),
}
ALLOWED = frozenset(
    f"{module}.{name}" for group in (_SKLEARN, _COMBAND, _PLAIN) for module, names in group.items() for name in names
)
"""Every type that a model file may name. Pinned here: what skops trusts by itself may grow with its releases."""

# Ways of rebuilding that only hold data. Functions, methods, partials, operators and the like are not among them.
_LOADERS = frozenset(
    {
        "ObjectNode",
        "DictNode",
        "ListNode",
        "TupleNode",
        "SetNode",
        "JsonNode",
        "NdArrayNode",
        "MaskedArrayNode",
        "SparseMatrixNode",
        "DTypeNode",
        "TypeNode",
        "SliceNode",
        "TreeNode",
        "DefaultDictNode",
    }
)
_MOST_BYTES = 1 << 30
_MOST_SCHEMA = 1 << 26


def save_model(model: BanditListClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier to one skops file (pip install 'comband[models]', or '.[models]' in a clone).

    Parameters
    ----------
    model:
        Fitted.
    path:
        The file to write.

    >>> import numpy as np
    >>> import comband as cb
    >>> import pathlib, tempfile
    >>> data = cb.MultilabelData.from_sklearn("iris")
    >>> model = cb.BanditListClassifier(list_size=1).fit(data.features, data.labels)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> cb.save_model(model, path)
    >>> path.stat().st_size > 0
    True
    """
    skops = _skops()
    if not isinstance(model, BanditListClassifier):
        raise InputError(f"only a BanditListClassifier can be saved, got {type(model).__name__}.")
    data = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    with whole_file(path) as part:
        part.write_bytes(data)


def load_model(
    path: str | os.PathLike[str], *, max_bytes: int = _MOST_BYTES, also_allow: Iterable[str] = ()
) -> BanditListClassifier:
    """Read what `save_model` wrote. Safe for a file of any origin: it can hold data, and nothing that runs.

    Refused, before anything is built: files larger than `max_bytes` on disk or unpacked, and files that name a type or
    a way of rebuilding which is not on the pinned list `ALLOWED`. `also_allow` adds types of your own by full name
    ("package.module.Class"): only those whose construction you trust with any arguments.

    Parameters
    ----------
    max_bytes:
        The largest size, on disk and unpacked.
    also_allow:
        Full names of types of your own.
    path:
        The file.

    >>> import numpy as np
    >>> import comband as cb
    >>> import pathlib, tempfile
    >>> data = cb.MultilabelData.from_sklearn("iris")
    >>> model = cb.BanditListClassifier(list_size=1).fit(data.features, data.labels)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> cb.save_model(model, path)
    >>> again = cb.load_model(path)
    >>> bool((again.predict(data.features) == model.predict(data.features)).all())
    True
    """
    skops = _skops()
    limit = check_count("max_bytes", max_bytes)
    trusted = ALLOWED | frozenset(also_allow)
    try:
        size = os.path.getsize(check_path(path))
        if size > limit:
            raise InputError(f"{path} has {size:,} bytes, more than max_bytes={limit:,}; it was not opened.")
        with zipfile.ZipFile(path) as file:
            unpacked = sum(entry.file_size for entry in file.infolist())
            if unpacked > limit:
                raise InputError(
                    f"{path} would unpack to {unpacked:,} bytes, more than max_bytes={limit:,}; it was not unpacked. "
                    "Raise max_bytes if you trust where it comes from."
                )
            if file.getinfo("schema.json").file_size > _MOST_SCHEMA:
                raise InputError(f"the schema of {path} is larger than any real model's; it was not unpacked.")
            schema = json.loads(file.read("schema.json"))
        for loader, kind in _nodes(schema):
            if loader not in _LOADERS or kind not in trusted:
                raise InputError(
                    f"{path} asks for {kind} (by {loader}), which is not on the list of types a model file may hold; "
                    "nothing was loaded. If it is an estimator of your own, name it in also_allow."
                )
        model = skops.load(path, trusted=sorted(trusted))
    except (InputError, FileNotFoundError):
        raise
    except RecursionError:
        raise InputError(f"{path} is nested deeper than any real model; nothing was loaded.") from None
    except Exception as error:  # a forged file may fail anywhere while its data are put together
        raise InputError(f"{path} is not a model file that save_model wrote: {error}.") from None
    if not isinstance(model, BanditListClassifier):
        raise InputError(f"{path} holds a {type(model).__name__}, not a BanditListClassifier.")
    return model


def _nodes(schema: Any) -> Iterator[tuple[str, str]]:
    """(way of rebuilding, full type name) of every node; without recursion, whatever the depth."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "__loader__" in node or "__class__" in node or "__module__" in node:
                yield str(node.get("__loader__")), f"{node.get('__module__')}.{node.get('__class__')}"
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ImportError(missing_extra("saving and loading models", "skops", "models")) from None
    return skops.io
