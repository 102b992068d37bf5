/** Since when it is out of the way, in milliseconds since 1970; null if it is not. */
export interface Archived {
    name: string;
    archived: number | null;
}
/** Changes, the newest first; `next` is what `before` must be to go on, null where there are no more. */
export interface Audit {
    changes: Change[];
    next: number | null;
}
/** One candidate: `state` is leader, candidate or dropped; `low` and `high` are the ends of its value's interval. `difference` is its estimated value minus the leader's; if it is the best of all, it is better by at most `bound`. `share` is the share of recently shown items that the candidate would have shown too; when all is known, 1 for the winner, whose lists are all that is shown, and null for others. */
export interface CandidateStatus {
    index: number;
    name: string;
    state: string;
    value: number | null;
    low: number | null;
    high: number | null;
    difference: number | null;
    bound: number | null;
    share: number | null;
    dropped_after: number | null;
    dropped_by: string | null;
}
/** Who changed what and when: the name and the id of a token, or what else is known, and what else there is to say. */
export interface Change {
    id: number;
    time: number;
    experiment: string | null;
    actor: string;
    token: string | null;
    action: string;
    detail: Record<string, unknown>;
}
/** A sentence, with the probability by which it may be wrong (null: an estimate, no promise) and what it rests on; where a premise fails `text` says so instead. */
export interface Claimed {
    kind: string;
    text: string;
    holds: boolean;
    delta: number | null;
    premises: PremiseChecked[];
}
/** The name of a new experiment like this one: with its settings, and with the candidates that are in the field now; it begins without evidence. `note` stands for that of the old one, if there is one. */
export interface Clone {
    /** Letters, digits, dots, dashes and underscores. */
    name: string;
    note?: string | null;
}
/** An experiment with what was declared when it was created, as a message and as words. */
export interface Created {
    name: string;
    state: string;
    note: string;
    created: number;
    archived?: number | null;
    n_candidates: number;
    list_size: number;
    epsilon: number | null;
    delta: number;
    decisions: number;
    settled: number;
    answer?: string | null;
    verdict?: Verdict | null;
    leader?: string | null;
    winner?: string | null;
    shown?: string | null;
    certified?: number | null;
    survivors?: number | null;
    done?: boolean | null;
    is_certified?: boolean | null;
    forecast_decisions?: number | null;
    warnings?: string[];
    learning_stopped?: string | null;
    stopped_by_harm?: boolean | null;
    time: number;
    spec: Spec;
    declared: DeclaredSetting[];
}
/** What to show, in this order, and with what probability each item came to be in the list; in an experiment whose places are pairs, to be in its place. `placements`, of each item the probability of each place, are there where lists are not in random order. `ticket` may stand for the number when rewards are posted. */
export interface Decision {
    decision: number;
    request: string;
    items: (string | number)[];
    propensities: number[];
    epoch: number;
    ticket: string;
    not_needed?: string[];
    placements?: number[][];
}
/** One request: what each candidate that is still wanted would show, or the context for models of the service. */
export interface DecisionRequest {
    lists?: Record<string, (string | number)[]> | ((string | number)[] | null)[] | null;
    request?: string | null;
    context?: number[] | null;
}
/** In the order of the requests; null for those that are `refused`. */
export interface Decisions {
    decisions: (Decision | null)[];
    refused?: RefusedRequest[];
}
/** What was declared: a setting, its value in words, what it is, and whether it differs from its default. */
export interface DeclaredSetting {
    name: string;
    value: string;
    text: string;
    said: boolean;
}
/** It is gone, and its name is free; what the store holds of it is removed bit by bit. */
export interface Deleted {
    name: string;
    deleted: boolean;
}
/** Who was dropped after how many decisions, and against which leader. */
export interface DroppedStatus {
    name: string;
    after: number;
    leader: string;
}
/** The experiment, which runs at once. */
export interface ExperimentCreated {
    name: string;
    state: string;
    decisions_url: string;
    rewards_url: string;
}
/** A candidate that joins, one that is withdrawn, or both: a new version in place of an old one. `planned` says that who comes and goes, and when, does not depend on what this experiment has brought so far; other changes need an experiment that was created with `open_field`. */
export interface FieldChange {
    add?: string | null;
    withdraw?: string | null;
    planned?: boolean;
    digest?: string | null;
}
/** Who competes from now on; `applied` says whether decisions are made by it already. */
export interface FieldChanged {
    change: number;
    candidates: string[];
    applied: boolean;
}
/** A guard: what it watches, and its warning, empty while there is none. */
export interface GuardStatus {
    name: string;
    watches: string;
    warning: string;
}
/** A candidate by a further metric: how much more of it than with production, a standard error, the margin, and whether it is certified safe by all metrics: "safe", "harmful" or "not shown". */
export interface GuardedStatus {
    name: string;
    metric: string;
    difference: number | null;
    error: number | null;
    margin: string;
    standing: string;
}
/** The hash of all that is recorded of an experiment so far, to be published elsewhere; how many records and decisions there are, and whether more can come. */
export interface Head {
    name: string;
    head: string;
    records: number;
    decisions: number;
    ended: boolean;
}
/** How it went: points, the older the coarser, and the last minutes. With `since`, the `decisions` of the last point that is known, only that point and what came later. */
export interface History {
    name: string;
    points: Point[];
    minutes: Minute[];
}
/** How much more the leader's lists bring per round than production's: an estimate, also as a share of what production's bring, and between which numbers it lies, at all times, as the intervals of all values do. `text` says so. */
export interface Lift {
    leader: string;
    production: string;
    estimate: number;
    low: number;
    high: number;
    relative: number | null;
    text: string;
}
/** Metric */
export interface Metric {
    /** The name under which it is told. */
    name: string;
    /** How much worse than production a safe candidate may be: per round, or as a share of production's value. */
    margin: number;
    /** Whether the margin is a share of production's value. */
    relative?: boolean;
    /** Whether more of it is better, "benefit", or worse, "cost". */
    direction?: "benefit" | "cost";
    /** The largest value of a shown item. */
    largest?: number;
    per_round?: number | null;
    patience?: number | null;
}
/** What happened in the minute that began at `time`; rewards are those above 0 that count. */
export interface Minute {
    time: number;
    decisions: number;
    rewards: number;
    late: number;
    mean_delay_seconds: number | null;
}
/** No fields: `{}`, or an empty body. */
export interface Nothing {
}
/** Where an experiment stood after so many settled `decisions`, at some `time`. */
export interface Point {
    decisions: number;
    time: number;
    rounds: number;
    survivors: number;
    certified: number | null;
    forecast_decisions: number | null;
    leader: string;
    value: number | null;
    low: number | null;
    high: number | null;
    reward_lost: number | null;
    reward: number;
    epoch: number;
    done: boolean;
}
/** What a claim rests on; `failure` is empty where it holds, and `pending` whether more rounds may mend it. */
export interface PremiseChecked {
    name: string;
    text: string;
    failure: string;
    pending?: boolean;
}
/** What went wrong and what to do (RFC 9457). */
export interface Problem {
    title: string;
    status: number;
    detail: string;
    type?: string;
}
/** `status` is ready, or degraded: decisions are made, and for some experiments nothing more is learnt. */
export interface Ready {
    status: string;
    learning_stopped?: number;
}
/** A request of a batch that has no decision: its place in the batch, its id, why, and what to do. */
export interface RefusedRequest {
    index: number;
    request: string;
    status: number;
    title: string;
    detail: string;
}
/** The verdict, and what is promised: with probability 1 − delta no candidate's value exceeds that of `best`, the selected one, by more than `epsilon`. `final` says whether nothing will change it any more. `explained` is for readers who ask how. */
export interface Result {
    verdict: Verdict;
    best: string;
    value: number;
    low: number;
    high: number;
    epsilon: number;
    delta: number;
    rounds: number;
    final: boolean;
    guarantee: string;
    claims: Claimed[];
    text: string;
    runners_up: string[];
    notes: string[];
    explained: string[];
    warnings: string[];
}
/** A reward that does not count, or the value of a metric, and why. */
export interface RewardFault {
    decision: number | string;
    item: string | number;
    outcome: string;
    detail: string;
    metric?: string | null;
}
/** What came back for some of the items of one decision, by its number or its ticket: pairs of item and reward in [0, 1]; and by the names of further metrics pairs of item and value, with the rewards or when they are known. */
export interface RewardPost {
    decision: number | string;
    rewards?: ((string | number | number)[])[];
    metrics?: Record<string, ((string | number | number)[])[]>;
}
/** What became of the rewards; all of it is on disk. */
export interface RewardReceipt {
    accepted: number;
    duplicates: number;
    faults: RewardFault[];
}
/** A decision as the journal has it, with the rewards that count: pairs of item and reward. */
export interface Shown {
    decision: number;
    request: string;
    time: number;
    epoch: number;
    items: (string | number)[];
    propensities: number[];
    rewards: ((string | number | number)[])[];
    settled: boolean;
    placements?: number[][];
    metrics?: Record<string, ((string | number | number)[])[]>;
}
/** An experiment: who competes, what is shown, and what is to be promised; and how the service runs it. */
export interface Spec {
    /** How many items are shown. */
    list_size: number;
    sparsity?: number | null;
    /** What is seen of a list: the reward of each of its items, or their total. */
    feedback?: "items" | "total";
    places?: "fit" | "pairs" | number[] | null;
    order?: "natural" | "random" | null;
    epsilon: number | null;
    /** Probability allowed for a wrong statement. */
    delta?: number;
    max_rounds?: number | null;
    patience?: number | null;
    /** The length of a rhythm (a day, a week): epochs begin, and rounds enter the evidence, by whole periods. Values are then averages over a period, however gaps rise and fall within it. No batch may reach into the next period. In rounds. */
    period?: number;
    recent?: number | null;
    /** Whether candidates may come and go in ways that depend on the data; half of delta is set aside for that. Other changes must be planned. */
    open_field?: boolean;
    production?: string | null;
    /** The share of visitors who take part; all others see production's list as it is. The promise is the same, in more rounds. */
    exposure?: number;
    max_loss?: number | null;
    max_harm?: number | null;
    false_stop?: number | null;
    /** What is to be small: "rounds" until the certificate, or the "reward" that is lost meanwhile, in more rounds: then most of them show a candidate's own list, drawn by how likely it is to be the best. */
    objective?: "reward" | "rounds";
    /** Further values of shown items, each with a margin: the one that is chosen is the best of those that are certified not to be worse than production by more. */
    metrics?: Metric[];
    prior_scores?: number[] | null;
    prior_error?: number | null;
    exploration?: "ab-test" | "adaptive" | "lists" | "mixture" | "two-phase" | null;
    /** The first epoch's length. In rounds. */
    first_epoch?: number;
    /** Each further epoch lasts (epoch_growth − 1) times all rounds so far. */
    epoch_growth?: number;
    /** Up to how many candidates are evaluated on every context; while more are left, uniform lists are mixed with the lists of the front runners. In candidates. */
    max_evaluated?: number;
    shuffled?: number | null;
    /** What a total counts for where candidates' own lists are shown; only totals have a choice. */
    weighting?: "lists" | "pseudo-inverse";
    /** Whether an A/B/n test no longer shows dropped candidates. */
    eliminate?: boolean;
    audited?: number | null;
    /** Letters, digits, dots, dashes and underscores. */
    name: string;
    /** Distinct names. */
    candidates: string[];
    /** How long a decision waits for its rewards, by the journal's clock. */
    window_seconds?: number;
    fallback?: string | null;
    models?: string | null;
    /** Decisions enter the evidence in blocks of so many. */
    block?: number;
    seed?: number | null;
    /** How many seconds a decision waits for the values of a metric, by its name, where that is not as long as for rewards. */
    metric_windows?: Record<string, number>;
    /** What follows when visitors are proven to be harmed (`max_harm`): production's lists are shown to all, or the experiment is paused as well, so that requests are refused. */
    after_harm?: "pause" | "production";
    /** Whether rewards must name decisions by their tickets, which cannot be guessed, and not by their numbers: for pages that post rewards themselves. */
    tickets?: boolean;
    note?: string;
    digests?: (string | null)[] | null;
}
/** The state now, and the one before. */
export interface StateChanged {
    name: string;
    state: string;
    before: string;
}
/** Where an experiment stands, in full; what is missing is not known before the first decisions are settled. `removed` is how many decisions went by age, `removed_note` what can no longer be recomputed. `next_step` says what to do; `lift` is there if a candidate is in production and another one leads. */
export interface Status {
    name: string;
    state: string;
    note: string;
    created: number;
    archived?: number | null;
    n_candidates: number;
    list_size: number;
    epsilon: number | null;
    delta: number;
    decisions: number;
    settled: number;
    answer?: string | null;
    verdict?: Verdict | null;
    leader?: string | null;
    winner?: string | null;
    shown?: string | null;
    certified?: number | null;
    survivors?: number | null;
    done?: boolean | null;
    is_certified?: boolean | null;
    forecast_decisions?: number | null;
    warnings?: string[];
    learning_stopped?: string | null;
    stopped_by_harm?: boolean | null;
    time: number;
    epoch: number;
    rounds?: number;
    reward?: number;
    reward_lost?: number | null;
    value?: number | null;
    low?: number | null;
    high?: number | null;
    guards?: GuardStatus[];
    candidates?: CandidateStatus[];
    dropped?: DroppedStatus[];
    withdrawn?: string[];
    removed?: number;
    removed_note?: string;
    next_step?: string;
    lift?: Lift | null;
    guarded?: GuardedStatus[];
}
/** Experiments, the oldest first; `next` is where the next ones begin (send it as `after`), null where these are the last. `live`, `ended` and `archived` say how many there are in all. */
export interface Summaries {
    experiments: Summary[];
    live: number;
    ended: number;
    archived: number;
    next?: number | null;
}
/** An experiment in a few numbers; times are milliseconds since 1970. `verdict` is what is known, and `answer` the same in words; `certified` the ε that holds now, `forecast_decisions` a guess of what is still needed (None where there is none yet); `winner` is set when the verdict is "decided", and `shown` when one candidate's lists are all that is shown; `learning_stopped` says why nothing more is learnt, where that is so, and `stopped_by_harm` whether visitors were proven to be harmed. `epsilon` is null where the smallest one is sought that the budget certifies. */
export interface Summary {
    name: string;
    state: string;
    note: string;
    created: number;
    archived?: number | null;
    n_candidates: number;
    list_size: number;
    epsilon: number | null;
    delta: number;
    decisions: number;
    settled: number;
    answer?: string | null;
    verdict?: Verdict | null;
    leader?: string | null;
    winner?: string | null;
    shown?: string | null;
    certified?: number | null;
    survivors?: number | null;
    done?: boolean | null;
    is_certified?: boolean | null;
    forecast_decisions?: number | null;
    warnings?: string[];
    learning_stopped?: string | null;
    stopped_by_harm?: boolean | null;
    time: number;
}
/** What is known: `kind` is "decided", "leading", "cannot tell" or "not valid". `name` is the candidate that is decided on or leads, null where none can be named; `text` is the whole in words, and `sentences` its parts without the kind. `epsilon` is certified of that candidate, and `enough` would decide. `more_rounds` and `more_days` are estimates of what is still needed, null where none can be made. */
export interface Verdict {
    kind: string;
    name?: string | null;
    text: string;
    sentences: string[];
    epsilon?: number | null;
    enough?: number | null;
    rounds: number;
    more_rounds?: number | null;
    more_days?: number | null;
}
