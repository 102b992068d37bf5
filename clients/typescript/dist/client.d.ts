import type { Archived, Audit, Decision, Deleted, ExperimentCreated, FieldChange, FieldChanged, Head, History, Problem, RefusedRequest, Result, RewardReceipt, Shown, Spec, StateChanged, Status, Summary } from "./types.js";
export type * from "./types.js";
/** What an item is called: a text, or a whole number that a double holds exactly. */
export type Item = string | number;
/** What each candidate would show, by name, or in the order of the candidates (null: no answer). */
export type Lists = Record<string, Item[]> | (Item[] | null)[];
/** What came back for some of the items of a decision, each in [0, 1]. */
export type Rewards = Map<Item, number> | [Item, number][];
export interface Options {
    /** As the service's first start shows it, or `comband token create`. */
    token?: string;
    /** Milliseconds for one attempt; 5,000 by default. */
    timeout?: number;
    /** How often a call is made again; 2 by default. */
    retries?: number;
    /** Milliseconds before the first repetition, twice as long before each further one; 200 by default. */
    pause?: number;
    /** In place of the global one. */
    fetch?: typeof fetch;
}
/** The service refused; `problem` says why and what to do. */
export declare class ServiceError extends Error {
    readonly problem: Problem;
    constructor(problem: Problem);
}
export declare class Client {
    #private;
    constructor(address: string, options?: Options);
    /** A new experiment. */
    create(spec: Spec): Promise<ExperimentCreated>;
    /** All experiments but for archived ones. */
    experiments(): Promise<Summary[]>;
    /** What to show for one request. */
    decide(name: string, lists: Lists, request?: string): Promise<Decision>;
    /** What to show for each of several requests; some may be refused: show lists of your own there. */
    decideMany(name: string, requests: {
        lists: Lists;
        request?: string;
    }[]): Promise<(Decision | RefusedRequest)[]>;
    /** What came back for some of the items of a decision, by its number or its ticket. */
    reward(name: string, decision: number | string, rewards: Rewards, metrics?: Record<string, Rewards>): Promise<RewardReceipt>;
    /** The same for several decisions; metrics by their names, with the rewards (or none of these) or when they are known. */
    rewardMany(name: string, rewards: [number | string, Rewards, Record<string, Rewards>?][]): Promise<RewardReceipt>;
    /** Where it stands, in full. */
    status(name: string): Promise<Status>;
    /** The answer. */
    result(name: string): Promise<Result>;
    /** The hash of all that is recorded so far, to be published elsewhere. */
    head(name: string): Promise<Head>;
    /** The file that others check, when all is over. */
    certificate(name: string): Promise<ArrayBuffer>;
    /** How it went, or what has been added since the point after so many decisions. */
    history(name: string, since?: number): Promise<History>;
    /** A decision as the journal has it. */
    decision(name: string, number: number): Promise<Shown>;
    /** Decide nothing for a while. */
    pause(name: string): Promise<StateChanged>;
    /** Go on deciding. */
    resume(name: string): Promise<StateChanged>;
    /** Decide nothing any more. */
    end(name: string): Promise<StateChanged>;
    /** A candidate joins, one is withdrawn, or both. */
    changeField(name: string, change: FieldChange): Promise<FieldChanged>;
    /** A new experiment with the settings of another one, and the candidates that are in its field now. */
    clone(name: string, as: string): Promise<ExperimentCreated>;
    /** Put an experiment that has ended out of the way. */
    archive(name: string): Promise<Archived>;
    /** Put it back among the others. */
    unarchive(name: string): Promise<Archived>;
    /** Delete an experiment that has ended, for good. */
    delete(name: string): Promise<Deleted>;
    /** Who changed what and when, the newest first; of one experiment, or of all. */
    audit(name?: string, before?: number): Promise<Audit>;
}
