"""Logs in: files of logged rounds and of candidates' lists, read as a stream; and rounds out again."""

from comband.logs.candidates import CandidateLists, read_candidates
from comband.logs.faults import Faults, LogError
from comband.logs.formats import LogFormat, RawRounds
from comband.logs.predictions import read_predictions
from comband.logs.reading import LogReading, read_log
from comband.logs.registry import register
from comband.logs.sequential import sequential_propensities
from comband.logs.writing import write_candidates, write_rounds

__all__ = [
    "CandidateLists",
    "Faults",
    "LogError",
    "LogFormat",
    "LogReading",
    "RawRounds",
    "read_candidates",
    "read_log",
    "read_predictions",
    "register",
    "sequential_propensities",
    "write_candidates",
    "write_rounds",
]
