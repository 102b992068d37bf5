"""Certifying learners: one class made of parts, told apart by how an epoch explores."""

from comband.learners.certifying.epochs import Epoch, Epochs
from comband.learners.certifying.evidence import Block, Evidence
from comband.learners.certifying.learner import CertifyingLearner
from comband.learners.certifying.moments import Asked, Began, Entered, Guard, Moment, Told, Unanswered
from comband.learners.certifying.queue import Queue
from comband.learners.certifying.verdict import Certified, Verdict
from comband.learners.certifying.watch import Watch

__all__ = [
    "Asked",
    "Began",
    "Block",
    "Certified",
    "CertifyingLearner",
    "Entered",
    "Epoch",
    "Epochs",
    "Evidence",
    "Guard",
    "Moment",
    "Queue",
    "Told",
    "Unanswered",
    "Verdict",
    "Watch",
]
