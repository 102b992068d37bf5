#!/usr/bin/env python3
"""Checks a certificate with the standard library and numpy alone: `python verify.py CERTIFICATE.zip [--head HASH …]`.

HASH are heads of the chain that were published while the experiment ran: nothing before them was changed since.
docs/certificate_format.md defines what it checks, in the same letters; it shares no code with what writes certificates.
"""

import argparse
import ast
import json
import sys
import zipfile
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Json = dict[str, Any]
MOST_BYTES, CLOSE, SLACK, CELLS = 1 << 33, 1e-6, 1e-6, 3_000_000
TYPES = {"lists": "<i4", "propensities": "<f8", "epochs": "<i4", "covered": "|b1", "arms": "<i4", "elsewhere": "|b1"}
TYPES = {f"decisions.{name}": kind for name, kind in TYPES.items()}
OF_SERVICE = {
    "ids": "<i8",
    "lists": "<i4",
    "shown": "<i4",
    "propensities": "<f8",
    "items": "|u1",
}  # lists.K.…, version 2
TYPES |= {"answers.ids": "<i8", "answers.told": "<i8", "answers.rewards": "<f8"}
KNOWN = "format version head seed claim leader epsilon rounds name delta decisions missing late warnings max_rounds "
KNOWN += "patience period recent open_field production exposure max_loss objective prior_scores prior_error "
KNOWN += "exploration first_epoch epoch_growth max_evaluated weighting eliminate audited n_actions list_size sparsity "
KNOWN += "places order feedback max_reward decisions.leaves"
TRUSTED = [
    "that rewards are what visitors did",
    "that the lists given here are what the candidates answered: ask them again, if they and the contexts are at hand",
    "estimated values and their intervals, and what guards looked at",
]


class RefusedError(Exception):
    """The certificate does not prove its claim."""


@dataclass
class Report:
    """Whether it is verified, or why not; what is claimed, what was checked and what was not, and warnings."""

    verified: bool = False
    reason: str = ""
    claim: str = ""
    checked: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """All of it in words."""
        if not self.verified:
            return [f"REFUSED: {self.reason}."]
        found = {"checked": self.checked, "not checked": self.not_checked, "warning": self.warnings}
        said = [f"{title}: {line}" for title, lines in found.items() for line in lines]
        return [f"claim: {self.claim}", *said, "VERIFIED"]


def need(condition: Any, reason: str) -> None:
    """Refuse unless a condition holds."""
    if not condition:
        raise RefusedError(reason)


def no_number(word: str) -> None:
    """Refuse NaN and infinities in JSON."""
    raise RefusedError(f"{word} is no number")


def read_array(data: bytes, name: str) -> Array:
    """An array of plain, finite numbers in numpy's format, version 1.0."""
    need(data[:8] == b"\x93NUMPY\x01\x00" and len(data) >= 10, f"{name} is no array")
    start = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:start].decode("latin1"))
    kind, shape, size = np.dtype(header["descr"]), header["shape"], 1
    need(
        kind.kind in "iufb" and kind.itemsize <= 8 and header["fortran_order"] is False, f"{name} has no plain numbers"
    )
    for n in shape:
        need(type(n) is int and n >= 0, f"{name} has no shape")
        size *= n
    need(size * kind.itemsize == len(data) - start, f"{name} is not as long as it says")
    column = np.frombuffer(data, kind, offset=start).reshape(shape)
    need(kind.kind != "f" or np.isfinite(column).all(), f"{name} holds what is no number")
    return column


