"""Logs in: files of logged rounds and of candidates' lists, read as a stream; and rounds out again."""

from comband.evaluation.logs.candidates import CandidateLists, read_candidates
from comband.evaluation.logs.faults import Faults, LogError
from comband.evaluation.logs.formats import LogFormat, RawRounds
from comband.evaluation.logs.judgements import JudgedScores, judged_scores
from comband.evaluation.logs.predictions import read_predictions
from comband.evaluation.logs.reading import LogReading, read_log
from comband.evaluation.logs.registry import register
from comband.evaluation.logs.segments import read_segments
from comband.evaluation.logs.sequential import sequential_propensities
from comband.evaluation.logs.ubi import ubi_format
from comband.evaluation.logs.writing import write_candidates, write_rounds

__all__ = [
    "CandidateLists",
    "Faults",
    "JudgedScores",
    "LogError",
    "LogFormat",
    "LogReading",
    "RawRounds",
    "judged_scores",
    "read_candidates",
    "read_log",
    "read_predictions",
    "read_segments",
    "register",
    "sequential_propensities",
    "ubi_format",
    "write_candidates",
    "write_rounds",
]
