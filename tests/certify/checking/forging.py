"""Forged certificates, by the hundred: what is changed, and whether the forger makes the chain fit again.

`Bundle` takes a certificate apart and puts it together. A forgery changes one thing in it. Left so, the chain does not
fit; a forger who is less lazy writes all hashes anew (`rechained`), which a published head reveals.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]


@dataclass
class Bundle:
    """A certificate in parts: what is claimed, the chain's records, the columns, and what else there is."""

    about: dict[str, Any]
    records: list[dict[str, Any]]
    columns: dict[str, Column]
    others: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Bundle:
        with zipfile.ZipFile(path) as file:
            about = json.loads(file.read("bundle.json"))
            records = [json.loads(line) for line in file.read("chain.jsonl").decode().splitlines()]
            columns = {
                name[:-4]: np.load(io.BytesIO(file.read(name))).copy()
                for name in file.namelist()
                if name.endswith(".npy")
            }
            others = {name: json.loads(file.read(name)) for name in file.namelist() if name.endswith(".requests.json")}
        return cls(about, records, columns, others)

    def copy(self) -> Bundle:
        return deepcopy(self)

    def rechain(self) -> None:
        """Make digests and hashes fit what is there."""
        done: dict[str, int] = {}
        before, first = "0" * 64, 0
        self._leaves_anew()
        for record in self.records:
            if record.get("kind") == "decisions":
                part = np.ascontiguousarray(self.columns["decisions.leaves"][first : first + record["n"]])
                record["leaves"], first = sha256(part.tobytes()).hexdigest(), first + record["n"]
            if record.get("kind") == "rounds":
                for table, n in record["rows"].items():
                    first = done.get(table, 0)
                    for name in [name for name in self.columns if name.rpartition(".")[0] == table]:
                        part = np.ascontiguousarray(self.columns[name][first : first + n])
                        record["columns"][name] = sha256(part.tobytes()).hexdigest()
                    done[table] = first + n
            record["before"] = before
            before = sha256(dumped(record).encode()).hexdigest()
        self.about["head"] = before

    def _leaves_anew(self) -> None:
        """Of a service's decisions that are given in full, where they can be made."""
        for name, requests in self.others.items():
            table = name.removesuffix(".requests.json")
            try:
                ids, names = self.columns[f"{table}.ids"].tolist(), ("shown", "propensities", "lists", "items")
                for row, (i, text) in enumerate(zip(ids, requests, strict=True)):
                    held = b"".join(self.columns[f"{table}.{one}"][row].tobytes() for one in names)
                    leaf = sha256(held + text.encode()).digest()
                    self.columns["decisions.leaves"][i] = np.frombuffer(leaf, np.uint8)
            except (KeyError, IndexError, ValueError):
                continue

    def write(self, path: Path) -> Path:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("bundle.json", json.dumps(self.about))
            file.writestr("chain.jsonl", "".join(f"{dumped(record)}\n" for record in self.records))
            for name, column in self.columns.items():
                held = io.BytesIO()
                np.save(held, column, allow_pickle=False)
                file.writestr(f"{name}.npy", held.getvalue())
            for name, value in self.others.items():
                file.writestr(name, json.dumps(value))
        return path

    def first(self, kind: str) -> dict[str, Any]:
        return next(record for record in self.records if record["kind"] == kind)

    def last(self, kind: str) -> dict[str, Any]:
        return next(record for record in reversed(self.records) if record["kind"] == kind)

    def rewarded(self) -> NDArray[np.int64]:
        """Decisions with rewards, in the order told."""
        return np.asarray(self.columns["answers.ids"][self.columns["answers.rewards"].any(axis=1)])


def dumped(record: dict[str, Any]) -> str:
    """A record as it stands in the chain."""
    return json.dumps(record, sort_keys=True)


@dataclass(frozen=True)
class Forgery:
    """One change."""

    name: str
    change: Callable[[Bundle], None]


