"""A second program that checks certificates, after docs/certificate_format.md alone: one decision at a time, by plain
arithmetic. It is slow, and shares nothing with the one that is shipped but the page.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from typing import Any

import numpy as np

Json = dict[str, Any]
TIGHT, EDGE = 1e-6, 1e-9
WORD = (1 << 64) - 1


class WrongError(Exception):
    """What the page says does not hold."""


def must(condition: Any, words: str) -> None:
    """Stop where something does not hold."""
    if not condition:
        raise WrongError(words)


# ---- random numbers --------------------------------------------------------------------------------------------------


def number(word: int) -> float:
    """The upper 53 bits times 2⁻⁵³."""
    return float((word >> 11) * 2.0**-53)


def words_of_decision(seed: bytes, i: int, n: int) -> list[float]:
    """The numbers of words 0 … n − 1 of decision i."""
    found: list[float] = []
    while len(found) < n:
        salt = (len(found) // 8).to_bytes(8, "little")
        made = hashlib.blake2b(str(i).encode(), digest_size=64, key=seed, person=b"comband numbers", salt=salt).digest()
        found += [number(int.from_bytes(made[8 * j : 8 * j + 8], "little")) for j in range(8)]
    return found[:n]


def words_of_request(seed: bytes, request: str) -> list[float]:
    """u₁ and u₂ of a request of the service."""
    made = hashlib.blake2b(request.encode(), digest_size=16, key=seed).digest()
    return [number(int.from_bytes(made[8 * j : 8 * j + 8], "little")) for j in range(2)]


def shuffled(items: list[int], u: float) -> list[int]:
    """A list in the order of a number."""
    items, state = list(items), math.floor(u * 2**53)
    for k in range(len(items) - 1, 0, -1):
        state = z = (state + 0x9E3779B97F4A7C15) & WORD
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        other = math.floor(number(z ^ (z >> 31)) * (k + 1))
        items[k], items[other] = items[other], items[k]
    return items


def uniform(numbers: list[float], n_items: int) -> list[int]:
    """A uniform list of as many items as there are numbers."""
    taken: list[int] = []
    for k, v in enumerate(numbers):
        y = math.floor(v * (n_items - len(numbers) + k + 1))
        taken.append(n_items - len(numbers) + k if y in taken else y)
    return taken


def cell(p: list[float], u: float) -> int:
    """In whose cell of cumulated p a number falls."""
    total = 0.0
    for i, share in enumerate(p):
        total += share
        if u < total:
            return i
    return len(p) - 1


# ---- laws: (covered, propensity of an item in a place, draw) ---------------------------------------------------------


class Law:
    """How one decision is drawn: its plan, and the lists of those whom it asks."""

    def __init__(self, plan: Json, problem: Json, lists: list[list[int]]) -> None:
        self.explorer, self.kind = plan["explorer"], plan["explorer"]["kind"]
        self.m, self.K, self.pairs = problem["list_size"], problem["n_actions"], problem["places"] == "pairs"
        self.lists, self.by_number = lists, dict(zip(plan["asked"], lists, strict=True))
        self.covered, self.width = True, 2
        if self.kind in ("disagreement", "examination", "midzuno"):
            self._design(problem)
        elif self.kind in ("mixture", "examined mixture"):
            self.explorer, self.width = self.explorer.get("mixture", self.explorer), 2 + self.m
        elif self.kind in ("arms", "whole lists", "own lists"):
            self.width = 1

    def _design(self, problem: Json) -> None:
        explorer, lists, m, S = self.explorer, self.lists, self.m, len(self.lists)
        leader = explorer["leader"]
        alpha = [0.0 if j == leader else float(a) for j, a in enumerate(explorer["attention"])]
        total = sum(alpha)
        alpha = [a / total if total > 0 else (j != leader) / max(S - 1, 1) for j, a in enumerate(alpha)]
        of_place = problem["places"] if self.kind == "examination" else [1.0] * m
        phi = explorer["smallest_first" if self.kind == "midzuno" else "smallest_disputed"]
        self.union = list(dict.fromkeys(y for one in lists for y in one if y >= 0))
        weights, lows = [], []
        for y in self.union:
            theta = [of_place[one.index(y)] if y in one else 0.0 for one in lists]
            listing = [y in one for one in lists]
            votes, mine = sum(listing), theta[leader]
            care = sum(alpha[j] * theta[j] * (theta[j] - 2 * mine) for j in range(S) if listing[j])
            care = max(care + mine**2 * sum(alpha), 1e-9)
            gain, loss = max(theta) - mine, max(mine - (min(theta) if votes == S else 0.0), 0.0)
            w = math.sqrt(care * (votes / S + 0.01))
            if self.kind == "examination":
                low = m / sum(of_place) * max(phi * gain, min(0.6 * phi, 1) * loss, min(0.05, phi) * max(theta))
                w = w if gain > 0 or loss > 0 else 1e-9
            elif votes == S:
                low, w = (min(0.05 / m, phi), 0.0) if self.kind == "midzuno" else (min(0.05, phi), 1e-9)
            elif listing[leader]:
                low = 0.3 * phi if self.kind == "midzuno" else min(0.6 * phi, 1)
            else:
                low = phi
            weights.append(w)
            lows.append(low)
        if self.kind == "midzuno":
            self.covered, self.width = sum(lows) <= 1, 1 + 2 * m
            if sum(lows) > 1 or sum(weights) == 0:
                self.q = [low / sum(lows) for low in lows]
            else:
                rest = (1 - sum(lows)) / sum(weights)
                self.q = [low + rest * w for low, w in zip(lows, weights, strict=True)]
            return
        worst = max(sum(lows) / m, max(lows) if self.kind == "examination" else 0.0)
        self.covered = worst <= 1
        lows = [low / max(worst, 1.0) for low in lows]
        self.q = [1.0] * len(lows) if len(lows) <= m else self._clipped(weights, lows)
        self.own = [
            kappa if min(one) >= 0 else 0.0 for kappa, one in zip(explorer.get("own", [0.0] * S), lists, strict=True)
        ]

    def _clipped(self, weights: list[float], lows: list[float]) -> list[float]:
        below, above = -60.0, 60.0
        for _ in range(200):
            t = math.exp((below + above) / 2)
            q = [min(max(t * w, low), 1.0) for w, low in zip(weights, lows, strict=True)]
            below, above = (below, (below + above) / 2) if sum(q) > self.m else ((below + above) / 2, above)
        return q

    @property
    def shown(self) -> list[int]:
        """Who may be shown as a whole."""
        return list(self.explorer.get("shown", self.explorer["candidates"]))

    def propensity(self, y: int, place: int) -> float:
        """Of an item, in its place where that matters; 1 for an empty place."""
        if y < 0:
            return 1.0

        def listed(one: list[int]) -> bool:
            return one[place] == y if self.pairs else y in one

        if self.kind in ("arms", "whole lists", "own lists"):
            return sum(listed(self.by_number[j]) for j in self.shown) / len(self.shown)
        if self.kind in ("mixture", "examined mixture"):
            gamma = self.explorer["floor"]
            some = zip(self.explorer["support"], self.explorer["weights"], strict=True) if gamma < 1 else []
            share = sum(p for j, p in some if p > 0 and listed(self.by_number[j]))
            return float(min(gamma * (1 if self.pairs else self.m) / self.K + (1 - gamma) * share, 1.0))
        q = self.q[self.union.index(y)] if y in self.union else 0.0
        if self.kind == "midzuno":
            some = self.explorer["uniform"]
            q, f = (1 - some) * q + some / self.K, (self.m - 1) / max(self.K - 1, 1)
            return float(q + (1 - q) * f)
        whole = sum(kappa for kappa, one in zip(self.own, self.lists, strict=True) if y in one)
        return float((1 - sum(self.own)) * q + whole)

    def draw(self, u: list[float]) -> tuple[list[int], int]:
        """The list by u₁, u₂, …, and whose it is."""
        m, K = self.m, self.K
        if self.kind in ("arms", "whole lists", "own lists"):
            who = self.shown[min(math.floor(u[0] * len(self.shown)), len(self.shown) - 1)]
            return self.by_number[who], who if self.kind == "arms" else -1
        if self.kind in ("mixture", "examined mixture"):
            gamma = self.explorer["floor"]
            if u[0] < gamma or gamma == 1:
                return shuffled(uniform(u[1 : 1 + m], K), u[1 + m]), -1
            some = [(j, p) for j, p in zip(self.explorer["support"], self.explorer["weights"], strict=True) if p > 0]
            who = some[cell([p for _, p in some], (u[0] - gamma) / (1 - gamma))][0]
            found = self.by_number[who]
            return found if self.pairs else shuffled(found, u[1 + m]), -1
        if self.kind == "midzuno":
            some = self.explorer["uniform"]
            first = (
                min(math.floor(u[0] / some * K), K - 1)
                if u[0] < some
                else self.union[cell(self.q, (u[0] - some) / (1 - some))]
            )
            others = [y + (y >= first) for y in uniform(u[2 : 1 + m], K - 1)]
            ranked = sorted(range(m), key=lambda k: u[1 + m + k])
            return [[first, *others][k] for k in ranked], -1
        here = sum(self.own)
        if u[0] < here:
            found = self.lists[cell(self.own, u[0])]
        else:
            v, found, total = (u[0] - here) / (1 - here), [], 0.0
            for place, (y, q) in enumerate(zip(self.union, self.q, strict=True)):
                total += q
                left = len(self.union) - 1 - place
                wanted = min(len(self.union), m)
                if len(found) < wanted and (v + len(found) < total or left < wanted - len(found)):
                    found.append(y)
            found += [-1] * (m - len(found))
        return shuffled(found, u[1]), -1


# ---- what a round is worth -------------------------------------------------------------------------------------------


def worths(
    plan: Json, problem: Json, lists: list[list[int]], shown: list[int], Q: list[float], arm: int, r: list[float]
) -> list[float]:
    """X(π) of a rewarded round for each of the plan's candidates."""
    kind, m, places, T = plan["explorer"]["kind"], len(shown), problem["places"], sum(r)
    sets = [set(one) - {-1} for one in lists]
    mine = set(shown) - {-1}
    if kind == "arms":
        return [T * len(plan["explorer"]["shown"]) * (arm == j) for j in candidates_of(plan)]
    if kind == "midzuno":
        f = (m - 1) / max(problem["n_actions"] - 1, 1)
        return [T / m * len(one & mine) / (sum(Q) / m - f) for one in sets]
    if kind == "whole lists":
        share = sum(one == mine for one in sets) / len(sets)
        return [T / share if one == mine else 0.0 for one in sets]
    if kind == "own lists":
        overlaps = np.array([[len(a & b) for a in sets] for b in sets]) / len(sets)
        values, vectors = np.linalg.eigh(overlaps)
        kept = vectors[:, values > 1e-9 * values[-1]]
        k = next(i for i, one in enumerate(sets) if one == mine)
        return [float(x) for x in T * len(sets) * (kept @ kept.T)[:, k]]
    found = []
    for one in lists:
        x = 0.0
        for place, (y, q, reward) in enumerate(zip(shown, Q, r, strict=True)):
            if y < 0 or y not in one:
                continue
            if places == "pairs":
                x += reward / q if one[place] == y else 0.0
            else:
                x += reward / q * (1.0 if places is None else places[one.index(y)] / (sum(places) / m))
        found.append(x)
    return found


