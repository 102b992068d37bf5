// The decision service from browsers and Node: fetch, and nothing else. Types are those of its OpenAPI description
// (types.ts, which tools/client_types.py writes).
//
// A call is made again when the service cannot be reached, or says "not now" (503) or "too many" (429). Decisions carry
// a request id, which is made once for each, and rewards are counted once: nothing happens twice.
/** The service refused; `problem` says why and what to do. */
export class ServiceError extends Error {
    problem;
    constructor(problem) {
        super(`${problem.status} ${problem.title}: ${problem.detail}`);
        this.problem = problem;
        this.name = "ServiceError";
    }
}
export class Client {
    #address;
    #options;
    constructor(address, options = {}) {
        this.#address = address.replace(/\/+$/, "");
        this.#options = options;
    }
    /** A new experiment. */
    create(spec) {
        return this.#call("POST", "/v1/experiments", spec, false);
    }
    /** All experiments but for archived ones. */
    async experiments() {
        const found = [];
        for (let after = 0; after !== null;) {
            const page = await this.#call("GET", `/v1/experiments?after=${after}`);
            found.push(...page.experiments);
            after = page.next ?? null;
        }
        return found;
    }
    /** What to show for one request. */
    async decide(name, lists, request = newId()) {
        const [made] = await this.decideMany(name, [{ lists, request }]);
        if (made === undefined || "status" in made) {
            throw new ServiceError(made ?? { title: "Not an answer of comband", status: 200, detail: "no decision" });
        }
        return made;
    }
    /** What to show for each of several requests; some may be refused: show lists of your own there. */
    async decideMany(name, requests) {
        const body = requests.map(({ lists, request }) => ({ lists, request: request ?? newId() }));
        const answer = await this.#call("POST", `${path(name)}/decisions`, body);
        const refused = new Map((answer.refused ?? []).map((one) => [one.index, one]));
        return answer.decisions.map((made, i) => made ?? refused.get(i));
    }
    /** What came back for some of the items of a decision, by its number or its ticket. */
    reward(name, decision, rewards, metrics = {}) {
        return this.rewardMany(name, [[decision, rewards, metrics]]);
    }
    /** The same for several decisions; metrics by their names, with the rewards (or none of these) or when they are known. */
    rewardMany(name, rewards) {
        const body = rewards.map(([decision, some, metrics]) => ({
            decision,
            rewards: [...some],
            metrics: Object.fromEntries(Object.entries(metrics ?? {}).map(([metric, values]) => [metric, [...values]])),
        }));
        return this.#call("POST", `${path(name)}/rewards`, body);
    }
    /** Where it stands, in full. */
    status(name) {
        return this.#call("GET", `${path(name)}/status`);
    }
    /** The answer. */
    result(name) {
        return this.#call("GET", `${path(name)}/result`);
    }
    /** The hash of all that is recorded so far, to be published elsewhere. */
    head(name) {
        return this.#call("GET", `${path(name)}/head`);
    }
    /** The file that others check, when all is over. */
    certificate(name) {
        return this.#call("GET", `${path(name)}/certificate`);
    }
    /** How it went, or what has been added since the point after so many decisions. */
    history(name, since) {
        return this.#call("GET", `${path(name)}/history${since === undefined ? "" : `?since=${since}`}`);
    }
    /** A decision as the journal has it. */
    decision(name, number) {
        return this.#call("GET", `${path(name)}/decisions/${number}`);
    }
    /** Decide nothing for a while. */
    pause(name) {
        return this.#call("POST", `${path(name)}/pause`, {});
    }
    /** Go on deciding. */
    resume(name) {
        return this.#call("POST", `${path(name)}/resume`, {});
    }
    /** Decide nothing any more. */
    end(name) {
        return this.#call("POST", `${path(name)}/end`, {});
    }
    /** A candidate joins, one is withdrawn, or both. */
    changeField(name, change) {
        return this.#call("POST", `${path(name)}/candidates`, change, false);
    }
    /** A new experiment with the settings of another one, and the candidates that are in its field now. */
    clone(name, as) {
        return this.#call("POST", `${path(name)}/clone`, { name: as }, false);
    }
    /** Put an experiment that has ended out of the way. */
    archive(name) {
        return this.#call("POST", `${path(name)}/archive`, {});
    }
    /** Put it back among the others. */
    unarchive(name) {
        return this.#call("POST", `${path(name)}/unarchive`, {});
    }
    /** Delete an experiment that has ended, for good. */
    delete(name) {
        return this.#call("DELETE", path(name), undefined, false);
    }
    /** Who changed what and when, the newest first; of one experiment, or of all. */
    audit(name, before) {
        const query = new URLSearchParams();
        if (name !== undefined)
            query.set("experiment", name);
        if (before !== undefined)
            query.set("before", String(before));
        return this.#call("GET", `/v1/audit?${query}`);
    }
    async #call(method, path, body, again = true) {
        const { token, timeout = 5000, retries = 2, pause = 200, fetch: call = globalThis.fetch } = this.#options;
        const headers = { "content-type": "application/json" };
        if (token !== undefined)
            headers["authorization"] = `Bearer ${token}`;
        const text = body === undefined ? null : JSON.stringify(body); // once: the same request ids each time
        for (let attempt = 0;; attempt++) {
            const last = !again || attempt >= retries;
            let wait = pause * 2 ** attempt * (0.5 + Math.random() / 2);
            try {
                const response = await call(this.#address + path, { method, headers, body: text, signal: AbortSignal.timeout(timeout) });
                if (response.ok) {
                    const isFile = response.headers.get("content-type") === "application/zip";
                    return (await (isFile ? response.arrayBuffer() : response.json()));
                }
                if (last || (response.status !== 429 && response.status !== 503))
                    throw new ServiceError(await problemOf(response));
                wait = Math.max(wait, 1000 * Math.min(Number(response.headers.get("retry-after")) || 0, 10));
            }
            catch (error) {
                if (last || error instanceof ServiceError)
                    throw error;
            }
            await new Promise((resolve) => setTimeout(resolve, wait));
        }
    }
}
const path = (name) => `/v1/experiments/${encodeURIComponent(name)}`;
function newId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
async function problemOf(response) {
    const text = await response.text();
    try {
        const found = JSON.parse(text);
        if (typeof found.detail === "string")
            return found;
    }
    catch {
        // another program answered
    }
    return { title: "Not an answer of comband", status: response.status, detail: text.slice(0, 200) };
}