# ---- columns ---------------------------------------------------------------------------------------------------------


def _element(change: Callable[[Any], Any]) -> Callable[[Bundle, str], None]:
    """Change one number of a column, in a rewarded round where that can be."""

    def forge(bundle: Bundle, name: str) -> None:
        column = bundle.columns[name]
        row = int(bundle.rewarded()[3]) if name.startswith("decisions.") else len(column) // 2
        place = (row, *(0 for _ in column.shape[1:]))
        with np.errstate(all="ignore"):
            value = ~column[place] if column.dtype.kind == "u" else change(column[place])  # of a hash: another one
            column[place] = np.asarray(value).astype(column.dtype)

    return forge


def _rows(change: Callable[[Column], Column]) -> Callable[[Bundle, str], None]:
    def forge(bundle: Bundle, name: str) -> None:
        bundle.columns[name] = change(bundle.columns[name])

    return forge


def _swapped(column: Column) -> Column:
    other = next(i for i in range(1, len(column)) if not np.array_equal(column[i], column[0]))
    column = column.copy()
    column[[0, other]] = column[[other, 0]]
    return column


def _removed(bundle: Bundle, name: str) -> None:
    del bundle.columns[name]


_ON_COLUMNS: dict[str, Callable[[Bundle, str], None]] = {
    "one more": _element(lambda x: x + 1 if x.dtype.kind != "b" else ~x),
    "one less": _element(lambda x: x - 1 if x.dtype.kind != "b" else ~x),
    "huge": _element(lambda x: 1e300 if x.dtype.kind == "f" else np.iinfo(np.int32).max if x.dtype.kind == "i" else ~x),
    "negative": _element(lambda x: -1 - x if x.dtype.kind != "b" else ~x),
    "no number": _element(lambda x: np.nan if x.dtype.kind == "f" else -(2**31) if x.dtype.kind == "i" else ~x),
    "one per cent more": _element(lambda x: x * 1.01 + (x == 0) * 0.01 if x.dtype.kind == "f" else x ^ 1),
    "two rows swapped": _rows(_swapped),
    "backwards": _rows(lambda column: column[::-1].copy()),
    "last row gone": _rows(lambda column: column[:-1]),
    "first row gone": _rows(lambda column: column[1:]),
    "a row twice": _rows(lambda column: np.concatenate([column[:1], column])),
    "a row more": _rows(lambda column: np.concatenate([column, column[-1:]])),
    "empty": _rows(lambda column: column[:0]),
    "of another type": _rows(lambda column: column.astype(np.float32)),
    "of another shape": _rows(lambda column: column[..., None]),
    "gone": _removed,
}
_CONSTANT = {"decisions.arms", "decisions.elsewhere", "decisions.covered"}  # in which no two rows differ


def on_columns(columns: list[str]) -> Iterator[Forgery]:
    for name in columns:
        for how, change in _ON_COLUMNS.items():
            if name in _CONSTANT and how in ("two rows swapped", "backwards"):
                continue
            yield Forgery(f"{name}: {how}", lambda bundle, c=change, n=name: c(bundle, n))  # type: ignore[misc]


# ---- records ---------------------------------------------------------------------------------------------------------

_ON_VALUES: dict[str, Callable[[Any], Any]] = {
    "more": lambda x: not x if isinstance(x, bool) else x * 1.01 + 1 if isinstance(x, float) else x + 1,
    "less": lambda x: not x if isinstance(x, bool) else x / 1.01 if isinstance(x, float) else x - 1,
    "huge": lambda x: 10**30,
    "no number": lambda x: float("nan"),
    "infinite": lambda x: float("inf"),
    "text": lambda x: "1",
    "nothing": lambda x: None,
    "a list": lambda x: [x],
}
_NUMBERS = (
    ("begin", "format"),
    ("begin", "spec", "epsilon"),
    ("begin", "spec", "delta"),
    ("begin", "spec", "audited"),
    ("begin", "spec", "period"),
    ("begin", "problem", "n_actions"),
    ("begin", "problem", "list_size"),
    ("begin", "problem", "max_reward"),
    ("plan", "epoch"),
    ("plan", "leader"),
    ("plan", "bound"),
    ("plan", "first_id"),
    ("plan", "explorer", "leader"),
    ("plan", "explorer", "smallest_disputed"),
    ("dropped", "candidate"),
    ("dropped", "rounds"),
    ("claim", "leader"),
    ("claim", "epsilon"),
    ("claim", "rounds"),
)


