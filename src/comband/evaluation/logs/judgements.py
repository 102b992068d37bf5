"""Judgements of documents (qrels) as scores of candidates, known before anything is shown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comband.evaluation.logs.candidates import CandidateLists, need_contexts
from comband.evaluation.logs.faults import LogError
from comband.evaluation.logs.raw_files import check_file
from comband.evaluation.logs.runs import DOCUMENT, QUERY, fields_of, one_of
from comband.page.frames import Tabular, as_table, is_frame
from comband.page.problem import InputError, check_number

_LABEL = ("label", "relevance", "rel", "score", "judgement", "judgment")


@dataclass(frozen=True, eq=False, slots=True)
class JudgedScores(Tabular):
    """What judgements say of candidates, for `AdaptiveComband(prior_scores=…, prior_error=…)` and `comband plan`.

    names:
        Those of the candidates.
    scores:
        (P,) the mean over judged queries of what the judged documents of a list are worth.
    standard_errors:
        (P,) of the difference between a candidate's score and the mean of all: what all have in common does not matter.
    queries:
        How many queries are judged.

    `error` is one number for all, the root of the mean square of their standard errors: `prior_error`.

    >>> from comband.evaluation.logs import judged_scores, read_candidates
    >>> runs = {"old": {"q1": {"a": 2.0}, "q2": {"c": 1.0}}, "new": {"q1": {"b": 2.0}, "q2": {"d": 1.0}}}
    >>> told = judged_scores(read_candidates(runs, list_size=1), {"q1": {"b": 1}, "q2": {"c": 1}})
    >>> told.queries, told.error
    (2, 0.5)
    """

    names: tuple[str, ...]
    scores: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    queries: int

    @property
    def error(self) -> float:
        """The standard error of one score, beyond what all have in common."""
        return float(np.sqrt(np.square(self.standard_errors).mean()))

    def columns(self) -> dict[str, list[Any]]:
        """One row per candidate."""
        return {
            "candidate": list(self.names),
            "score": self.scores.tolist(),
            "standard_error": self.standard_errors.tolist(),
        }


def judged_scores(
    candidates: CandidateLists, judgements: Any, *, worth: Mapping[int, float] | None = None
) -> JudgedScores:
    """Scores of candidates by judgements of documents, in units of reward per round.

    The score of a list is the sum of what its documents are worth; one that was not judged is worth nothing. Queries
    without a judgement are left out.

    Parameters
    ----------
    candidates:
        What `read_candidates` gave.
    judgements:
        A TREC qrels file (`query 0 document grade`), a data frame (PyTerrier's `qid`, `docno`, `label`), a `ranx.Qrels`
        or {query: {document: grade}}.
    worth:
        {grade: reward that a document of that grade brings}, as a click chance; a share of the highest grade otherwise.

    >>> from comband.evaluation.logs import judged_scores, read_candidates
    >>> runs = {"old": {"q1": {"a": 2.0, "b": 1.0}, "q2": {"c": 1.0}}, "new": {"q1": {"b": 2.0}, "q2": {"d": 1.0}}}
    >>> lists = read_candidates(runs, list_size=1)
    >>> told = judged_scores(lists, {"q1": {"b": 1}, "q2": {"c": 2, "d": 0}})
    >>> dict(zip(told.names, told.scores.tolist()))
    {'old': 0.5, 'new': 0.25}
    """
    if not isinstance(candidates, CandidateLists):
        raise InputError(f"candidates must be what read_candidates gave, got {type(candidates).__name__}.")
    grades = _grades(judgements)
    if not grades:
        raise LogError("the judgements name no document.")
    largest = max(grade for documents in grades.values() for grade in documents.values())
    if worth is None and largest <= 0:
        raise LogError("no document is judged to be worth anything: every grade is 0 or below.")
    values = {grade: check_number(f"the worth of {grade}", one) for grade, one in (worth or {}).items()}

    def gain(grade: float) -> float:
        if worth is None:
            return max(grade, 0.0) / largest
        if grade not in values:
            raise InputError(f"worth must say what grade {grade:g} is worth, got {dict(values)!r}.")
        return values[int(grade)]

    queries = np.array(list(grades), dtype=object)
    need_contexts(candidates, "judgements")
    places = candidates.contexts.find(queries)
    P, rows = len(candidates.names), []
    for query, place in zip(queries, places, strict=True):
        if place < 0:
            continue
        documents = list(grades[query])
        codes = candidates.items.codes(np.array(documents, dtype=object))
        worths = np.array([gain(grades[query][document]) for document in documents])
        shown = candidates.lists[:, place]  # (P, m)
        rows.append(((shown[:, :, None] == codes[None, None, :]) & (codes >= 0)) @ worths)
    if len(rows) < 2:
        raise LogError(f"at least 2 judged queries must be queries of the candidates, got {len(rows)}.")
    table = np.array([row.sum(axis=1) for row in rows])  # (queries, P)
    apart = table - table.mean(axis=1, keepdims=True)
    errors = apart.std(axis=0, ddof=1) / np.sqrt(len(table))
    assert table.shape[1] == P
    return JudgedScores(candidates.names, table.mean(axis=0), errors, len(table))


def _grades(judgements: Any) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    if isinstance(judgements, (str, os.PathLike)):
        path = check_file(Path(judgements))
        for number, fields in fields_of(path):
            try:
                query, _, document, grade = fields
                found.setdefault(query, {})[document] = float(grade)
            except ValueError:
                raise LogError(f"{path}, line {number}: query, 0, document and a grade are needed.") from None
        return found
    if is_frame(judgements):
        table = as_table(judgements)
        columns = [one_of(table.column_names, names) for names in (QUERY, DOCUMENT, _LABEL)]
        rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
        for query, document, grade in rows:
            found.setdefault(str(query), {})[str(document)] = float(grade)
        return found
    if not isinstance(judgements, Mapping) and hasattr(judgements, "to_dict"):
        judgements = judgements.to_dict()
    if not isinstance(judgements, Mapping):
        raise InputError(
            f"judgements must be a qrels file, a frame, a ranx.Qrels or a mapping, got {type(judgements).__name__}."
        )
    for query, documents in judgements.items():
        if not isinstance(documents, Mapping):
            raise InputError(f"judgements must be {{query: {{document: grade}}}}, got {type(documents).__name__}.")
        found[str(query)] = {str(document): float(grade) for document, grade in documents.items()}
    return found
