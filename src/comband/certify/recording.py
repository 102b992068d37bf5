"""What a learner writes down so that others can check its certificate: a chain of records, and the rounds themselves.

Each record is a line of JSON that holds the SHA-256 of the line before, so that the hash of the last one shows that
nothing before it was changed: `head`, to be published elsewhere. A plan stands in the chain before the first decision
that is drawn with it. Rounds stand there by digests of their columns, in blocks: one hash per column and block,
whatever the batches were. docs/certificate_format.md is the specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from comband.certify.certifier import Certified, Certifier
from comband.certify.epochs import Epoch
from comband.certify.spec import Spec
from comband.page.contexts import take_contexts
from comband.page.declaring import plain
from comband.page.keyed import SECRET_BYTES, KeyedNumbers, keyed_numbers, seed_hash
from comband.page.problem import Problem
from comband.page.rounds import Decisions, Rounds
from comband.page.storage import Array, Held, Many, Part, State, Text, Whole, check, require
from comband.policies.policy_set import PolicySet

FORMAT = 1
_BLOCK = 2000  # decisions and answers that stand in one record, unless a plan comes before

Columns = dict[str, NDArray[Any]]
_DECISIONS = {
    "lists": "<i4",
    "propensities": "<f8",
    "epochs": "<i4",
    "covered": "|b1",
    "arms": "<i4",
    "elsewhere": "|b1",
}
_ANSWERS = {"ids": "<i8", "told": "<i8", "rewards": "<f8"}
_SHOWN = {"ids": "<i8", "lists": "<i4"}


class Recording:
    """The chain and the rounds of one learner.

    `ask` and `tell` may fail and be taken back: attributes are replaced, or lists that are appended to
    (`comband.learners.atomic`).

    Parameters
    ----------
    problem, spec, policies:
        What was declared.
    secret:
        From which all random numbers come.
    """

    def __init__(self, problem: Problem, spec: Spec, policies: PolicySet, secret: bytes) -> None:
        assert spec.audited is not None
        self.problem, self.audited, self.secret = problem, spec.audited, secret
        self.lines: list[str] = []
        self.before = "0" * 64
        # By column, all rows in order; and how many of them stand in the chain.
        self._decisions, self._answers = _Table(_DECISIONS), _Table(_ANSWERS)
        self._shown: dict[int, _Table] = {}  # candidates' lists by epoch
        self._open = 0  # decisions and answers since the last block
        self._asked: dict[int, NDArray[np.int64]] = {}  # by epoch, whose lists are kept
        self._dropped = 0
        self._claimed: tuple[Certified, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._write(
            kind="begin",
            format=FORMAT,
            problem={**asdict(problem), "max_reward": problem.max_reward},
            spec=plain(spec),
            candidates=list(policies.names),
            digests=[_digest_of(policy) for policy in policies],
            seed_hash=seed_hash(secret),
        )

    # ---- what is written down ----------------------------------------------------------------------------------------

    @property
    def head(self) -> str:
        """The hash of the last record, with all rounds so far in it."""
        self._close()
        return self.before

    def numbers(self, first_id: int) -> KeyedNumbers:
        """The random numbers of decisions from `first_id` on."""
        return KeyedNumbers(self.secret, first_id)

    def plan(self, number: int, epoch: Epoch, *, restart: bool) -> None:
        """An epoch, before its first decision."""
        self._close()
        state = epoch.state()
        self._asked = {**self._asked, number: asked_by(state["explorer"])}
        named = {name: state[name] for name in ("leader", "explorer", "levels", "bound", "value_bound", "first_id")}
        self._write(kind="plan", epoch=number, restart=restart, asked=self._asked[number], **named)

    def change(
        self, verdict: Certifier, policies: PolicySet, n_before: int, withdrawn: Sequence[int], *, planned: bool
    ) -> None:
        """The field is another one from the next plan on, and the verdict is of it already; `policies` are all so far,
        of whom so many were there before.
        """
        arrivals = policies.names[n_before:]
        digests = [_digest_of(policies[i]) for i in range(n_before, len(policies))]
        self._close()
        self._dropped, self._claimed = len(verdict.dropped), ()
        rounds, named = verdict.evidence.rounds, {"arrivals": list(arrivals), "digests": list(digests)}
        self._write(kind="change", rounds=rounds, withdrawn=withdrawn, planned=planned, **named)

    def decided(self, decisions: Decisions, policies: PolicySet, *, elsewhere: bool) -> None:
        """Decisions as they are shown; candidates are asked for their lists where they are audited."""
        n = len(decisions)
        self._decisions = self._decisions.with_rows(
            lists=decisions.lists,
            propensities=decisions.propensities,
            epochs=decisions.epochs,
            covered=decisions.covered,
            arms=decisions.arms,
            elsewhere=np.full(n, elsewhere),
        )
        self._keep_lists(decisions, np.flatnonzero(self._is_audited(decisions.ids)), policies)
        self._count(n)

    def answered(self, rounds: Rounds, policies: PolicySet, *, issued: int) -> None:
        """Answers that are told when so many decisions are made; candidates are asked where there is a reward."""
        ids = rounds.decisions.ids
        self._answers = self._answers.with_rows(ids=ids, told=np.full(len(ids), issued), rewards=rounds.rewards)
        rewarded = np.flatnonzero(rounds.rewards.any(axis=1))
        self._keep_lists(rounds.decisions, rewarded[~self._is_audited(ids[rewarded])], policies)
        self._count(len(ids))

    def failed(self, ids: NDArray[np.int64], *, issued: int) -> None:
        """Answers that were told in vain when so many decisions were made, and still count as in time."""
        self._close()
        self._write(kind="failed", ids=ids, told=issued)

    def look(self, verdict: Certifier) -> None:
        """Write down what was dropped or certified since the last look."""
        dropped = verdict.dropped[self._dropped :]
        if dropped:
            self._close()
            for one in dropped:
                self._write(kind="dropped", candidate=one.index, rounds=one.round)
            self._dropped += len(dropped)
        if verdict.certified is not None:
            self.claim(verdict.certified, verdict.evidence.rounds)

    def claim(self, claim: Certified, rounds: int) -> None:
        """What is claimed after so many rounds, unless it was claimed before: it stays."""
        if claim not in self._claimed:
            self._close()
            self._write(kind="claim", leader=claim.leader, epsilon=claim.epsilon, rounds=rounds)
            self._claimed = (*self._claimed, claim)

    def guards(self, warnings: Sequence[str]) -> None:
        """What guards say, if it is not what they said before."""
        if tuple(warnings) != self._warnings:
            self._close()
            self._write(kind="guards", warnings=list(warnings))
            self._warnings = tuple(warnings)

    def forget(self) -> None:
        """Evidence begins anew: what was dropped and claimed is so no longer."""
        self._dropped, self._claimed = 0, ()

    def _keep_lists(self, decisions: Decisions, rows: NDArray[np.int64], policies: PolicySet) -> None:
        for epoch in np.unique(decisions.epochs[rows]).tolist():
            mine = rows[decisions.epochs[rows] == epoch]
            lists = policies.predict(take_contexts(decisions.contexts, mine), self._asked[epoch], problem=self.problem)
            before = self._shown.get(epoch, _Table(_SHOWN))
            self._shown = {**self._shown, epoch: before.with_rows(ids=decisions.ids[mine], lists=lists)}

    def _is_audited(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(keyed_numbers(self.secret, ids, 0)[:, 0] < self.audited)

    def _count(self, n: int) -> None:
        self._open += n
        if self._open >= _BLOCK:
            self._close()

    def _close(self) -> None:
        """Put the rounds since the last record into the chain."""
        columns: dict[str, str] = {}
        rows: dict[str, int] = {}
        for name, table in self._tables():
            if table.open:
                rows[name] = table.open
                columns |= {f"{name}.{column}": _digest(part) for column, part in table.fresh().items()}
        self._open = 0
        if rows:
            self._write(kind="rounds", rows=rows, columns=columns)
            self._decisions, self._answers = self._decisions.chained(), self._answers.chained()
            self._shown = {epoch: table.chained() for epoch, table in self._shown.items()}

    def _write(self, **record: Any) -> None:
        line = json.dumps({**record, "before": self.before}, sort_keys=True, allow_nan=False, default=_listed)
        self.lines.append(line)
        self.before = sha256(line.encode()).hexdigest()

    def _tables(self) -> Iterable[tuple[str, _Table]]:
        yield "decisions", self._decisions
        yield "answers", self._answers
        for epoch in sorted(self._shown):
            yield f"lists.{epoch}", self._shown[epoch]

    def columns(self) -> Columns:
        """All rounds so far by the names of their columns, as a bundle has them; what is in them is in the chain."""
        self._close()
        found = ((name, table.whole()) for name, table in self._tables())
        return {f"{name}.{column}": part for name, whole in found for column, part in whole.items()}

    # ---- files -------------------------------------------------------------------------------------------------------

    SCHEMA: ClassVar = {
        "secret": Text(),
        "lines": Many(Text()),
        "tables": Part(),
        "open": Many({"table": Text(), "rows": Whole(1)}),
        "dropped": Whole(0),
        "claimed": Many(Held(Certified)),
        "warnings": Many(Text()),
    }

    def state(self) -> State:
        """All of it by name, for a file; see `comband.page.storage`."""
        tables = dict(self._tables())
        return {
            "secret": self.secret.hex(),
            "lines": list(self.lines),
            "tables": {name: table.whole() for name, table in tables.items() if table.rows},
            "open": [{"table": name, "rows": table.open} for name, table in tables.items() if table.open],
            "dropped": self._dropped,
            "claimed": [claim.state() for claim in self._claimed],
            "warnings": list(self._warnings),
        }

    def restore(self, state: State, *, n_policies: int, epochs: Sequence[Epoch], issued: int, answered: int) -> None:
        """The inverse of `state`, checked: the chain must be whole, and of this learner's rounds."""
        check(state, self.SCHEMA, P=n_policies)
        m = self.problem.list_size
        before = "0" * 64
        for line in state["lines"]:
            require(_before(line) == before, "each record must hold the hash of the one before.")
            before = sha256(line.encode()).hexdigest()
        tables = {"decisions": _Table(_DECISIONS), "answers": _Table(_ANSWERS)}
        for name, whole in state["tables"].items():
            known = tables.get(name, _Table(_SHOWN))
            check(whole, _schema(known.kinds, m), place=name)
            tables[name] = known.with_rows(**whole).chained()
        for part in state["open"]:
            table = tables.get(part["table"])
            require(table is not None and part["rows"] <= table.rows, "no more rows can be open than there are.")
            assert table is not None
            tables[part["table"]] = table.opened(part["rows"])
        require(
            (tables["decisions"].rows, tables["answers"].rows) == (issued, answered)
            and len(bytes.fromhex(state["secret"])) == SECRET_BYTES
            and len(state["lines"]) > len(epochs),
            "the record of rounds must be that of the learner's decisions and answers.",
        )
        self.secret, self.lines, self.before = bytes.fromhex(state["secret"]), list(state["lines"]), before
        self._decisions, self._answers = tables.pop("decisions"), tables.pop("answers")
        self._shown = {int(name.removeprefix("lists.")): table for name, table in tables.items()}
        self._open = self._decisions.open + self._answers.open
        self._asked = {k: asked_by(epoch.explorer.state()) for k, epoch in enumerate(epochs)}
        self._dropped = state["dropped"]
        self._claimed, self._warnings = tuple(map(Certified.read, state["claimed"])), tuple(state["warnings"])