def on_records() -> Iterator[Forgery]:
    for kind, *path in _NUMBERS:
        for how, value in _ON_VALUES.items():

            def change(bundle: Bundle, kind: str = kind, path: list[str] = path, value: Any = value) -> None:
                inner: Any = bundle.last(kind) if kind == "claim" else bundle.first(kind)
                for name in path[:-1]:
                    inner = inner[name]
                inner[path[-1]] = value(inner[path[-1]])

            yield Forgery(f"{kind}.{'.'.join(path)}: {how}", change)


def _stakes(bundle: Bundle) -> None:
    plan = bundle.first("plan")
    plan["levels"] = [[max(level - 9, 0) for level in row] for row in plan["levels"]]


def _plan_after_its_rounds(bundle: Bundle) -> None:
    at = next(i for i, one in enumerate(bundle.records) if one["kind"] == "plan" and one["epoch"] == 1)
    later = next(i for i in range(at, len(bundle.records)) if "decisions" in bundle.records[i].get("rows", ()))
    bundle.records.insert(later, bundle.records.pop(at))


def _plan_that_fits_after_its_rounds(bundle: Bundle) -> None:
    _plan_after_its_rounds(bundle)
    done = 0
    for record in bundle.records:
        done += record["rows"].get("decisions", 0) if record["kind"] == "rounds" else 0
        if record["kind"] == "plan":
            record["first_id"] = done


def _decision_left_out(bundle: Bundle) -> None:
    """An unrewarded decision, with its answer, as if it had never been made; all later ones move up."""
    ids, rewards = bundle.columns["answers.ids"], bundle.columns["answers.rewards"]
    at = int(ids[~rewards.any(axis=1)][0])
    for name in [name for name in bundle.columns if name.startswith("decisions.")]:
        bundle.columns[name] = np.delete(bundle.columns[name], at, axis=0)
    keep = ids != at
    for name in ("ids", "told", "rewards"):
        bundle.columns[f"answers.{name}"] = bundle.columns[f"answers.{name}"][keep]
    for name in [name for name in bundle.columns if name.endswith(".ids")]:
        bundle.columns[name] = bundle.columns[name] - (bundle.columns[name] > at)
    bundle.columns["answers.told"] = np.maximum(bundle.columns["answers.told"] - 1, 1)
    for record in bundle.records:
        if record["kind"] == "rounds":
            rows = record["rows"]
            rows["decisions"], rows["answers"] = rows["decisions"] - 1, rows["answers"] - 1
            break
    for record in bundle.records:
        for name in ("first_id", "rounds"):
            if record.get(name):
                record[name] -= 1
    bundle.about["claim"]["rounds"] -= 1
    bundle.about["claim"]["decisions"] -= 1


def _another_list(bundle: Bundle) -> None:
    """The winner's list on a rewarded round is made to hold the item that was clicked."""
    leader = bundle.about["claim"]["leader"]
    for record in [one for one in bundle.records if one["kind"] == "plan"]:
        k = record["epoch"]
        lists, ids = bundle.columns.get(f"lists.{k}.lists"), bundle.columns.get(f"lists.{k}.ids")
        if lists is None or ids is None or leader not in record["asked"]:
            continue
        answers = {
            int(i): row for i, row in zip(bundle.columns["answers.ids"], bundle.columns["answers.rewards"], strict=True)
        }
        at = record["asked"].index(leader)
        for row, i in enumerate(ids.tolist()):
            clicked = np.flatnonzero(answers[i])
            if len(clicked) and bundle.columns["decisions.lists"][i][clicked[0]] not in lists[row, at]:
                lists[row, at, 0] = bundle.columns["decisions.lists"][i][clicked[0]]
                return
    raise AssertionError("there is no such round")