def numbers_of(secret: bytes, ids: Array, width: int) -> Array:
    """The numbers of decisions, (n, 1 + width): the first says whether it is audited, the others draw its list."""
    salts = [k.to_bytes(8, "little") for k in range(-(-(1 + width) // 8))]
    hashed = {"key": secret, "digest_size": 64, "person": b"comband numbers"}
    raw = [blake2b(b"%d" % i, salt=salt, **hashed).digest() for i in ids.tolist() for salt in salts]  # type: ignore[arg-type]
    words = np.frombuffer(b"".join(raw), "<u8").reshape(len(ids), 8 * len(salts))
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)[:, : 1 + width]


def numbers_of_requests(secret: bytes, requests: list[str]) -> Array:
    """The numbers (n, 2) by which a service draws lists."""
    raw = b"".join(blake2b(one.encode(), key=secret, digest_size=16).digest() for one in requests)
    return np.asarray((np.frombuffer(raw, "<u8").reshape(-1, 2) >> np.uint64(11)) * 2.0**-53)


# ---- how lists are drawn: laws are (covered, propensities of lists, the draw by numbers, how many numbers) -----------


def shuffled(lists: Array, u: Array) -> Array:
    """Each list in the random order that its number gives."""
    lists, rows, state = lists.copy(), np.arange(len(lists)), (u * 2.0**53).astype(np.uint64)
    for k in range(lists.shape[1] - 1, 0, -1):
        state = state + np.uint64(0x9E3779B97F4A7C15)
        z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        j = (((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53 * (k + 1)).astype(np.int64)
        other = lists[rows, j].copy()
        lists[rows, j], lists[:, k] = lists[:, k].copy(), other
    return lists


def uniform_lists(u: Array, n_items: int) -> Array:
    """Uniform lists of as many items as there are numbers."""
    lists = np.full(u.shape, -1, dtype=np.int64)
    for k in range(u.shape[1]):
        top = n_items - u.shape[1] + k
        y = np.minimum((u[:, k] * (top + 1)).astype(np.int64), top)
        lists[:, k] = np.where((lists[:, :k] == y[:, None]).any(axis=1), top, y)
    return lists


def clipped(weight: Array, lower: Array, there: Array, m: int) -> Array:
    """q = clip(t·weight, lower, 1) with Σq = m, by bisection of log t; 1 where there are m items or fewer."""
    below, above = np.full((len(weight), 1), -30.0), np.full((len(weight), 1), 60.0)
    for _ in range(64):
        t = (below + above) / 2
        high = (np.clip(np.exp(t) * weight, lower, 1.0) * there).sum(axis=1, keepdims=True) > m
        below, above = np.where(high, below, t), np.where(high, t, above)
    q = np.clip(np.exp(below) * weight, lower, 1.0)
    return np.where(there.sum(axis=1, keepdims=True) > m, q, 1.0) * there


def systematic(items: Array, q: Array, u: Array, m: int) -> Array:
    """The items at the points u, u + 1, … of the line of cumulated probabilities; −1 where there are too few."""
    n_there = (items >= 0).sum(axis=1)[:, None]
    wanted, left = np.minimum(n_there, m), n_there - 1 - np.arange(items.shape[1])
    points = np.clip(np.ceil(np.cumsum(q, axis=1) - u[:, None]), np.maximum(wanted - np.maximum(left, 0), 0), wanted)
    row, column = np.nonzero(np.diff(points, axis=1, prepend=0) > 0)
    lists = np.full((len(items), m), -1, dtype=np.int64)
    lists[row, points[row, column].astype(np.int64) - 1] = items[row, column]
    return lists


def same_items(lists: Array, shown: Array) -> Array:
    """(n, S, m, m): whether shown item k is item l of a list."""
    return np.asarray((lists[:, :, None, :] == shown[:, None, :, None]) & (shown >= 0)[:, None, :, None])


def shares_of(lists: Array, weights: Array, shown: Array, placed: bool) -> Array:
    """By how much weight of lists (n, A, m) each shown item (n, m) is listed: in its place, or anywhere."""
    same = lists == shown[:, None] if placed else same_items(lists, shown).any(axis=3)
    return np.where(shown < 0, 1.0, (same * weights[..., None]).sum(axis=1))


def law_of(plan: Json, problem: Json, lists: Array) -> Any:
    """The law of a plan's lists where the candidates' are lists (n, A, m); None where it is not recomputed here."""
    explorer, kind, placed = plan["explorer"], plan["explorer"]["kind"], problem["places"] == "pairs"
    (n, S, m), K, rows, no_arms = lists.shape, problem["n_actions"], np.arange(len(lists)), np.full(len(lists), -1)
    if kind in ("arms", "whole lists", "own lists"):
        who = np.array(explorer.get("shown", explorer["candidates"]))
        A, mine = len(who), lists[:, np.searchsorted(plan["asked"], who)]

        def draw_whole(u: Array) -> tuple[Array, Array]:
            drawn = np.minimum((u[:, 0] * A).astype(np.int64), A - 1)
            return mine[rows, drawn], who[drawn] if kind == "arms" else no_arms

        return np.ones(n, bool), lambda shown: shares_of(mine, np.full(A, 1 / A), shown, placed), draw_whole, 1
    if kind in ("mixture", "examined mixture"):
        explorer = explorer.get("mixture", explorer)
        own_orders = placed or explorer.get("as_they_are", False)
        floor, p = explorer["floor"], np.array(explorer["weights"], dtype=float)
        support, p = (np.array(explorer["support"])[p > 0], p[p > 0]) if explorer["floor"] < 1 else (p[:0], p[:0])
        mine, least = lists[:, np.searchsorted(plan["asked"], support)], floor * (1 / K if placed else m / K)

        def draw_mixed(u: Array) -> tuple[Array, Array]:
            drawn = uniform_lists(u[:, 1 : 1 + m], K)
            drawn = shuffled(drawn, u[:, 1 + m]) if own_orders else drawn
            if floor < 1:
                who = np.searchsorted(np.cumsum(p), (u[:, 0] - floor) / (1 - floor), side="right").clip(max=len(p) - 1)
                drawn = np.where((u[:, 0] >= floor)[:, None], mine[rows, who], drawn)
            return drawn if own_orders else shuffled(drawn, u[:, 1 + m]), no_arms

        def mixed(shown: Array) -> Array:
            q = np.minimum(least + (1 - floor) * shares_of(mine, p[None], shown, placed), 1.0)
            return np.where(shown < 0, 1.0, q)

        return np.ones(n, bool), mixed, draw_mixed, 2 + m
    if kind not in ("disagreement", "examination", "midzuno"):
        return None
    leader, alpha = explorer["leader"], np.array(explorer["attention"], dtype=float)
    alpha[leader] = 0.0
    alpha = alpha / alpha.sum() if alpha.sum() > 0 else np.full(S, 1 / max(S - 1, 1))
    alpha[leader] = 0.0
    theta = np.array(problem["places"], dtype=float) if kind == "examination" else np.ones(m)
    # The union (n, U), in the order in which the lists name items; and of each item votes, and factors.
    flat, (row, policy, place) = lists.reshape(-1).astype(np.int64), (a.reshape(-1) for a in np.indices((n, S, m)))
    there = np.flatnonzero(flat >= 0)
    keys, first, which = np.unique(row[there] * K + flat[there], return_index=True, return_inverse=True)
    which, of_place, who = which.reshape(-1), theta[place[there]], policy[there]
    led, largest, smallest = np.zeros(len(keys)), np.zeros(len(keys)), np.full(len(keys), np.inf)
    led[which[who == leader]] = of_place[who == leader]
    np.maximum.at(largest, which, of_place)
    np.minimum.at(smallest, which, of_place)
    votes = np.bincount(which, minlength=len(keys))
    care = np.bincount(which, alpha[who] * of_place * (of_place - 2 * led[which]), len(keys)) + alpha.sum() * led**2
    gain, loss = largest - led, np.maximum(led - np.where(votes >= S, smallest, 0.0), 0.0)
    disputed = (gain > 0) | (loss > 0)
    weight = np.where(disputed, np.sqrt(np.maximum(care, 1e-9) * (votes / S + 0.01)), 0.0)
    least = explorer["smallest_first" if kind == "midzuno" else "smallest_disputed"]
    lowest = (
        (least, 0.3 * least, min(0.05 / m, least))
        if kind == "midzuno"
        else (least, min(0.6 * least, 1), min(0.05, least))
    )
    lower = np.where(disputed, np.where(gain > 0, lowest[0], lowest[1]), lowest[2])
    if kind == "examination":
        lower = np.max([lowest[0] * gain, lowest[1] * loss, lowest[2] * largest], axis=0) * m / theta.sum()
    order = np.argsort(first)
    rows_of, count = keys[order] // K, np.bincount(keys // K, minlength=n)
    at = rows_of, np.arange(len(keys)) - (np.cumsum(count) - count)[rows_of]
    items, w, low = (np.full((n, int(count.max(initial=1))), nothing) for nothing in (-1, 0.0, 0.0))
    items[at], w[at], low[at] = (keys % K)[order], weight[order], lower[order]

    def found(q: Array, shown: Array) -> Array:
        same = (items[:, None, :] == shown[:, :, None]) & (shown >= 0)[:, :, None]
        return np.asarray((same * q[:, None, :]).sum(axis=2))

    if kind == "midzuno":
        share, total, some = low.sum(axis=1, keepdims=True), w.sum(axis=1, keepdims=True), explorer["uniform"]
        q = np.where((share > 1) | (total == 0), low / share, low + (1 - share) * w / np.where(total == 0, 1.0, total))

        def draw_first(u: Array) -> tuple[Array, Array]:
            rest = np.maximum(u[:, :1] - some, 0.0) / max(1 - some, 1e-300)
            one = items[rows, np.minimum((rest >= np.cumsum(q, axis=1)).sum(axis=1), count - 1)]
            one = np.where(u[:, 0] < some, np.minimum((u[:, 0] / some * K).astype(np.int64), K - 1), one)[:, None]
            others = uniform_lists(u[:, 2 : 1 + m], K - 1)
            drawn = np.concatenate([one, others + (others >= one)], axis=1)
            return np.take_along_axis(drawn, np.argsort(u[:, 1 + m :], axis=1), 1), no_arms

        def filled(shown: Array) -> Array:
            q_first = (1 - some) * found(q, shown) + some / K
            return np.asarray(q_first + (1 - q_first) * (m - 1) / max(K - 1, 1))

        return share[:, 0] <= 1, filled, draw_first, 1 + 2 * m
    worst = np.maximum(low.max(axis=1), low.sum(axis=1) / m)
    q = clipped(np.maximum(w, 1e-9), low / np.maximum(worst, 1.0)[:, None], items >= 0, m)
    whole = np.array(explorer["own"] if kind == "disagreement" else [0.0] * S) * (lists >= 0).all(axis=2)
    here = whole.sum(axis=1)

    def draw(u: Array) -> tuple[Array, Array]:
        drawn = systematic(items, q, (u[:, 0] - here) / (1 - here), m)
        own = np.minimum((u[:, :1] >= np.cumsum(whole, axis=1)).sum(axis=1), S - 1)
        drawn = np.where((u[:, 0] < here)[:, None], lists[rows, own], drawn)
        as_it_is = (u[:, 0] < here) & (own == explorer.get("page", None))
        return np.where(as_it_is[:, None], drawn, shuffled(drawn, u[:, 1])), no_arms

    def included(shown: Array) -> Array:
        q_shown = (1 - here)[:, None] * found(q, shown) + shares_of(lists, whole, shown, False)
        return np.where(shown < 0, 1.0, q_shown)

    return worst <= 1.0, included, draw, 2


def worth(plan: Json, problem: Json, lists: Array, shown: Array, q: Array, arms: Array, r: Array) -> Array:
    """X (n, S) of rewarded rounds for the plan's candidates, whose lists are (n, S, m)."""
    (n, S, m), kind, total = lists.shape, plan["explorer"]["kind"], r.sum(axis=1)[:, None]
    if kind == "arms":
        return np.asarray(total * len(plan["explorer"]["shown"]) * (arms[:, None] == plan["candidates"]))
    same = same_items(lists, shown)
    overlap, place = same.any(axis=3).sum(axis=2), problem["places"]
    if kind == "midzuno":
        return np.asarray(total / m * overlap / (q.mean(axis=1) - (m - 1) / max(problem["n_actions"] - 1, 1))[:, None])
    if kind == "whole lists":
        return np.asarray(total * (overlap == m) / np.maximum((overlap == m).mean(axis=1), 1e-300)[:, None])
    if kind == "own lists":
        both = (lists[:, :, None, :, None] == lists[:, None, :, None, :]).sum(axis=(3, 4)) / S
        values, vectors = np.linalg.eigh(both)
        kept = vectors * (values > 1e-9 * values[:, -1:])[:, None, :]
        return np.asarray(total * S * (kept @ np.swapaxes(kept, 1, 2))[np.arange(n), overlap.argmax(axis=1)])
    if place is None or place == "pairs":
        counts = same.any(axis=3) if place is None else lists == shown[:, None]
        return np.asarray((counts * (r / q)[:, None]).sum(axis=2))
    return np.asarray(((same * np.array(place)).sum(axis=3) * (r / q)[:, None]).sum(axis=2) / np.mean(place))


# ---- the chain, and what it proves -----------------------------------------------------------------------------------


class Experiment:
    """The chain's records, one after the other, and the evidence as it was at each of them."""

    def __init__(
        self, about: Json, columns: dict[str, Array], requests: dict[str, list[str]], begin: Json, n_policies: int
    ) -> None:
        self.columns, self.problem, self.spec, self.secret = (
            columns,
            begin["problem"],
            begin["spec"],
            bytes.fromhex(about["seed"]),
        )
        need(begin["kind"] == "begin", "the chain must begin with what was declared")
        need(self.spec["audited"] > 0 and 0 < self.spec["delta"] < 1, "audited and delta must be declared")
        hashed = sha256(b"comband seed" + self.secret).hexdigest()
        need(hashed == begin["seed_hash"], "the seed is not the one whose hash was declared")
        need(begin["format"] == about["version"], "the chain is of another version")
        self.m, self.rho, s = self.problem["list_size"], self.problem["max_reward"], self.problem["sparsity"]
        K = self.problem["n_actions"]
        need(type(K) is int and 0 < K < 1 << 31, "n_actions must be a whole number below 2^31")
        need(self.rho == (self.m if s is None else min(s, self.m)) and self.rho > 0, "max_reward must be min(s, m)")
        self.rows: dict[str, int] = {}  # of each table, in the chain so far
        self.of_service, self.settled, self.requests = about["version"] == 2, 0, requests
        self.empty_last = self.of_service and begin["service"]["order"] != "as drawn"
        if self.of_service:
            self.open_leaves()
        need(
            self.problem.get("order") in (None, "random"), "lists in another order than a random one are not known here"
        )
        n, a = len(columns["decisions.lists"]), len(columns["answers.ids"])
        for name, kind in TYPES.items():
            wide = (self.m,) if name.endswith(("lists", "propensities", "rewards")) else ()
            shape = (n if name.startswith("decisions") else a, *wide)
            need(
                columns[name].dtype == np.dtype(kind) and columns[name].shape == shape,
                f"{name} has a wrong type or shape",
            )
        need((columns["decisions.propensities"] > 0).all(), "propensities must be above 0")
        self.names: list[str] = list(begin["candidates"])
        self.digests: list[str | None] = list(begin.get("digests", [None] * len(self.names)))
        self.plans: list[Json] = []
        self.n_in: list[int] = []  # rounds of each plan in the evidence
        self.wealth: dict[int, Array] = {}  # (P, 3) by leader
        self.since, self.stretch, self.front, self.fields, self.missing, self.last_told = 0, 1, 0, 1, 0, 0
        self.present, self.number, self.chosen = (
            np.arange(n_policies) < len(self.names),
            np.zeros(n_policies, int),
            np.zeros(n_policies, bool),
        )
        self.out: set[int] = set()
        self.claims: set[tuple[int, float]] = set()
        self.told, self.answer = np.full(n, -1), np.full(n, -1)  # when each decision was answered, and by which row
        self.warnings: list[str] = []
        self.ended, self.unanswered = False, np.zeros(0, bool)  # of a service: of which decisions nothing came

    def open_leaves(self) -> None:
        """A service's decisions: of those that are given in full the leaf must be the one that is given for all."""
        leaves = self.columns["decisions.leaves"]
        n = len(leaves)
        need(leaves.dtype == np.uint8 and leaves.shape == (n, 32), "leaves have another type or shape")
        for name, kind in TYPES.items():
            if name.startswith("decisions"):
                wide = (n, self.m) if name.endswith(("lists", "propensities")) else (n,)
                self.columns[name] = np.full(wide, {"lists": -1, "arms": -1, "propensities": 1}.get(name[10:], 0), kind)
        for k in [one[6:-9] for one in self.requests]:
            part, texts = (
                {one: self.columns[f"lists.{k}.{one}"] for one in OF_SERVICE},
                self.requests[f"lists.{k}.requests"],
            )
            same = all(part[one].dtype == np.dtype(kind) for one, kind in OF_SERVICE.items())
            need(same and len({len(texts), *map(len, part.values())}) == 1, f"lists.{k} have another type or shape")
            need(((part["ids"] >= 0) & (part["ids"] < n)).all(), f"lists.{k} are of no decisions")
            for i, (at, text) in enumerate(zip(part["ids"].tolist(), texts, strict=True)):
                held = b"".join(part[one][i].tobytes() for one in ("shown", "propensities", "lists", "items"))
                leaf = sha256(held + text.encode()).digest()
                need(leaf == leaves[at].tobytes(), f"decision {at} is not the one that the chain holds")
            self.columns["decisions.lists"][part["ids"]] = part["shown"]
            self.columns["decisions.propensities"][part["ids"]] = part["propensities"]
            self.rows[f"lists.{k}"] = len(texts)

    def decisions(self, n: int, epoch: int, uncovered: list[int], leaves: str, **_: Any) -> None:
        """A service's decisions, as they were made."""
        first = self.rows.get("decisions", 0)
        part = self.columns["decisions.leaves"][first : first + n]
        need(type(n) is int and n > 0 and len(part) == n, "decisions are missing")
        need(sha256(part.tobytes()).hexdigest() == leaves, f"decisions from {first} on are not what the chain holds")
        need(0 <= epoch < len(self.plans), "a decision was drawn before its plan was in the chain")
        need(all(0 <= i < n for i in uncovered), "no such decisions")
        self.columns["decisions.epochs"][first : first + n] = epoch
        self.columns["decisions.covered"][first : first + n] = ~np.isin(np.arange(n), uncovered)
        self.rows["decisions"] = first + n

    def rounds(
        self, rows: dict[str, int], columns: dict[str, str], settled: int = 0, unanswered: str = "", **_: Any
    ) -> None:
        """Decisions, answers and lists: they must have the digests, and be drawn by plans that stand before."""
        need(not self.of_service or set(rows) <= {"answers"}, "a table that a service does not have")
        for table, n in rows.items():
            first, mine = self.rows.get(table, 0), {x for x in self.columns if x.rpartition(".")[0] == table}
            named = {x for x in columns if x.rpartition(".")[0] == table}
            need(type(n) is int and n > 0 and mine == named, f"columns of {table} are not those of the chain")
            for name in mine:
                part = np.ascontiguousarray(self.columns[name][first : first + n])
                same = len(part) == n and sha256(part.tobytes()).hexdigest() == columns[name]
                need(same, f"{name} from row {first} on is not what the chain holds")
            self.rows[table] = first + n
        done = self.rows.get("decisions", 0)
        epochs = self.columns["decisions.epochs"][done - rows.get("decisions", 0) : done]
        made = ((epochs >= 0) & (epochs < len(self.plans))).all()
        need(made, "a decision was drawn before its plan was in the chain")
        here = slice(self.rows.get("answers", 0) - rows.get("answers", 0), self.rows.get("answers", 0))
        ids, told, rewards = (self.columns[f"answers.{name}"][here] for name in ("ids", "told", "rewards"))
        need(((ids >= 0) & (ids < told) & (told <= done)).all(), "an answer is told before its decision")
        need((np.diff(told, prepend=self.last_told) >= 0).all(), "answers are not in the order in which they came")
        need(len(np.unique(ids)) == len(ids) and (self.answer[ids] < 0).all(), "a decision is answered twice")
        need((rewards >= 0).all() and (rewards.sum(axis=1) <= self.rho * (1 + 1e-9)).all(), "a reward is out of range")
        self.answer[ids], self.last_told = np.arange(here.start, here.stop), int(told.max(initial=self.last_told))
        self.told[ids] = np.where(self.told[ids] < 0, told, np.minimum(self.told[ids], told))
        if self.of_service:
            need(self.settled <= settled <= done and (ids >= self.settled).all(), "what is settled is answered again")
            need((ids < settled).all(), "an answer is to a decision that is not settled")
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(unanswered), np.uint8))[: settled - self.settled]
            self.unanswered = np.append(self.unanswered, bits.astype(bool))
            need(len(self.unanswered) == settled and not self.unanswered[ids].any(), "it is not said what was answered")
            self.settled = settled

    def failed(self, ids: list[int], told: int, **_: Any) -> None:
        """Answers that came in time and had to be told again."""
        need(0 <= told <= self.rows.get("decisions", 0) and all(0 <= i < told for i in ids), "no such answers")
        self.told[ids] = np.where(self.told[ids] < 0, told, np.minimum(self.told[ids], told))

    def end(self, **_: Any) -> None:
        """Nothing comes any more."""
        self.ended = True

    def guards(self, warnings: list[str], **_: Any) -> None:
        """What guards say from here on."""
        self.warnings = warnings

    def plan(self, **plan: Any) -> None:
        """Leader, stakes and how lists are drawn, fixed before the decisions that follow."""
        k, done = plan["epoch"], self.rows.get("decisions", 0)
        if "winner" in plan:  # all is known, and what is shown from then on is no evidence
            need(self.of_service and k == len(self.plans), "plans must follow each other")
            plan |= {"asked": [], "explorer": {"kind": "none"}, "candidates": [], "leader": -1, "stakes": None}
            self.plans, self.n_in = [*self.plans, plan], [*self.n_in, 0]
            return
        explorer = plan["explorer"]
        candidates, levels = explorer.get("mixture", explorer)["candidates"], np.array(plan["levels"], dtype=np.int64)
        again = 0 <= k == len(self.plans) - 1 and not (self.columns["decisions.epochs"][:done] == k).any()
        need(k == len(self.plans) or again, "plans must follow each other, and none may change after its rounds")
        need(levels.shape == (len(candidates), 3) and ((levels >= 0) & (levels <= 126)).all(), "stakes are no stakes")
        plan["stakes"] = np.where(levels < 126, 2.0 ** (-levels / 3), 0.0) / min(1.0, self.rho)
        need(plan["bound"] > 0 and plan["stakes"].max() * plan["bound"] < 1, "a stake may lose more than there is")
        need(
            candidates == sorted(set(candidates)) and self.present[candidates].all(), "a plan compares who is not there"
        )
        need(plan["leader"] in candidates and set(candidates) <= set(plan["asked"]), "the leader must be a candidate")
        plan["candidates"], plan["place"] = np.array(candidates), candidates.index(plan["leader"])
        need(explorer.get("leader", plan["place"]) == plan["place"], "lists must be drawn around the leader")
        need(
            plan["first_id"] == done and (self.of_service or done % self.spec["period"] == 0),
            "a plan must begin with the next decision",
        )
        if plan["restart"]:
            need(self.spec["recent"] is not None, "evidence begins anew, which was not declared")
            self.since, self.stretch, self.wealth, self.out, self.claims = k, self.stretch + 1, {}, set(), set()
        self.plans[k:], self.n_in[k:] = [plan], [0]

    def change(self, rounds: int, arrivals: list[str], withdrawn: list[int], planned: bool, **more: Any) -> None:
        """Candidates come and go."""
        self.digests += more.get("digests", [None] * len(arrivals))
        need(planned is True or self.spec["open_field"], "the field changes by the data, which was not declared")
        need(self.present[withdrawn].all(), "who is withdrawn must be there")
        self.advance(rounds)
        new = list(range(len(self.names), len(self.names) + len(arrivals)))
        self.names, self.fields, self.claims = self.names + arrivals, self.fields + planned, set()
        self.present[new], self.present[withdrawn] = True, False
        if not planned:
            self.number[new], self.chosen[withdrawn] = self.number.max() + 1 + np.arange(len(new)), True
        excluded = self.present & (log_mean(self.total()) >= self.enough() - SLACK)
        self.out = {i for i in self.out if excluded[i]}
        self.out = set() if self.out >= set(np.flatnonzero(self.present).tolist()) else self.out

    def dropped(self, candidate: int, rounds: int, **_: Any) -> None:
        """A candidate is out: the evidence against its being the best suffices."""
        self.advance(rounds)
        need(0 <= candidate < len(self.names) and self.present[candidate], "who is dropped must be there")
        lacking = self.enough()[candidate] - log_mean(self.total())[candidate]
        need(lacking <= SLACK, f"{self.names[candidate]} is dropped without enough evidence")
        self.out.add(candidate)

    def claim(self, leader: int, epsilon: float, rounds: int, **_: Any) -> None:
        """No candidate exceeds the leader by more than ε: the evidence must say so of all who are left."""
        self.advance(rounds)
        need(0 <= leader < len(self.names) and self.present[leader] and epsilon >= 0, "who is certified must be there")
        total = self.total()
        for plan, n in zip(self.plans[self.since :], self.n_in[self.since :], strict=True):
            if plan["leader"] == leader and n:
                total[plan["candidates"]] -= n * np.log1p(-np.minimum(plan["stakes"] * epsilon, 1 - 1e-16))
        lacking = self.enough() - log_mean(total)
        for i in np.flatnonzero(self.present & (lacking > SLACK)).tolist():
            shown = i == leader or i in self.out or epsilon >= self.rho
            need(shown, f"it is not shown that {self.names[i]} exceeds {self.names[leader]} by at most {epsilon:.4g}")
        self.claims.add((leader, epsilon))

    def advance(self, front: int) -> None:
        """Rounds enter the evidence in the order of decisions: all that are answered, or overdue."""
        done, patience = self.rows.get("decisions", 0), self.spec["patience"]
        need(self.front <= front <= done and front % self.spec["period"] == 0, "rounds must enter in order")
        ids = np.arange(self.front, front)
        in_time = (self.answer[ids] >= 0) & (True if patience is None else ids >= self.told[ids] - patience)
        overdue = ids < self.settled if patience is None else ids < done - patience
        need((in_time | overdue).all(), "a round enters before it is answered, or its patience is over")
        epochs, covered, rewarded = (
            self.columns["decisions.epochs"][ids],
            self.columns["decisions.covered"][ids],
            in_time.copy(),
        )
        rewarded[in_time] = self.columns["answers.rewards"][self.answer[ids[in_time]]].any(axis=1)
        self.front, self.missing = (
            front,
            self.missing + int((self.unanswered[ids] if self.of_service else ~in_time).sum()),
        )
        for k in np.unique(epochs).tolist():
            self.n_in[k] += int((epochs == k).sum())
            if k >= self.since:
                self.enter(k, ids[(epochs == k) & covered & rewarded], int(((epochs == k) & ~covered).sum()))

    def enter(self, k: int, ids: Array, n_uncovered: int) -> None:
        """Bets of a plan on rewarded rounds, and on rounds without floors, in which D is ρ."""
        plan = self.plans[k]
        need("winner" not in plan, "rounds count that were shown when all was known")
        stakes, at = plan["stakes"], plan["place"]
        logs = np.log1p(-stakes * self.rho) * n_uncovered if n_uncovered else np.zeros(stakes.shape)
        logs[at] = 0.0
        for part in np.array_split(ids, 1 + len(ids) * stakes.size * self.m // CELLS):
            lists = self.lists_of(k, part)[:, np.searchsorted(plan["asked"], plan["candidates"])]
            shown, q, arms = (self.columns[f"decisions.{name}"][part] for name in ("lists", "propensities", "arms"))
            X = worth(plan, self.problem, lists, shown, q, arms, self.columns["answers.rewards"][self.answer[part]])
            D = X - X[:, at, None]
            need(D.max(initial=0.0) <= plan["bound"] * (1 + 1e-9), f"a round of plan {k} brings more than its bound")
            logs = logs + np.log1p(-stakes * D[:, :, None]).sum(axis=0)
        self.wealth.setdefault(plan["leader"], np.zeros((len(self.present), 3)))[plan["candidates"]] += logs

    def lists_of(self, k: int, ids: Array) -> Array:
        """The candidates' lists of some decisions of plan k, as far as they are in the chain."""
        known = self.columns.get(f"lists.{k}.ids", np.empty(0, np.int64))[: self.rows.get(f"lists.{k}", 0)]
        if len(ids) == 0:
            return np.empty((0, len(self.plans[k]["asked"]), self.m), np.int32)
        order = np.argsort(known, kind="stable")
        where = order[np.searchsorted(known[order], ids).clip(max=len(known) - 1)] if len(known) else order
        need(len(where) and (known[where] == ids).all(), f"plan {k}: a round lacks the candidates' lists")
        return self.columns[f"lists.{k}.lists"][where]

    def total(self) -> Array:
        """Log-wealths (P, 3) at μ = 0: of leaders who are gone, where that is less."""
        parts = (part if self.present[one] else np.minimum(part, 0.0) for one, part in self.wealth.items())
        return np.asarray(sum(parts, np.zeros((len(self.present), 3))))

    def enough(self) -> Array:
        """The log-evidence that suffices against each."""
        k, P = self.stretch, len(self.present)
        delta = self.spec["delta"] * (1.0 if self.spec["recent"] is None else (2 * k + 1) / (k * (k + 1)) ** 2)
        if not self.spec["open_field"]:
            return np.full(P, -np.log(delta))
        levels = delta / np.array([2.0, *(4.0 * w * (w + 1) for w in range(1, P + 2))])
        counted, w = log_mean(self.total())[self.chosen & (self.number == 0)], 0
        while (counted < -np.log(levels[w])).sum() > w:
            w += 1
        return np.asarray(-np.log(np.where(self.number > 0, levels[self.number], levels[w])))

    def check_draws(self, report: Report) -> None:
        """Lists, propensities and floors must be as the plan has them, where the candidates' lists are here."""
        n, elsewhere, unknown, checked, epochs = len(self.told), 0, set(), 0, self.columns["decisions.epochs"]
        for k, plan in enumerate(self.plans):
            A, none = len(plan["asked"]), np.empty(0, "<i8")
            ids, lists = (
                self.columns.get(f"lists.{k}.ids", none),
                self.columns.get(f"lists.{k}.lists", np.empty((0, A, self.m), "<i4")),
            )
            need(ids.dtype == none.dtype and lists.dtype == np.dtype("<i4"), f"plan {k}: lists have another type")
            need(
                lists.shape == (len(ids), A, self.m) == (len(np.unique(ids)), A, self.m),
                f"plan {k}: lists have another shape",
            )
            need(
                ((ids >= 0) & (ids < n)).all() and (epochs[ids] == k).all(), f"plan {k}: lists are not of its decisions"
            )
            need((lists >= -1).all() and (lists < self.problem["n_actions"]).all(), "a list holds what is no item")
            for rows in np.array_split(np.arange(len(ids)), 1 + len(ids) * A * self.m**2 // CELLS) if len(ids) else ():
                part, law = ids[rows], law_of(plan, self.problem, lists[rows])
                if law is None:
                    unknown.add(plan["explorer"]["kind"])
                    continue
                row = {
                    name: self.columns[f"decisions.{name}"][part]
                    for name in ("lists", "propensities", "covered", "arms")
                }
                covered, propensities, draw, width = law
                need((covered == row["covered"]).all(), f"plan {k}: covered is not as the candidates' lists have it")
                same = np.allclose(propensities(row["lists"]), row["propensities"], rtol=CLOSE, atol=0)
                need(same, f"plan {k}: propensities do not follow from the plan")
                if self.of_service:
                    texts = self.requests[f"lists.{k}.requests"]
                    u = numbers_of_requests(self.secret, [texts[i] for i in rows.tolist()])
                else:
                    u = numbers_of(self.secret, part, width)[:, 1:]
                right = self.columns["decisions.elsewhere"][part]
                elsewhere, checked = elsewhere + int(right.sum()), checked + int((~right).sum())
                for step in (0.0, 1e-9, -1e-9):  # another rounding of a sum may decide on which side a number is
                    drawn, arms = draw(np.where(np.arange(width) == 0, np.clip(u + step, 0.0, 1 - 1e-16), u))
                    if self.empty_last:
                        drawn = np.take_along_axis(drawn, np.argsort(drawn < 0, axis=1, kind="stable"), 1)
                    right = right | ((drawn == row["lists"]).all(axis=1) & (arms == row["arms"]))
                need(right.all(), f"plan {k}: a list is not the one that the seed draws")
        must = np.flatnonzero(numbers_of(self.secret, np.arange(n), 0)[:, 0] < self.spec["audited"])
        if self.of_service:
            must, period = must[must < self.front], self.spec["period"]
            need((epochs == epochs[np.arange(n) // period * period]).all(), "a period is drawn by several plans")
        for k in np.unique(epochs[must]).tolist():
            self.lists_of(k, must[epochs[must] == k])
        report.checked.append(f"{checked:,} of {n:,} lists are what the seed draws, with their propensities")
        report.not_checked.append("the other lists; of them counts how many they are, and whether floors held")
        if elsewhere:
            report.not_checked.append(f"the draw of {elsewhere:,} lists by another process (propensities are checked)")
        report.not_checked += [f"draws and propensities of {kind!r}: not recomputed here" for kind in sorted(unknown)]


def log_mean(logs: Array) -> Array:
    """The logarithm of the mean wealth of a candidate's three bets."""
    return np.asarray(np.logaddexp.reduce(logs, axis=-1) - np.log(logs.shape[-1]))


def check(path: str, heads: list[str], report: Report) -> None:
    """All of it; refusals are raised."""
    with zipfile.ZipFile(path) as file:
        entries = file.infolist()
        need(len({one.filename for one in entries}) == len(entries), "a part is there twice")
        need(sum(one.file_size for one in entries) <= MOST_BYTES, "it unpacks to more than 8 GB")
        parts = {one.filename: file.read(one) for one in entries if one.filename != "verify.py"}
    about, chain = json.loads(parts.pop("bundle.json"), parse_constant=no_number), parts.pop("chain.jsonl").decode()
    need(
        about["format"] == "comband certificate" and about["version"] in (1, 2),
        "it is no certificate of version 1 or 2",
    )
    columns = {name[:-4]: read_array(parts.pop(name), name) for name in list(parts) if name.endswith(".npy")}
    need(chain.endswith("\n"), "the chain ends within a record")
    records, hashes = [], ["0" * 64]
    for line in chain[:-1].split("\n"):
        records.append(json.loads(line, parse_constant=no_number))
        need(records[-1]["before"] == hashes[-1], f"the chain is broken at record {len(records) - 1}")
        hashes.append(sha256(line.encode()).hexdigest())
    need(hashes[-1] == about["head"], "the chain does not end with the head that is stated")
    need(all(head in hashes[1:] for head in heads), "a published head is not in the chain: it was changed afterwards")
    n_policies = len(records[0]["candidates"]) + sum(len(one.get("arrivals", ())) for one in records[1:])
    requests = {name[:-5]: json.loads(parts.pop(name)) for name in list(parts) if name.endswith(".requests.json")}
    run, claim, unknown = Experiment(about, columns, requests, records[0], n_policies), about["claim"], sorted(parts)
    taken = [run.rounds, run.failed, run.guards, run.plan, run.change, run.dropped, run.claim]
    verbs: dict[str, Any] = {
        one.__name__: one for one in [*taken, *([run.decisions, run.end] if run.of_service else [])]
    }
    for one in records[1:]:
        need(one["kind"] != "begin", "the chain begins twice")
        need(not run.ended, "the chain goes on after its end")
        if one["kind"] in verbs:
            verbs[one["kind"]](**one)
        else:
            unknown.append(f"records of the kind {one['kind']!r}")
    for name, column in columns.items():
        need(run.rows.get(name.rpartition(".")[0], 0) == len(column), f"{name} has rows that are not in the chain")
    run.advance(claim["rounds"])
    run.check_draws(report)
    need((claim["leader"], claim["epsilon"]) in run.claims, "what is claimed is not what the chain shows at its end")
    patience, ids = run.spec["patience"], np.flatnonzero(run.answer >= 0)
    late = 0 if patience is None else int((ids < run.told[ids] - patience).sum())
    found = {"name": run.names[claim["leader"]], "delta": min(run.spec["delta"] * run.fields, 1.0), "late": late}
    found |= {"decisions": len(run.told), "missing": run.missing, "warnings": run.warnings}
    for name, value in found.items():
        need(claim[name] == value, f"{name} is stated as {claim[name]!r}, and is {value!r}")
    stated = [name for name, value in [*run.spec.items(), *run.problem.items()] if value not in (None, [])]
    named = [*about, *claim, *stated, *(name for name in columns if not name.startswith("lists."))]
    unknown += [name for name in named if name not in {*KNOWN.split(), *TYPES}]
    report.checked.append(
        f"a chain of {len(records):,} records: plans stand before their decisions, stakes within bounds"
    )
    report.checked.append(
        f"the evidence of {run.front:,} rounds; {late:,} late answers count as missing ({run.missing:,})"
    )
    report.checked += [f"published head {head[:12]}… is record {hashes.index(head) - 1} of the chain" for head in heads]
    need(len(run.digests) == len(run.names), "digests are not as many as candidates")
    known = [f"{one} is {digest}" for one, digest in zip(run.names, run.digests, strict=True) if digest is not None]
    if known:
        report.checked.append(f"digests of {len(known)} candidates stand in the chain: {'; '.join(known[:20])}")
    if not heads:
        report.not_checked.append("when all this was written: without a published head it may be of one piece")
    report.not_checked += TRUSTED + [f"unknown part: {name}" for name in unknown]
    report.warnings += run.warnings
    if run.spec["epsilon"] is not None and claim["epsilon"] > run.spec["epsilon"]:
        report.warnings.append(f"ε = {run.spec['epsilon']:g}, which was aimed for, is not reached")
    report.claim = (
        f"no candidate's value exceeds that of {claim['name']!r} by more than ε = {claim['epsilon']:.6g}, with "
    )
    report.claim += f"probability 1 − δ = {1 - claim['delta']:.6g}"


def verify(path: str, heads: list[str] | None = None) -> Report:
    """Check a certificate; heads are those that were published."""
    report = Report()
    try:
        check(path, heads or [], report)
        report.verified = True
    except RefusedError as error:
        report.reason = str(error)
    except Exception as error:  # whatever is not as the format says
        report.reason = f"it is not as the format says ({type(error).__name__}: {str(error)[:200]})"
    return report


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Check a certificate.")
    parser.add_argument("certificate")
    parser.add_argument("--head", action="append", default=[], help="a head of the chain that was published")
    given = parser.parse_args()
    report = verify(given.certificate, given.head)
    print("\n".join(report.lines()))
    return 0 if report.verified else 1


if __name__ == "__main__":
    sys.exit(main())