class _Table:
    """Columns with a growing number of rows, of which the last ones are not in the chain yet. Nothing in it is
    altered.
    """

    __slots__ = ("_done", "_fresh", "kinds", "open", "rows")

    def __init__(
        self, kinds: Mapping[str, str], done: tuple[Columns, ...] = (), fresh: tuple[Columns, ...] = ()
    ) -> None:
        self.kinds, self._done, self._fresh = kinds, done, fresh
        self.open = sum(map(_n_rows, fresh))
        self.rows = self.open + sum(map(_n_rows, done))

    def with_rows(self, **columns: NDArray[Any]) -> _Table:
        """With further rows at its end."""
        part = {name: np.array(columns[name], dtype=kind) for name, kind in self.kinds.items()}
        return _Table(self.kinds, self._done, (*self._fresh, part)) if _n_rows(part) else self

    def chained(self) -> _Table:
        """The same with all rows in the chain."""
        return _Table(self.kinds, (*self._done, _joined(self._fresh))) if self._fresh else self

    def opened(self, n: int) -> _Table:
        """The same, with only the last n rows not in the chain."""
        whole, first = self.whole(), self.rows - n
        before, after = ({name: column[rows] for name, column in whole.items()} for rows in _cut(first))
        return _Table(self.kinds, (before,) if first else (), (after,) if n else ())

    def fresh(self) -> Columns:
        """What is not in the chain."""
        return _joined(self._fresh)

    def whole(self) -> Columns:
        """All of it."""
        return _joined((*self._done, *self._fresh))