def _another_order(bundle: Bundle) -> None:
    i = int(bundle.rewarded()[0])
    for name in ("lists", "propensities"):
        row = bundle.columns[f"decisions.{name}"][i]
        row[[0, 1]] = row[[1, 0]]


def _reward_added(bundle: Bundle) -> None:
    rewards = bundle.columns["answers.rewards"]
    rewards[np.flatnonzero(~rewards.any(axis=1))[0], 0] = 1.0


def _reward_dropped(bundle: Bundle) -> None:
    rewards = bundle.columns["answers.rewards"]
    rewards[np.flatnonzero(rewards.any(axis=1))[0]] = 0.0


def _reward_moved(bundle: Bundle) -> None:
    rewards = bundle.columns["answers.rewards"]
    row = rewards[np.flatnonzero(rewards.any(axis=1))[0]]
    row[:] = np.roll(row, 1)


def _all_rewards_removed(bundle: Bundle) -> None:
    bundle.columns["answers.rewards"][:] = 0.0


def _no_lists(bundle: Bundle) -> None:
    for name in [name for name in bundle.columns if name.startswith("lists.")]:
        del bundle.columns[name]
    for record in bundle.records:
        if record["kind"] == "rounds":
            record["rows"] = {name: n for name, n in record["rows"].items() if not name.startswith("lists.")}
            record["columns"] = {name: n for name, n in record["columns"].items() if not name.startswith("lists.")}


def _truncated(n: int) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        del bundle.records[-n:]

    return change


def _all_dropped(bundle: Bundle) -> None:
    """All rivals are said to be dropped before anything was seen."""
    at = next(i for i, one in enumerate(bundle.records) if one["kind"] == "plan") + 1
    for i in range(len(bundle.records[0]["candidates"])):
        if i != bundle.about["claim"]["leader"]:
            bundle.records.insert(at, {"kind": "dropped", "candidate": i, "rounds": 0})


def _claim(**values: Any) -> Callable[[Bundle], None]:
    return lambda bundle: bundle.about["claim"].update(values)


def _claim_in_both(**values: Any) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        bundle.about["claim"].update(values)
        bundle.last("claim").update(values)

    return change


def _another_leader(bundle: Bundle) -> None:
    leader = (bundle.about["claim"]["leader"] + 1) % len(bundle.records[0]["candidates"])
    name = bundle.records[0]["candidates"][leader]
    bundle.about["claim"].update(leader=leader, name=name)
    bundle.last("claim")["leader"] = leader


def _set(*path: str, to: Any) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        inner: Any = bundle.about
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = to

    return change


def _seed(bundle: Bundle) -> None:
    bundle.about["seed"] = "00" * 32


def _seed_and_its_hash(bundle: Bundle) -> None:
    _seed(bundle)
    bundle.records[0]["seed_hash"] = sha256(b"comband seed" + bytes(32)).hexdigest()


def _moved(kind: str, *, by: int) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        at = next(i for i, one in enumerate(bundle.records) if one["kind"] == kind and i)
        bundle.records.insert(at + by, bundle.records.pop(at))

    return change


def _twice(kind: str) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        at = next(i for i, one in enumerate(bundle.records) if one["kind"] == kind)
        bundle.records.insert(at + 1, deepcopy(bundle.records[at]))

    return change


def _without(kind: str) -> Callable[[Bundle], None]:
    def change(bundle: Bundle) -> None:
        at = next(i for i, one in enumerate(bundle.records) if one["kind"] == kind)
        del bundle.records[at]

    return change