def candidates_of(plan: Json) -> list[int]:
    """Whom a plan compares."""
    explorer = plan["explorer"]
    return list(explorer.get("mixture", explorer)["candidates"])


# ---- the chain -------------------------------------------------------------------------------------------------------


def log_mean_exp(values: Any) -> float:
    """log of the mean of exp."""
    top = max(values)
    return float(top + math.log(sum(math.exp(v - top) for v in values) / len(values)))


WIDE = ("lists", "shown", "propensities", "rewards")  # m places


class Reader:
    """Reads one certificate from its first record to its last."""

    def __init__(self, about: Json, records: list[Json], columns: dict[str, Any], requests: dict[str, Any]) -> None:
        self.about, self.columns, self.requests, begin = about, columns, requests, records[0]
        must(begin["kind"] == "begin" and begin["format"] == about["version"], "it does not begin as it must")
        self.problem, self.spec, self.names = begin["problem"], begin["spec"], list(begin["candidates"])
        must(self.problem.get("order") in (None, "random"), "another order")
        self.seed, self.service = bytes.fromhex(about["seed"]), about["version"] == 2
        must(hashlib.sha256(b"comband seed" + self.seed).hexdigest() == begin["seed_hash"], "another seed")
        must(self.spec["audited"] > 0 and 0 < self.spec["delta"] < 1, "audited or delta")
        self.m, self.rho = self.problem["list_size"], self.problem["max_reward"]
        s = self.problem["sparsity"]
        must(self.rho == (self.m if s is None else min(s, self.m)) and self.rho > 0, "max_reward")
        target, K = self.spec["epsilon"], self.problem["n_actions"]
        must(
            type(K) is int and 0 < K < 1 << 31 and (target is None or type(target) in (int, float)),
            "n_actions or epsilon",
        )
        self.empty_last = self.service and begin["service"]["order"] == "empty places last"
        self.plans: list[Json] = []
        self.rows: dict[str, int] = {}
        self.epochs: list[int] = []
        self.covered: list[bool] = []
        self.answers: dict[int, tuple[int, int]] = {}  # decision: (told, row)
        self.failed_at: dict[int, int] = {}
        self.front = self.missing = self.last_told = self.settled = 0
        self.nothing: list[bool] = []
        self.here, self.out = set(range(len(self.names))), set[int]()
        self.claims: set[tuple[int, float]] = set()
        self.arrival: dict[int, int] = {}  # number i of an arrival that was not planned
        self.left: set[int] = set()  # withdrawn, not by plan
        self.changes, self.since, self.stretch = 0, 0, 1
        self.W: dict[int, dict[int, list[float]]] = {}  # by leader, by candidate
        self.counted: list[int] = []  # rounds of each plan
        self.warnings: list[str] = []
        self.n = len(columns["decisions.leaves" if self.service else "decisions.lists"])
        self._check_columns()
        self.lists = self._known_lists()
        for record in records[1:]:
            must(record["kind"] != "begin" and (not self.plans or self.plans[-1] is not None), "it begins twice")
            getattr(self, f"on_{record['kind']}", lambda record: None)(record)

    def _check_columns(self) -> None:
        """Names, types and shapes of the page."""
        kinds = {"lists": "i4", "shown": "i4", "propensities": "f8", "epochs": "i4", "covered": "?", "arms": "i4"}
        kinds |= {"elsewhere": "?", "ids": "i8", "told": "i8", "rewards": "f8", "leaves": "u1", "items": "u1"}
        tables: dict[str, set[int]] = {}
        for name, column in self.columns.items():
            table, _, what = name.rpartition(".")
            wide = [self.m] if what in WIDE else [32] if what in ("leaves", "items") else []
            if table.startswith("lists.") and what == "lists":
                wide = [column.shape[1] if column.ndim == 3 else -1, self.m]
            if what in kinds:
                must(column.dtype == np.dtype(kinds[what]) and list(column.shape[1:]) == wide, f"{name}: type or shape")
                tables.setdefault(table, set()).add(len(column))
        must(all(len(rows) == 1 for rows in tables.values()), "columns of one table differ in length")
        of_table = ["lists", "propensities", "epochs", "covered", "arms", "elsewhere"]
        needed = ["leaves"] if self.service else of_table
        must({f"decisions.{one}" for one in needed} <= set(self.columns), "columns of decisions are missing")
        if not self.service:
            must((self.columns["decisions.propensities"] > 0).all(), "propensities must be above 0")

    def _known_lists(self) -> dict[int, tuple[int, int]]:
        """By decision, the plan under which its candidates' lists are given, and the row there."""
        found = {}
        for name, ids in self.columns.items():
            if name.startswith("lists.") and name.endswith(".ids"):
                k = int(name.split(".")[1])
                lists = self.columns[f"lists.{k}.lists"]
                must((lists >= -1).all() and (lists < self.problem["n_actions"]).all(), "no items")
                for row, i in enumerate(ids.tolist()):
                    must(i not in found and 0 <= i < self.n, "lists of a decision twice, or of none")
                    found[i] = (k, row)
                    if self.service:
                        self._open(k, row, i)
        return found

    def _open(self, k: int, row: int, i: int) -> None:
        part = {name: self.columns[f"lists.{k}.{name}"][row] for name in ("shown", "propensities", "lists", "items")}
        text = b"".join(part[name].tobytes() for name in ("shown", "propensities", "lists", "items"))
        text += self.requests[f"lists.{k}.requests"][row].encode()
        must(hashlib.sha256(text).digest() == self.columns["decisions.leaves"][i].tobytes(), "a leaf")

    def fact(self, name: str, i: int) -> Any:
        """A column of the table of decisions."""
        if not self.service:
            return self.columns[f"decisions.{name}"][i]
        k, row = self.lists[i]
        return -1 if name == "arms" else self.columns[f"lists.{k}.{'shown' if name == 'lists' else name}"][row]

    def on_decisions(self, record: Json) -> None:
        """Decisions of a service."""
        must(self.service, "records of another version")
        first, n = len(self.epochs), record["n"]
        part = self.columns["decisions.leaves"][first : first + n]
        must(len(part) == n > 0, "leaves are missing")
        must(hashlib.sha256(part.tobytes()).hexdigest() == record["leaves"], "leaves differ")
        must(0 <= record["epoch"] < len(self.plans), "no such plan")
        self.epochs += [record["epoch"]] * n
        self.covered += [i not in record["uncovered"] for i in range(n)]

    def on_rounds(self, record: Json) -> None:
        """Rows of tables."""
        for table, n in record["rows"].items():
            first, names = self.rows.get(table, 0), [c for c in self.columns if c.rpartition(".")[0] == table]
            must(not self.service or table == "answers", "a table of another version")
            must(set(names) == {c for c in record["columns"] if c.rpartition(".")[0] == table}, "other columns")
            for name in names:
                part = np.ascontiguousarray(self.columns[name][first : first + n])
                must(len(part) == n, "rows are missing")
                must(hashlib.sha256(part.tobytes()).hexdigest() == record["columns"][name], "rows differ")
            self.rows[table] = first + n
            if table == "decisions":
                for i in range(first, first + n):
                    k = int(self.columns["decisions.epochs"][i])
                    must(0 <= k < len(self.plans), "no such plan")
                    self.epochs.append(k)
                    self.covered.append(bool(self.columns["decisions.covered"][i]))
        if "answers" in record["rows"]:
            for row in range(self.rows["answers"] - record["rows"]["answers"], self.rows["answers"]):
                i, told = (int(self.columns[f"answers.{name}"][row]) for name in ("ids", "told"))
                r = self.columns["answers.rewards"][row]
                must(0 <= i < told <= len(self.epochs) and i not in self.answers, "an answer to nothing, or twice")
                must(told >= self.last_told, "answers out of order")
                must((r >= 0).all() and r.sum() <= self.rho * (1 + 1e-9), "a reward")
                must(not self.service or self.settled <= i < record["settled"], "an answer that is not settled")
                self.answers[i], self.last_told = (told, row), told
        if self.service:
            n = record["settled"] - self.settled
            must(n >= 0 and record["settled"] <= len(self.epochs), "settled before it is decided")
            bits = "".join(f"{byte:08b}" for byte in bytes.fromhex(record["unanswered"]))
            must(len(bits) >= n, "bits are missing")
            self.nothing += [bit == "1" for bit in bits[:n]]
            self.settled = record["settled"]
            must(not any(self.nothing[i] for i in self.answers), "answered, and not")

    def on_failed(self, record: Json) -> None:
        """Answers that had to be told again."""
        must(not self.service and 0 <= record["told"] <= len(self.epochs), "a failure of nothing")
        for i in record["ids"]:
            must(0 <= i < record["told"], "a failure of nothing")
            self.failed_at.setdefault(i, record["told"])

    def on_guards(self, record: Json) -> None:
        """Warnings."""
        self.warnings = record["warnings"]

    def on_plan(self, record: Json) -> None:
        """A plan."""
        k = record["epoch"]
        last = len(self.plans) - 1
        must(k == last + 1 or (0 <= k == last and k not in self.epochs), "plans do not follow each other")
        if "winner" in record:
            must(self.service, "a plan of another version")
        else:
            C, levels = candidates_of(record), record["levels"]
            must(len(levels) == len(C) and all(len(one) == 3 for one in levels), "stakes")
            must(all(type(v) is int and 0 <= v <= 126 for one in levels for v in one), "stakes")
            unit = min(1.0, self.rho)
            record["stakes"] = [[0.0 if v == 126 else 2 ** (-v / 3) / unit for v in one] for one in levels]
            must(record["bound"] > 0 and max(map(max, record["stakes"])) * record["bound"] < 1, "stakes")
            must(sorted(set(C)) == C and set(C) <= self.here and set(C) <= set(record["asked"]), "candidates")
            must(record["leader"] in C, "the leader")
            must(record["explorer"].get("leader", C.index(record["leader"])) == C.index(record["leader"]), "the leader")
            must(record["first_id"] == len(self.epochs), "it stands before other decisions")
            must(self.service or len(self.epochs) % self.spec["period"] == 0, "within a period")
            if record["restart"]:
                must(self.spec["recent"] is not None, "a restart that was not declared")
                self.since, self.stretch, self.W, self.out, self.claims = k, self.stretch + 1, {}, set(), set()
        self.plans[k:], self.counted[k:] = [record], [0]

    def on_change(self, record: Json) -> None:
        """Candidates come and go."""
        planned, gone = record["planned"], set(record["withdrawn"])
        must(planned is True or self.spec["open_field"], "a change that was not declared")
        must(gone <= self.here, "who is withdrawn")
        self.enter_to(record["rounds"])
        first = len(self.names)
        self.names += record["arrivals"]
        new = range(first, len(self.names))
        self.here = (self.here | set(new)) - gone
        self.changes += planned
        self.claims = set()
        if not planned:
            self.left |= gone
            for i in new:
                self.arrival[i] = len(self.arrival) + 1
        self.out = {i for i in self.out if i in self.here and self.against(i) >= self.level(i) - TIGHT}
        if self.out >= self.here:
            self.out = set()

    def on_dropped(self, record: Json) -> None:
        """Someone is out."""
        self.enter_to(record["rounds"])
        i = record["candidate"]
        must(i in self.here and self.against(i) >= self.level(i) - TIGHT, "dropped without evidence")
        self.out.add(i)

    def on_claim(self, record: Json) -> None:
        """Someone is certified."""
        self.enter_to(record["rounds"])
        leader, epsilon = record["leader"], record["epsilon"]
        must(leader in self.here and epsilon >= 0, "who is certified")
        for i in self.here - {leader} - self.out:
            must(epsilon >= self.rho or self.beyond(i, leader, epsilon) >= self.level(i) - TIGHT, "not shown")
        self.claims.add((leader, epsilon))

    # ---- evidence ----------------------------------------------------------------------------------------------------

    def is_in_time(self, i: int) -> bool:
        """Whether decision i is answered in time."""
        if i not in self.answers:
            return False
        patience, told = self.spec["patience"], min(self.answers[i][0], self.failed_at.get(i, WORD))
        return patience is None or i >= told - patience

    def enter_to(self, n: int) -> None:
        """The first n decisions count."""
        patience, D = self.spec["patience"], len(self.epochs)
        must(self.front <= n <= D and n % self.spec["period"] == 0, "rounds out of order")
        for i in range(self.front, n):
            if self.service:
                must(i < self.settled, "a round that is not settled")
            else:
                must(self.is_in_time(i) or (patience is not None and i < D - patience), "a round that still waits")
            self.missing += self.nothing[i] if self.service else not self.is_in_time(i)
            k = self.epochs[i]
            must("winner" not in self.plans[k], "a round after all was known")
            self.counted[k] += 1
            if k >= self.since:
                self._enter(i, self.plans[k])
        self.front = n

    def _enter(self, i: int, plan: Json) -> None:
        C, at = candidates_of(plan), candidates_of(plan).index(plan["leader"])
        if not self.covered[i]:
            D = [0.0 if j == at else self.rho for j in range(len(C))]
        elif self.is_in_time(i) and self.columns["answers.rewards"][self.answers[i][1]].any():
            must(i in self.lists and self.lists[i][0] == self.epochs[i], "lists are missing")
            k, row = self.lists[i]
            given = dict(zip(plan["asked"], self.columns[f"lists.{k}.lists"][row].tolist(), strict=True))
            shown, Q = self.fact("lists", i).tolist(), self.fact("propensities", i).tolist()
            r = self.columns["answers.rewards"][self.answers[i][1]].tolist()
            X = worths(plan, self.problem, [given[j] for j in C], shown, Q, int(self.fact("arms", i)), r)
            D = [x - X[at] for x in X]
            must(max(D) <= plan["bound"] * (1 + 1e-9), "more than the bound")
        else:
            return
        W = self.W.setdefault(plan["leader"], {})
        for j, d, stakes in zip(C, D, plan["stakes"], strict=True):
            mine = W.setdefault(j, [0.0, 0.0, 0.0])
            for b in range(3):
                mine[b] += math.log1p(-stakes[b] * d)

    def _wealth(self, i: int) -> list[float]:
        total = [0.0, 0.0, 0.0]
        for leader, of in self.W.items():
            for b, w in enumerate(of.get(i, [0.0, 0.0, 0.0])):
                total[b] += w if leader in self.here else min(w, 0.0)
        return total

    def against(self, i: int) -> float:
        """The evidence against i."""
        return log_mean_exp(self._wealth(i))

    def beyond(self, i: int, leader: int, mu: float) -> float:
        """The evidence against "i exceeds the leader by more than μ"."""
        total = self._wealth(i)
        for k in range(self.since, len(self.plans)):
            plan = self.plans[k]
            if self.counted[k] and plan["leader"] == leader and i in candidates_of(plan):
                for b, stake in enumerate(plan["stakes"][candidates_of(plan).index(i)]):
                    total[b] -= self.counted[k] * math.log1p(-min(stake * mu, 1 - 1e-16))
        return log_mean_exp(total)

    def level(self, i: int) -> float:
        """The log-evidence that suffices against i."""
        k, delta = self.stretch, self.spec["delta"]
        if self.spec["recent"] is not None:
            delta *= 1 / k**2 - 1 / (k + 1) ** 2
        if not self.spec["open_field"]:
            return -math.log(delta)
        if i in self.arrival:
            n = self.arrival[i]
            return -math.log(delta / (4 * n * (n + 1)))
        found = [self.against(j) for j in self.left - set(self.arrival)]
        w = 0
        while True:
            b = delta / 2 if w == 0 else delta / (4 * w * (w + 1))
            if sum(one < -math.log(b) for one in found) <= w:
                return -math.log(b)
            w += 1

    # ---- draws -------------------------------------------------------------------------------------------------------

    def check_draws(self) -> set[str]:
        """Lists and propensities are those of the plan and the seed; the kinds that are not known here."""
        unknown = set()
        for i, (k, row) in self.lists.items():
            plan = self.plans[k]
            must(self.epochs[i] == k and "winner" not in plan, "lists of another plan")
            if plan["explorer"]["kind"] == "pairs":
                unknown.add("pairs")
                continue
            law = Law(plan, self.problem, self.columns[f"lists.{k}.lists"][row].tolist())
            shown, Q = self.fact("lists", i).tolist(), self.fact("propensities", i).tolist()
            must(law.covered == self.covered[i], "covered")
            for place, (y, q) in enumerate(zip(shown, Q, strict=True)):
                must(abs(law.propensity(y, place) - q) <= TIGHT * q, "a propensity")
            if not self.service and self.columns["decisions.elsewhere"][i]:
                continue
            u = (
                words_of_request(self.seed, self.requests[f"lists.{k}.requests"][row])
                if self.service
                else words_of_decision(self.seed, i, 1 + law.width)[1:]
            )
            found = []
            for step in (0.0, EDGE, -EDGE):
                drawn, arm = law.draw([min(max(u[0] + step, 0.0), 1 - 1e-16), *u[1:]])
                drawn = sorted(drawn, key=lambda y: y < 0) if self.empty_last else drawn
                found.append((drawn, arm) == (shown, int(self.fact("arms", i))))
            must(any(found), "a list that the seed does not draw")
        for i in range(self.front if self.service else self.n):
            if words_of_decision(self.seed, i, 1)[0] < self.spec["audited"]:
                must(i in self.lists, "the sample is not whole")
        if self.service:
            period = self.spec["period"]
            must(all(k == self.epochs[i // period * period] for i, k in enumerate(self.epochs)), "a period in parts")
        return unknown


def read(path: str, heads: list[str]) -> Reader:
    """A certificate, checked; `WrongError`, or whatever fails, if it is not right."""
    with zipfile.ZipFile(path) as file:
        names = [one.filename for one in file.infolist()]
        must(len(names) == len(set(names)) and sum(one.file_size for one in file.infolist()) < 1 << 33, "parts")
        parts = {name: file.read(name) for name in names if name != "verify.py"}
    about = json.loads(parts["bundle.json"], parse_constant=refuse)
    must(about["format"] == "comband certificate" and about["version"] in (1, 2), "the version")
    must(parts["chain.jsonl"].endswith(b"\n"), "the last line")
    records, hashes, before = [], [], "0" * 64
    for line in parts["chain.jsonl"][:-1].split(b"\n"):
        records.append(json.loads(line, parse_constant=refuse))
        must(records[-1]["before"] == before, "the chain")
        before = hashlib.sha256(line).hexdigest()
        hashes.append(before)
    must(before == about["head"] and set(heads) <= set(hashes), "the head")
    must(all(one["kind"] != "end" for one in records[:-1]), "something after the end")
    columns = {name[:-4]: array(data) for name, data in parts.items() if name.endswith(".npy")}
    requests = {name[:-5]: json.loads(data) for name, data in parts.items() if name.endswith(".requests.json")}
    found, claim = Reader(about, records, columns, requests), about["claim"]
    tables = ["answers"] if found.service else {name.rpartition(".")[0] for name in columns}
    for table in tables:
        for name in (one for one in columns if one.rpartition(".")[0] == table):
            must(len(columns[name]) == found.rows.get(table, 0), "rows outside of the chain")
    must(len(found.epochs) == found.n, "decisions outside of the chain")
    found.enter_to(claim["rounds"])
    found.check_draws()
    must((claim["leader"], claim["epsilon"]) in found.claims, "the claim")
    late = sum(not found.is_in_time(i) for i in found.answers)
    must(claim["name"] == found.names[claim["leader"]] and claim["missing"] == found.missing, "name or missing")
    must(claim["delta"] == min(found.spec["delta"] * (1 + found.changes), 1.0), "delta")
    must((claim["decisions"], claim["late"], claim["warnings"]) == (found.n, late, found.warnings), "what is stated")
    return found


def array(data: bytes) -> Any:
    """A column of finite numbers."""
    column = np.load(io.BytesIO(data), allow_pickle=False)
    must(column.dtype.kind in "iufb" and (column.dtype.kind != "f" or np.isfinite(column).all()), "numbers")
    kinds = ("<i4", "<f8", "<i8", "|b1", "|u1")
    must(any(column.dtype == np.dtype(kind) for kind in kinds), "numbers of another type")
    return column


def refuse(word: str) -> None:
    """NaN and infinities are no numbers."""
    raise WrongError(word)


def verdict(path: str, heads: list[str] | None = None) -> tuple[bool, str]:
    """Whether a certificate is right, and why not."""
    try:
        read(path, heads or [])
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"
    return True, ""