def _n_rows(part: Columns) -> int:
    return len(part["lists"] if "lists" in part else part["ids"])


def _cut(first: int) -> tuple[slice, slice]:
    return slice(0, first), slice(first, None)


def _joined(parts: tuple[Columns, ...]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _digest_of(policy: Any) -> str | None:
    """By which a candidate's model is known again, if it says so."""
    found = getattr(policy, "digest", None)
    return found if isinstance(found, str) else None


def _digest(column: NDArray[Any]) -> str:
    return sha256(np.ascontiguousarray(column).tobytes()).hexdigest()


def _listed(value: Any) -> Any:
    """Arrays and numbers of numpy's, for JSON."""
    return value.tolist()


def _before(line: str) -> Any:
    try:
        return json.loads(line).get("before")
    except (ValueError, AttributeError, RecursionError):
        return None


def _schema(kinds: Mapping[str, str], m: int) -> dict[str, Array]:
    """What a file holds of a table."""
    wide = {"lists": ("n", "A", m) if kinds is _SHOWN else ("n", m), "propensities": ("n", m), "rewards": ("n", m)}
    return {name: Array(kind.lstrip("<|").replace("b1", "?"), wide.get(name, ("n",))) for name, kind in kinds.items()}


def asked_by(explorer: State) -> NDArray[np.int64]:
    """Whose lists an explorer of this state looks at, or compares."""
    found = [explorer["candidates"]] if "candidates" in explorer else []
    if "shown" in explorer:
        found.append(explorer["shown"])
    if "support" in explorer and explorer["floor"] < 1:
        found.append(explorer["support"])
    if "mixture" in explorer:
        found.append(asked_by(explorer["mixture"]))
    return np.unique(np.concatenate(found)).astype(np.int64)