def _restarted(bundle: Bundle) -> None:
    bundle.last("plan")["restart"] = True


def _withdrawn(bundle: Bundle) -> None:
    """A rival that is in the way is withdrawn, which was not declared."""
    rival = (bundle.about["claim"]["leader"] + 1) % len(bundle.records[0]["candidates"])
    at = len(bundle.records) - 1
    rounds = bundle.about["claim"]["rounds"]
    bundle.records.insert(
        at, {"kind": "change", "rounds": rounds, "arrivals": [], "withdrawn": [rival], "planned": False}
    )


def _huge_first_stake(bundle: Bundle) -> None:
    bundle.first("plan")["levels"][0] = [0, 0, 0]


OTHERS = (
    Forgery("a reward added", _reward_added),
    Forgery("a reward dropped", _reward_dropped),
    Forgery("a reward moved within its list", _reward_moved),
    Forgery("all rewards removed", _all_rewards_removed),
    Forgery("a decision left out", _decision_left_out),
    Forgery("the winner's list made to hold a clicked item", _another_list),
    Forgery("another order of a shown list", _another_order),
    Forgery("no candidates' lists", _no_lists),
    Forgery("a seed chosen afterwards", _seed),
    Forgery("a seed and its hash chosen afterwards", _seed_and_its_hash),
    Forgery("larger stakes", _stakes),
    Forgery("a stake that may lose everything", _huge_first_stake),
    Forgery("a plan after its rounds", _plan_after_its_rounds),
    Forgery("a plan that fits after its rounds", _plan_that_fits_after_its_rounds),
    Forgery("rivals dropped without evidence", _all_dropped),
    Forgery("another winner", _another_leader),
    Forgery("a smaller epsilon, stated only", _claim(epsilon=0.001)),
    Forgery("a smaller epsilon, in the chain too", _claim_in_both(epsilon=0.001)),
    Forgery("an epsilon of 0", _claim_in_both(epsilon=0.0)),
    Forgery("a negative epsilon", _claim_in_both(epsilon=-0.01)),
    Forgery("another name", _claim(name="somebody else")),
    Forgery("a smaller delta", _claim(delta=0.01)),
    Forgery("fewer decisions", _claim(decisions=10)),
    Forgery("more rounds", _claim(rounds=10**9)),
    Forgery("fewer rounds", _claim(rounds=1)),
    Forgery("late answers that were none", _claim(late=3)),
    Forgery("missing answers that were none", _claim(missing=3)),
    Forgery("a warning that was none", _claim(warnings=["all is well"])),
    Forgery("another head", _set("head", to="f" * 64)),
    Forgery("another format", _set("format", to="a certificate")),
    Forgery("another version", _set("version", to=2)),
    Forgery("no seed", _set("seed", to=None)),
    Forgery("a seed that is no hex", _set("seed", to="zz")),
    Forgery("no claim", _set("claim", to=None)),
    Forgery("a claim that is a list", _set("claim", to=[1])),
    Forgery("evidence begins anew, undeclared", _restarted),
    Forgery("a rival withdrawn, undeclared", _withdrawn),
    Forgery("the last record cut off", _truncated(1)),
    Forgery("three records cut off", _truncated(3)),
    Forgery("all but the first record cut off", lambda bundle: bundle.records.__delitem__(slice(1, None))),
    Forgery("an empty chain", lambda bundle: bundle.records.clear()),
    *(Forgery(f"a {kind} record twice", _twice(kind)) for kind in ("begin", "plan", "rounds")),
    *(Forgery(f"no first {kind} record", _without(kind)) for kind in ("begin", "plan", "rounds", "claim")),
    *(Forgery(f"the first {kind} record later", _moved(kind, by=1)) for kind in ("plan", "rounds", "dropped")),
    *(Forgery(f"the first {kind} record earlier", _moved(kind, by=-1)) for kind in ("rounds", "dropped")),
)


