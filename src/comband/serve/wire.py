"""What comes in and goes out: strict schemas (unknown fields are refused) with their limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from comband.certify import spec as certifying
from comband.page import problem as page
from comband.page.declaring import Declared, declared

AUDITED = 0.01  # of the decisions, where nothing else is said
MAX_CANDIDATES = 1000
MAX_LIST = 100
MAX_TABLES = 20  # of one setting
MAX_BATCH = 256
MAX_REWARDS = 2000
MAX_PAGE = 1000
MAX_SMALL_BODY = 64 * 1024  # of what has no lists
MAX_SPEC_BODY = 1024 * 1024
MAX_CONTEXT = 100_000
LARGEST_KEY = 2**53
LONGEST_KEY = 200

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
ROLES = ("decide", "reward", "read", "admin")

Name = Annotated[str, Meta(pattern=NAME, description="Letters, digits, dots, dashes and underscores.")]
CandidateName = Annotated[str, Meta(min_length=1, max_length=200)]
TextKey = Annotated[str, Meta(max_length=LONGEST_KEY)]
WholeKey = Annotated[int, Meta(ge=-LARGEST_KEY, le=LARGEST_KEY)]
Key = TextKey | WholeKey
ListOfKeys = Annotated[list[Key], Meta(max_length=MAX_LIST)]
RequestId = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
Ticket = Annotated[str, Meta(max_length=100, description="As the answer to a decision request gave it.")]
DecisionId = Annotated[int, Meta(ge=0, le=LARGEST_KEY, description="As the answer to a decision request gave it.")]


def field_type(one: Declared) -> Any:
    """A setting as a message has it."""
    setting, takes = one.setting, one.setting.takes
    ends = {"ge": takes.least, "gt": takes.above, "lt": takes.below, "le": takes.most}
    if takes.kind is int:
        ends |= {"ge": int(takes.least or 0), "le": LARGEST_KEY}
    said = f"{setting.says} In {setting.unit}." if setting.unit else setting.says
    meta: Any = Meta
    about = meta(**{name: end for name, end in ends.items() if end is not None}, description=said)
    words: Any = Literal[takes.choices] if takes.choices else None
    numbers: Any = Annotated[list[float], Meta(max_length=MAX_CANDIDATES)]
    kind: Any = takes.kind
    if takes.of is not None:
        table: Any = message_of(takes.of, name=takes.of.__name__)
        kind = Annotated[list[table], Meta(max_length=MAX_TABLES)]
    elif kind is list:
        kind = words | numbers if takes.choices else numbers
    elif kind is str:
        kind = words or Annotated[str, Meta(max_length=200)]
    return Annotated[kind, about] | None if one.optional else Annotated[kind, about]


def declared_settings(*specs: type) -> dict[str, Declared]:
    """The settings of an experiment that a message can hold; items are numbered within each request, so how many there
    are is not said.
    """
    every = {name: one for spec in specs for name, one in declared(spec).items()}
    return {name: one for name, one in every.items() if one.plain and name != "n_actions"}


def message_of(*specs: type, name: str = "Declared") -> Any:
    """A message with these settings as its fields."""
    fields = [
        (name, field_type(one)) if one.required else (name, field_type(one), one.default)
        for name, one in declared_settings(*specs).items()
    ]
    return msgspec.defstruct(name, fields, frozen=True, forbid_unknown_fields=True, kw_only=True)


SETTINGS = declared_settings(page.Problem, certifying.Spec)
_Declared: Any = message_of(page.Problem, certifying.Spec)


class Spec(_Declared, frozen=True, forbid_unknown_fields=True, kw_only=True):  # type: ignore[misc, call-arg]
    """An experiment: who competes, what is shown, and what is to be promised; and how the service runs it."""

    name: Name
    candidates: Annotated[
        list[CandidateName], Meta(min_length=2, max_length=MAX_CANDIDATES, description="Distinct names.")
    ]
    list_size: Annotated[int, Meta(ge=1, le=MAX_LIST, description="How many items are shown.")]
    window_seconds: Annotated[
        float,
        Meta(gt=0, le=90 * 86400, description="How long a decision waits for its rewards, by the journal's clock."),
    ] = 3600.0
    fallback: (
        Annotated[
            str,
            Meta(
                max_length=200,
                description="What counts where a candidate does not answer, or not in full: the list of this "
                'candidate, or "nothing".',
            ),
        ]
        | None
    ) = None
    models: (
        Annotated[str, Meta(max_length=200, description="Name of policies that the service itself asks (`--models`).")]
        | None
    ) = None
    block: Annotated[int, Meta(ge=1, le=4096, description="Decisions enter the evidence in blocks of so many.")] = 32
    seed: (
        Annotated[int, Meta(ge=0, le=LARGEST_KEY, description="For a run that can be repeated; random if left out.")]
        | None
    ) = None
    metric_windows: Annotated[
        dict[str, Annotated[float, Meta(gt=0, le=90 * 86400)]],
        Meta(
            description="How many seconds a decision waits for the values of a metric, by its name, where that is not "
            "as long as for rewards."
        ),
    ] = {}  # noqa: RUF012
    after_harm: Annotated[
        Literal["production", "pause"],
        Meta(
            description="What follows when visitors are proven to be harmed (`max_harm`): production's lists are shown "
            "to all, or the experiment is paused as well, so that requests are refused."
        ),
    ] = "production"
    tickets: Annotated[
        bool,
        Meta(
            description="Whether rewards must name decisions by their tickets, which cannot be guessed, and not by "
            "their numbers: for pages that post rewards themselves."
        ),
    ] = False
    note: Annotated[str, Meta(max_length=2000)] = ""
    audited: (
        Annotated[
            float,
            Meta(
                gt=0,
                le=1,
                description="Of which share of all decisions, besides those with rewards, the candidates' lists are in "
                "the certificate that others can check; null: no chain is kept. If left out 0.01, or null where no "
                'certificate can be checked yet ("order": "natural").',
            ),
        ]
        | msgspec.UnsetType
        | None
    ) = msgspec.UNSET
    digests: (
        Annotated[
            list[Annotated[str, Meta(max_length=200)] | None],
            Meta(
                max_length=MAX_CANDIDATES,
                description="Of each candidate, in their order, by which its model is known again: the hash of its "
                "file, a commit. They stand in the certificate.",
            ),
        ]
        | None
    ) = None

    @property
    def is_recorded(self) -> bool:
        """Whether a hash chain is kept, of which a certificate is made."""
        return isinstance(self.audited, (int, float))


Lists = dict[str, ListOfKeys] | Annotated[list[ListOfKeys | None], Meta(max_length=MAX_CANDIDATES)]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """One request: what each candidate that is still wanted would show, or the context for models of the service."""

    lists: Lists | None = None
    request: RequestId | None = None
    context: Annotated[list[float], Meta(max_length=MAX_CONTEXT)] | None = None


DecisionRequests = DecisionRequest | Annotated[list[DecisionRequest], Meta(min_length=1, max_length=MAX_BATCH)]


class Decision(Struct, omit_defaults=True):
    """What to show, in this order, and with what probability each item came to be in the list; in an experiment whose
    places are pairs, to be in its place. `placements`, of each item the probability of each place, are there where
    lists are not in random order. `ticket` may stand for the number when rewards are posted.
    """

    decision: int
    request: str
    items: list[str | int]
    propensities: list[float]
    epoch: int
    ticket: str
    not_needed: list[str] = []
    placements: list[list[float]] = []


class RefusedRequest(Struct):
    """A request of a batch that has no decision: its place in the batch, its id, why, and what to do."""

    index: int
    request: str
    status: int
    title: str
    detail: str


class Decisions(Struct, omit_defaults=True):
    """In the order of the requests; null for those that are `refused`."""

    decisions: list[Decision | None]
    refused: list[RefusedRequest] = []


class RawDecision(Struct, omit_defaults=True):
    """A `Decision`, its items as text."""

    decision: int
    request: str
    items: msgspec.Raw
    propensities: list[float]
    epoch: int
    ticket: str
    not_needed: list[str] = []
    placements: list[list[float]] = []


class RawDecisions(Struct, omit_defaults=True):
    """`Decisions` of such."""

    decisions: list[RawDecision | None]
    refused: list[RefusedRequest] = []


class RewardPost(Struct, forbid_unknown_fields=True):
    """What came back for some of the items of one decision, by its number or its ticket: pairs of item and reward in
    [0, 1]; and by the names of further metrics pairs of item and value, with the rewards or when they are known.
    """

    decision: DecisionId | Ticket
    rewards: Annotated[list[tuple[Key, Annotated[float, Meta(ge=0, le=1)]]], Meta(max_length=MAX_LIST)] = []
    metrics: Annotated[
        dict[str, Annotated[list[tuple[Key, Annotated[float, Meta(ge=0)]]], Meta(max_length=MAX_LIST)]],
        Meta(max_length=MAX_TABLES),
    ] = {}


RewardPosts = RewardPost | Annotated[list[RewardPost], Meta(min_length=1, max_length=MAX_REWARDS)]


class FieldChange(Struct, forbid_unknown_fields=True, kw_only=True):
    """A candidate that joins, one that is withdrawn, or both: a new version in place of an old one.

    `planned` says that who comes and goes, and when, does not depend on what this experiment has brought so far; other
    changes need an experiment that was created with `open_field`.
    """

    add: CandidateName | None = None
    withdraw: CandidateName | None = None
    planned: bool = False
    digest: Annotated[str, Meta(max_length=200, description="By which the new one's model is known again.")] | None = (
        None
    )


class Head(Struct):
    """The hash of all that is recorded of an experiment so far, to be published elsewhere; how many records and
    decisions there are, and whether more can come.
    """

    name: str
    head: str
    records: int
    decisions: int
    ended: bool


class Clone(Struct, forbid_unknown_fields=True, kw_only=True):
    """The name of a new experiment like this one: with its settings, and with the candidates that are in the field now;
    it begins without evidence. `note` stands for that of the old one, if there is one.
    """

    name: Name
    note: Annotated[str, Meta(max_length=2000)] | None = None


class Nothing(Struct, forbid_unknown_fields=True):
    """No fields: `{}`, or an empty body."""


class RewardFault(Struct, omit_defaults=True):
    """A reward that does not count, or the value of a metric, and why."""

    decision: int | str
    item: str | int
    outcome: str
    detail: str
    metric: str | None = None


class RewardReceipt(Struct):
    """What became of the rewards; all of it is on disk."""

    accepted: int
    duplicates: int
    faults: list[RewardFault]


class Problem(Struct, omit_defaults=True):
    """What went wrong and what to do (RFC 9457)."""

    title: str
    status: int
    detail: str
    type: str = "about:blank"


spec_of = msgspec.json.Decoder(Spec).decode
decision_requests_of = msgspec.json.Decoder(DecisionRequests).decode
reward_posts_of = msgspec.json.Decoder(RewardPosts).decode
field_change_of = msgspec.json.Decoder(FieldChange).decode
clone_of = msgspec.json.Decoder(Clone).decode
nothing_of = msgspec.json.Decoder(Nothing).decode
as_json = msgspec.json.Encoder().encode


# ---- what people are told --------------------------------------------------------------------------------------------


class Verdict(Struct, kw_only=True):
    """What is known: `kind` is "decided", "leading", "cannot tell" or "not valid".

    `name` is the candidate that is decided on or leads, null where none can be named; `text` is the whole in words, and
    `sentences` its parts without the kind. `epsilon` is certified of that candidate, and `enough` would decide.
    `more_rounds` and `more_days` are estimates of what is still needed, null where none can be made.
    """

    kind: str
    name: str | None = None
    text: str
    sentences: list[str]
    epsilon: float | None = None
    enough: float | None = None
    rounds: int
    more_rounds: float | None = None
    more_days: float | None = None


class Summary(Struct, kw_only=True):
    """An experiment in a few numbers; times are milliseconds since 1970.

    `verdict` is what is known, and `answer` the same in words; `certified` the ε that holds now, `forecast_decisions` a
    guess of what is still needed (None where there is none yet); `winner` is set when the verdict is "decided", and
    `shown` when one candidate's lists are all that is shown; `learning_stopped` says why nothing more is learnt, where
    that is so, and `stopped_by_harm` whether visitors were proven to be harmed. `epsilon` is null where the smallest
    one is sought that the budget certifies.
    """

    name: str
    state: str
    note: str
    created: int
    archived: int | None = None
    n_candidates: int
    list_size: int
    epsilon: float | None
    delta: float
    decisions: int
    settled: int
    answer: str | None = None
    verdict: Verdict | None = None
    leader: str | None = None
    winner: str | None = None
    shown: str | None = None
    certified: float | None = None
    survivors: int | None = None
    done: bool | None = None
    is_certified: bool | None = None
    forecast_decisions: float | None = None
    warnings: list[str] = []
    learning_stopped: str | None = None
    stopped_by_harm: bool | None = None
    time: int


class DeclaredSetting(Struct):
    """What was declared: a setting, its value in words, what it is, and whether it differs from its default."""

    name: str
    value: str
    text: str
    said: bool


class Created(Summary, kw_only=True):
    """An experiment with what was declared when it was created, as a message and as words."""

    spec: Spec
    declared: list[DeclaredSetting]


class Summaries(Struct):
    """Experiments, the oldest first; `next` is where the next ones begin (send it as `after`), null where these are the
    last. `live`, `ended` and `archived` say how many there are in all.
    """

    experiments: list[Summary]
    live: int
    ended: int
    archived: int
    next: int | None = None


class CandidateStatus(Struct, kw_only=True):
    """One candidate: `state` is leader, candidate or dropped; `low` and `high` are the ends of its value's interval.

    `difference` is its estimated value minus the leader's; if it is the best of all, it is better by at most `bound`.
    `share` is the share of recently shown items that the candidate would have shown too; when all is known, 1 for the
    winner, whose lists are all that is shown, and null for others.
    """

    index: int
    name: str
    state: str
    value: float | None
    low: float | None
    high: float | None
    difference: float | None
    bound: float | None
    share: float | None
    dropped_after: int | None
    dropped_by: str | None


class Lift(Struct, kw_only=True):
    """How much more the leader's lists bring per round than production's: an estimate, also as a share of what
    production's bring, and between which numbers it lies, at all times, as the intervals of all values do. `text` says
    so.
    """

    leader: str
    production: str
    estimate: float
    low: float
    high: float
    relative: float | None
    text: str


class GuardedStatus(Struct):
    """A candidate by a further metric: how much more of it than with production, a standard error, the margin, and
    whether it is certified safe by all metrics: "safe", "harmful" or "not shown".
    """

    name: str
    metric: str
    difference: float | None
    error: float | None
    margin: str
    standing: str


class GuardStatus(Struct):
    """A guard: what it watches, and its warning, empty while there is none."""

    name: str
    watches: str
    warning: str


class DroppedStatus(Struct):
    """Who was dropped after how many decisions, and against which leader."""

    name: str
    after: int
    leader: str


class Status(Summary, kw_only=True):
    """Where an experiment stands, in full; what is missing is not known before the first decisions are settled.
    `removed` is how many decisions went by age, `removed_note` what can no longer be recomputed. `next_step` says what
    to do; `lift` is there if a candidate is in production and another one leads.
    """

    epoch: int
    rounds: int = 0
    reward: float = 0.0
    reward_lost: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    guards: list[GuardStatus] = []
    candidates: list[CandidateStatus] = []
    dropped: list[DroppedStatus] = []
    withdrawn: list[str] = []
    removed: int = 0
    removed_note: str = ""
    next_step: str = ""
    lift: Lift | None = None
    guarded: list[GuardedStatus] = []


class Point(Struct, kw_only=True):
    """Where an experiment stood after so many settled `decisions`, at some `time`."""

    decisions: int
    time: int
    rounds: int
    survivors: int
    certified: float | None
    forecast_decisions: float | None
    leader: str
    value: float | None
    low: float | None
    high: float | None
    reward_lost: float | None
    reward: float
    epoch: int
    done: bool


class Minute(Struct):
    """What happened in the minute that began at `time`; rewards are those above 0 that count."""

    time: int
    decisions: int
    rewards: int
    late: int
    mean_delay_seconds: float | None


class History(Struct):
    """How it went: points, the older the coarser, and the last minutes. With `since`, the `decisions` of the last point
    that is known, only that point and what came later.
    """

    name: str
    points: list[Point]
    minutes: list[Minute]


class PremiseChecked(Struct, kw_only=True):
    """What a claim rests on; `failure` is empty where it holds, and `pending` whether more rounds may mend it."""

    name: str
    text: str
    failure: str
    pending: bool = False


class Claimed(Struct, kw_only=True):
    """A sentence, with the probability by which it may be wrong (null: an estimate, no promise) and what it rests on;
    where a premise fails `text` says so instead.
    """

    kind: str
    text: str
    holds: bool
    delta: float | None
    premises: list[PremiseChecked]


class Result(Struct, kw_only=True):
    """The verdict, and what is promised: with probability 1 − delta no candidate's value exceeds that of `best`, the
    selected one, by more than `epsilon`. `final` says whether nothing will change it any more. `explained` is for
    readers who ask how.
    """

    verdict: Verdict
    best: str
    value: float
    low: float
    high: float
    epsilon: float
    delta: float
    rounds: int
    final: bool
    guarantee: str
    claims: list[Claimed]
    text: str
    runners_up: list[str]
    notes: list[str]
    explained: list[str]
    warnings: list[str]


class Shown(Struct, kw_only=True):
    """A decision as the journal has it, with the rewards that count: pairs of item and reward."""

    decision: int
    request: str
    time: int
    epoch: int
    items: list[str | int]
    propensities: list[float]
    rewards: list[tuple[str | int, float]]
    settled: bool
    placements: list[list[float]] = []
    metrics: dict[str, list[tuple[str | int, float]]] = {}


class FieldChanged(Struct, kw_only=True):
    """Who competes from now on; `applied` says whether decisions are made by it already."""

    change: int
    candidates: list[str]
    applied: bool


class Ready(Struct, omit_defaults=True):
    """`status` is ready, or degraded: decisions are made, and for some experiments nothing more is learnt."""

    status: str
    learning_stopped: int = 0


class ExperimentCreated(Struct):
    """The experiment, which runs at once."""

    name: str
    state: str
    decisions_url: str
    rewards_url: str


class Archived(Struct):
    """Since when it is out of the way, in milliseconds since 1970; null if it is not."""

    name: str
    archived: int | None


class Deleted(Struct):
    """It is gone, and its name is free; what the store holds of it is removed bit by bit."""

    name: str
    deleted: bool


class Change(Struct):
    """Who changed what and when: the name and the id of a token, or what else is known, and what else there is to
    say.
    """

    id: int
    time: int
    experiment: str | None
    actor: str
    token: str | None
    action: str
    detail: dict[str, Any]


class Audit(Struct):
    """Changes, the newest first; `next` is what `before` must be to go on, null where there are no more."""

    changes: list[Change]
    next: int | None


class StateChanged(Struct):
    """The state now, and the one before."""

    name: str
    state: str
    before: str
