"""What is promised: a sentence with the premises it rests on, each compared with the run when the sentence is made.

A sentence that was proved for one procedure is wrong for another: the same words need another share of δ where evidence
begins anew, and say nothing of lists in their own order where a proof is about sets. So a sentence is never put
together where it is printed. A `Kind` declares what must hold for its sentence (each premise a check of the run as it
was) and under which options it has been proved; `Kind.claim` makes the sentence for one run. A premise that fails takes
the sentence away and gives the reason. An option that a kind does not name takes it away too, so that a new option
promises nothing until its name is added where the proof was read again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from comband.page.problem import InputError, Problem
from comband.policies.policy_set import PolicySet
from comband.policies.reading import reading_of

Run = TypeVar("Run")
HOLDS = ""
READINGS = frozenset(
    {"factors", "fitted factors", "pairs", "totals", "gaps", "cover", "natural order", "probabilities"}
)  # see `reading_options`


@dataclass(frozen=True, slots=True)
class Premise(Generic[Run]):
    """One thing that a kind of claim rests on.

    name:
        A word or two, the same in all kinds.
    text:
        What must hold.
    check:
        Why it does not hold in a run; empty if it does.
    pending:
        Whether it only fails for a time: more rounds or answers may mend it. Other failures make a result not valid.

    >>> Premise("order", "answers count in the order of decisions", lambda n_open: "some are open" * (n_open > 0))
    Premise(name='order', text='answers count in the order of decisions')
    """

    name: str
    text: str
    check: Callable[[Run], str]
    pending: bool = False

    def __repr__(self) -> str:
        return f"Premise(name={self.name!r}, text={self.text!r})"


@dataclass(frozen=True, slots=True)
class Checked:
    """A premise as it was in a run: `failure` is empty where it holds, and the reason where it does not."""

    name: str
    text: str
    failure: str = HOLDS
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence about a run.

    kind:
        Which kind of claim it is.
    sentence:
        What is claimed, without its probability.
    delta:
        With which probability it may be wrong, over the whole procedure; None: it is an estimate, and promises nothing.
    basis:
        Which bound or construction it comes from.
    premises:
        What it rests on, as it was in this run.
    subject:
        What it is about, where that is not the selected candidate among the others.
    condition:
        What it rests on beside the premises, which no check can find to hold: said with the sentence.

    >>> Claim("certificate", "within 0.1 of the best candidate", 0.05, "by betting", ()).text
    'within 0.1 of the best candidate with probability 0.95 (by betting)'
    """

    kind: str
    sentence: str
    delta: float | None
    basis: str
    premises: tuple[Checked, ...]
    subject: str = ""
    condition: str = ""

    @property
    def failures(self) -> tuple[str, ...]:
        """Why it cannot be made; empty if it can."""
        return tuple(premise.failure for premise in self.premises if premise.failure)

    @property
    def holds(self) -> bool:
        """Whether all that it rests on was so."""
        return not self.failures

    @property
    def text(self) -> str:
        """The sentence with its probability, or why there is none."""
        if self.failures:
            about = f" about {self.subject}" if self.subject else ""
            return f"no promise{about}: {'; '.join(self.failures)}"
        probability = "" if self.delta is None else f" with probability {1 - self.delta:g}"
        condition = f", {self.condition}," if self.condition else ""
        return f"{self.sentence}{condition}{probability}{f' ({self.basis})' if self.basis else ''}"

    def __str__(self) -> str:
        return self.text

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "kind": self.kind,
            "text": self.text,
            "holds": self.holds,
            "delta": self.delta,
            "premises": [asdict(premise) for premise in self.premises],
        }


@dataclass(frozen=True, slots=True)
class Kind(Generic[Run]):
    """A kind of claim: what it rests on, and under which options it has been proved.

    >>> open_decisions = Premise("order", "all is answered", lambda n_open: f"{n_open} are open" * (n_open > 0))
    >>> kind = Kind("certificate", (open_decisions,), knows=frozenset({"patience"}))
    >>> kind.claim("within 0.1 of the best", 0, options=["patience"], delta=0.05).text
    'within 0.1 of the best with probability 0.95'
    >>> kind.claim("within 0.1 of the best", 3, options=["patience"], delta=0.05).text
    'no promise: 3 are open'
    >>> kind.claim("within 0.1 of the best", 0, options=["moonlight"], delta=0.05).text
    'no promise: the certificate has not been proved with moonlight'
    """

    name: str
    premises: tuple[Premise[Run], ...]
    knows: frozenset[str]

    def claim(
        self,
        sentence: str,
        run: Run,
        *,
        options: Collection[str],
        delta: float | None,
        basis: str = "",
        subject: str = "",
        condition: str = "",
    ) -> Claim:
        """The sentence for one run in which these options are used."""
        checked = [
            Checked(premise.name, premise.text, premise.check(run), premise.pending) for premise in self.premises
        ]
        unknown = self.unknown(options)
        failure = f"the {self.name} has not been proved with {', '.join(unknown)}" if unknown else HOLDS
        checked.append(Checked("options", "it has been proved with every option in use", failure))
        return Claim(self.name, sentence, delta, basis, tuple(checked), subject, condition)

    def unknown(self, options: Collection[str]) -> list[str]:
        """Options with which it has not been proved."""
        return sorted(set(options) - self.knows)

    def check(self, options: Collection[str]) -> None:
        """Refuse options with which it has not been proved."""
        if unknown := self.unknown(options):
            raise InputError(
                f"the {self.name} has not been proved with {', '.join(unknown)}; leave it out, or, where the proof has "
                "been read with it, name it among the options that this kind of claim knows."
            )


def reading_options(problem: Problem, policies: PolicySet | None) -> frozenset[str]:
    """How page and candidates are read, where that is not the usual way: options that a claim must know of.

    >>> sorted(reading_options(Problem(9, 3, sparsity=1, places=[1, 0.5, 0.2]), None))
    ['factors', 'natural order']
    """
    used = {
        "gaps": policies is not None and policies.has_gaps,
        "cover": policies is not None and policies.cover is not None,
        "probabilities": policies is not None and policies.by_chance,
    }
    return reading_of(problem).options | frozenset(name for name, is_used in used.items() if is_used)


def within(epsilon: float) -> str:
    """The sentence of every certificate."""
    return f"within {epsilon:.4g} of the best candidate"


def within_safe(epsilon: float, metrics: Sequence[str]) -> str:
    """The same where the winner must not harm: of the best of those that do not, and itself one of them."""
    return f"safe by {', '.join(metrics)}, and within {epsilon:.4g} of the best safe candidate"


def nothing(why: str) -> Claim:
    """What a learner says that promises nothing about the candidate it names.

    >>> nothing("it bounds the regret of its whole run instead").text
    'no promise: it bounds the regret of its whole run instead'
    """
    return Claim("certificate", "", None, "", (Checked("promise", "something was proved", why, pending=True),))