def _value(kind: str, name: str, change: Callable[[Any], Any], which: int = 0) -> Callable[[Bundle], None]:
    def forge(bundle: Bundle) -> None:
        record = [one for one in bundle.records if one["kind"] == kind][which]
        record[name] = change(record[name])

    return forge


def _requests(change: Callable[[list[str]], list[str]]) -> Callable[[Bundle], None]:
    def forge(bundle: Bundle) -> None:
        bundle.others["lists.0.requests.json"] = change(bundle.others["lists.0.requests.json"])

    return forge


OF_SERVICE = (
    Forgery("decisions of another epoch", _value("decisions", "epoch", lambda x: x + 1)),
    Forgery("decisions of an epoch to come", _value("decisions", "epoch", lambda x: 99)),
    Forgery("decisions of an epoch below 0", _value("decisions", "epoch", lambda x: -1)),
    Forgery("one decision more", _value("decisions", "n", lambda x: x + 1)),
    Forgery("one decision less", _value("decisions", "n", lambda x: x - 1)),
    Forgery("no decisions", _value("decisions", "n", lambda x: 0)),
    Forgery("decisions as text", _value("decisions", "n", str)),
    Forgery("a decision without floors", _value("decisions", "uncovered", lambda x: list(range(4)))),
    Forgery("no such decision without floors", _value("decisions", "uncovered", lambda x: [1000])),
    Forgery("other leaves", _value("decisions", "leaves", lambda x: "0" * 64)),
    Forgery("more is settled", _value("rounds", "settled", lambda x: x + 1)),
    Forgery("less is settled", _value("rounds", "settled", lambda x: x - 1)),
    Forgery("nothing is settled", _value("rounds", "settled", lambda x: 0)),
    Forgery("nothing was answered", _value("rounds", "unanswered", lambda x: "f" * len(x))),
    Forgery("no word of what was answered", _value("rounds", "unanswered", lambda x: "")),
    Forgery("what was answered is no hex", _value("rounds", "unanswered", lambda x: "zz")),
    Forgery("another request", _requests(lambda x: ["another", *x[1:]])),
    Forgery("one request less", _requests(lambda x: x[:-1])),
    Forgery("requests backwards", _requests(lambda x: x[::-1])),
    Forgery("requests that are numbers", _requests(lambda x: [1 for _ in x])),  # type: ignore[misc]
    Forgery("no requests", lambda bundle: bundle.others.clear()),
    Forgery("the first decisions later", _moved("decisions", by=1)),
    Forgery("the end earlier", _moved("end", by=-1)),
    Forgery("the first decisions twice", _twice("decisions")),
    Forgery("no first decisions", _without("decisions")),
    Forgery("evidence of version 1", _set("version", to=1)),
)


# What cannot be seen by who knows nothing but the hash of what was declared, once all other hashes were written anew.
_IDLE = "rounds without reward, outside the sample: no evidence depends on it"
_SAME = "what follows from it is the same"
HARMLESS = {
    "decisions.lists: two rows swapped": _IDLE,
    "decisions.propensities: two rows swapped": _IDLE,
    "answers.ids: two rows swapped": _IDLE,
    **{
        f"decisions.elsewhere: {how}": "it is then said that another process drew the list, which is not checked"
        for how in ("one more", "one less", "huge", "negative", "no number", "one per cent more")
    },
    "plan.bound: more": "no stake may lose everything by it, and no round exceeds it",
    "plan.bound: less": "no stake may lose everything by it, and no round exceeds it",
    "plan.explorer.smallest_disputed: less": _SAME,
    "dropped.rounds: less": "the evidence was there one round before",
    "the first dropped record later": "the evidence was there before",
    "a plan record twice": _SAME,
    "no first claim record": "another claim was made later",
    "a reward dropped": "what visitors did is not known from the file: it is said that rewards are not checked",
}
