// The page: asks the service's API, about once per second, and shows what it says. Whatever comes from outside goes into the
// document as text, never as markup.
"use strict";

(() => {
  const { draw, visible, number, rough, kinds, parts } = combandCharts;
  const { COLOUR, axis, titled, layout, rows, curve, along, shorten, height } = parts;
  const EVERY = 1000; // milliseconds
  const $ = (id) => document.getElementById(id);
  const put = (id, value) => {
    const words = visible(value);
    if ($(id).textContent !== words) $(id).textContent = words;
  };

  function made(tag, words, name) {
    const element = document.createElement(tag);
    if (words !== undefined) element.textContent = visible(words);
    if (name) element.className = name;
    return element;
  }

  // ---- asking the service -------------------------------------------------------------------------------------------

  class Refused extends Error {
    constructor(status, detail) {
      super(detail);
      this.status = status;
    }
  }

  let token = sessionStorage.getItem("comband-token") || "";

  async function ask(path, method = "GET") {
    const headers = { ...(token && { authorization: `Bearer ${token}` }), ...(method !== "GET" && { "content-type": "application/json" }) };
    const response = await fetch(path, { method, headers, cache: "no-store" });
    const body = await response.json();
    if (!response.ok) throw new Refused(response.status, body.detail || body.title || `status ${response.status}`);
    return body;
  }

  function refuse(error) {
    const asked = error.status === 401 || error.status === 403;
    if (asked) $("access").hidden = false;
    $("refusal").textContent = visible(error.status === 401 && token ? `The token was refused. ${error.message}` : error.message);
    $("refusal").hidden = false;
  }

  function accept() {
    $("refusal").hidden = true;
  }

  // ---- charts that only the page has --------------------------------------------------------------------------------

  kinds.shares = ({ candidates }, narrow) => {
    const shown = candidates.filter((one) => one.share !== null).sort((a, b) => b.share - a.share).slice(0, 12);
    return {
      traces: [{
        type: "bar", orientation: "h", x: shown.map((one) => one.share), y: shown.map((_, i) => i),
        marker: { color: shown.map((one) => (one.named ? COLOUR.best : one.state === "dropped" ? COLOUR.soft : COLOUR.mark)) },
        customdata: shown.map((one) => `<b>${shorten(one.name, 60)}</b><br>${number(100 * one.share)} % of the items that were ` +
          "shown lately<br>are in its lists too" + (one.state === "leader" && one.share === 1 ? "" : "; lists overlap")), hovertemplate: "%{customdata}<extra></extra>",
      }],
      layout: layout(narrow, { height: height(Math.max(shown.length, 6)), yaxis: rows(shown.map((one) => one.name), narrow),
        xaxis: axis({ title: titled("share of recently shown items"), tickformat: ".0%", rangemode: "tozero", nticks: 5 }) }),
      aria: "Share of the shown items that are in each candidate's lists",
    };
  };

  kinds.lost = (history, narrow) => curve(history, history.lost, history.lost.map((v, i) =>
    `<b>${number(v)}</b> rewards fewer than the leader<br>would have had, after ${number(history.rounds[i])} decisions`), narrow,
  { title: "rewards", shape: "linear" });

  // Minutes: at least ten of them, so that the first one is no wall.
  function clock(minutes, narrow) {
    const last = minutes.time.at(-1) + 60, first = Math.min(minutes.time[0], last - 600);
    return { ...along(minutes, narrow), range: [new Date(first * 1000), new Date(last * 1000)] };
  }

  kinds.rates = (minutes, narrow) => {
    const bars = (name, colour, values, side) => ({
      type: "bar", name, x: minutes.time.map((t) => new Date(t * 1000)), y: values, marker: { color: colour }, width: 26_000,
      offset: side * 27_000, hovertemplate: `%{y:,} ${name}<extra></extra>`,
    });
    return {
      traces: [bars("decisions", COLOUR.mark, minutes.decisions, 0), bars("rewards", COLOUR.best, minutes.rewards, 1)],
      layout: layout(narrow, { height: 280, showlegend: true, legend: { orientation: "h", y: 1.18, x: 0 }, xaxis: clock(minutes, narrow),
        yaxis: axis({ title: titled("per minute"), rangemode: "tozero", nticks: 6, tickformat: "," }), hovermode: "x unified" }),
      aria: "Decisions and rewards per minute",
    };
  };

  kinds.delays = (minutes, narrow) => {
    const words = minutes.delay.map((v, i) => (v === null ? "no rewards" : `<b>${number(v)}</b> seconds from decision to reward`) +
      (minutes.late[i] ? `<br>${number(minutes.late[i])} came too late` : ""));
    const chart = curve({ ...minutes, rounds: minutes.decisions }, minutes.delay, words, narrow,
      { title: "seconds, mean", shape: "linear", xaxis: clock(minutes, narrow) });
    chart.traces[0].mode = "lines+markers";
    return chart;
  };

  const shown = new Map(); // id -> what was drawn last

  function show(kind, data) {
    const text = JSON.stringify(data);
    if (shown.get(kind) === text || typeof Plotly === "undefined") return;
    shown.set(kind, text);
    draw(kind, $(kind), data);
  }

  // ---- all experiments ----------------------------------------------------------------------------------------------

  // The verdict's kind, and its class: green is for what is decided alone.
  const kindOf = (one) => (one.verdict ? one.verdict.kind : "cannot tell");
  const kindClass = (one) => kindOf(one).replaceAll(" ", "-");

  const left = (one) => (one.survivors === null || one.done ? "" :
    `${number(one.survivors)} of ${number(one.n_candidates)} candidates not ruled out`);
  const reached = (one) => (one.certified === null ? "nothing certified yet" : `ε = ${number(one.certified)} certified`);

  function card(one) {
    const link = made("a", undefined, "card");
    link.href = `#/experiments/${encodeURIComponent(one.name)}`;
    const title = made("h2", one.name);
    title.append(" ", made("span", one.state, `badge ${one.state}`), " ", made("span", kindOf(one), `badge ${kindClass(one)}`));
    link.append(title, made("p", one.answer || "Nothing is known yet."));
    const facts = [`${number(one.decisions)} decisions`, left(one), reached(one), one.epsilon === null ? "the smallest ε for the budget" : `asked for: ε = ${number(one.epsilon)}`];
    link.append(made("p", facts.filter(Boolean).join(" · "), "soft"));
    for (const words of one.warnings) link.append(made("p", words, "alarm"));
    return link;
  }

  let ended = []; // which do not change: asked for when there are more of them

  async function showList() {
    const { experiments: live, ended: n, archived } = await ask("/v1/experiments?state=live&limit=1000");
    put("archived", archived ? `${number(archived)} archived: GET /v1/experiments?state=archived lists them.` : "");
    if (ended.length !== Math.min(n, 1000)) ended = (await ask("/v1/experiments?state=ended&limit=1000")).experiments;
    const experiments = [...live, ...ended];
    const text = JSON.stringify(experiments);
    if (shown.get("list") !== text) {
      shown.set("list", text);
      $("experiments").replaceChildren(...experiments.map(card));
      $("none").hidden = experiments.length > 0;
    }
    document.title = "comband";
  }

  // ---- one experiment -----------------------------------------------------------------------------------------------

  const base = (name) => `/v1/experiments/${encodeURIComponent(name)}`;

  function compared(status) {
    const place = (one) => (one.state === "leader" ? 0 : one.state === "candidate" ? 1 : 2);
    const candidates = status.candidates
      .map((one) => ({ ...one, dropped: one.dropped_after, unjudged: "", named: one.state === "leader" && kindOf(status) === "decided" }))
      .filter((one) => one.difference !== null)
      .sort((a, b) => place(a) - place(b) || b.difference - a.difference);
    return { candidates, epsilon: status.certified, role: kindOf(status) === "decided" ? "the winner" : "the leader" };
  }

  function columns(status, history) {
    const column = (name) => history.points.map((point) => point[name]);
    return {
      time: column("time").map((t) => t / 1000), rounds: column("decisions"), survivors: column("survivors"),
      certified: column("certified"), forecast: column("forecast_decisions"), lost: column("reward_lost"), target: status.epsilon,
    };
  }

  function byMinute({ minutes }) {
    const column = (name) => minutes.map((minute) => minute[name]);
    return {
      time: column("time").map((t) => t / 1000), decisions: column("decisions"), rewards: column("rewards"), late: column("late"),
      delay: column("mean_delay_seconds"),
    };
  }

  const MINUTE = 60_000;
  const brief = (value, width = 24) => {
    const letters = Array.from(visible(value));
    return letters.length <= width ? letters.join("") : letters.slice(0, width - 1).join("") + "…";
  };

  // The last full minute by the clock, whether anything happened in it or not; this one where there is no other yet.
  function lately({ minutes }, now, created) {
    const current = Math.floor(now / MINUTE) * MINUTE, first = created >= current;
    const nothing = { decisions: 0, rewards: 0, mean_delay_seconds: null };
    const last = minutes.findLast((one) => one.decisions > 0), idle = last ? Math.floor((current - last.time) / MINUTE) : 0;
    const row = minutes.find((one) => one.time === current - (first ? 0 : MINUTE)) || nothing;
    const when = first ? "this minute" : "last full minute";
    return { row, when, idle: idle > 1 ? `none for ${number(idle - 1)} min` : when };
  }

  function standing(status) {
    if (!status.done) return ["candidates not ruled out", number(status.survivors), `of ${number(status.n_candidates)}`];
    const others = status.survivors - 1;
    const beside = others > 0 ? `; ${number(others)} more ${others > 1 ? "were" : "was"} not ruled out` : "";
    return [status.winner ? "winner" : "shown from now on", brief(status.winner || status.shown), `of ${number(status.n_candidates)}${beside}`];
  }

  function facts(status, history) {
    const togo = status.forecast_decisions, { row, when, idle } = lately(history, status.time, status.created);
    return [
      ["decisions", number(status.decisions), `${number(status.settled)} settled`],
      standing(status),
      ["certified ε", number(status.certified), status.epsilon === null ? "the smallest that the budget certifies" : `asked for: ${number(status.epsilon)}`],
      ["decisions to go", status.done ? "0" : togo === null ? "–" : `~${rough(togo)}`, status.done ? "done" : "a rough guess"],
      ["reward lost so far", number(status.reward_lost), `${number(status.reward)} came in`],
      ["decisions per minute", number(row.decisions), idle],
      ["rewards per minute", number(row.rewards), when],
      ["delay of rewards", row.mean_delay_seconds !== null ? `${number(row.mean_delay_seconds)} s` : "–", `mean, ${when}`],
    ];
  }

  // What was said when the experiment was created, which does not change; what has its default is in "Every number".
  function declared(rows, created) {
    const said = rows.filter((one) => one.said || one.name === "delta" || one.name === "places");
    return [
      ["created", new Date(created).toISOString().slice(0, 16).replace("T", " "), "UTC"],
      ...said.map((one) => [one.name.replaceAll("_", " "), brief(one.value), one.text]),
    ];
  }

  function tiles(id, list) {
    if ($(id).children.length !== list.length)
      $(id).replaceChildren(...list.map(() => {
        const tile = made("div"), value = made("dd");
        value.append(made("span"), made("small"));
        tile.append(made("dt"), value);
        return tile;
      }));
    list.forEach(([name, value, more], i) => {
      const tile = $(id).children[i];
      for (const [element, words] of [[tile.children[0], name], [tile.querySelector("span"), value], [tile.querySelector("small"), more]])
        if (element.textContent !== words) element.textContent = words;
    });
  }

  function guard(one) {
    const item = made("li");
    item.append(made("strong", one.warning ? "⚠ " : "✓ ", one.warning ? "alarm" : "good"), made("span", one.watches));
    if (one.warning) item.append(made("p", one.warning, "alarm"));
    return item;
  }

  function byMetric(one) {
    const item = made("li"), safe = one.standing === "safe";
    item.append(
      made("strong", safe ? "✓ " : one.standing === "harmful" ? "⚠ " : "… ", one.standing === "harmful" ? "alarm" : "good"),
      made("span", `${one.name}: ${one.metric} ${number(one.difference)} ± ${number(one.error)} (${one.margin}): ${one.standing}`),
    );
    return item;
  }

  // What changes when somebody has changed something.
  const gone = (status) => `${status.n_candidates} ${(status.withdrawn || []).length}`;

  function entry(one) {
    const line = made("tr");
    const { spec, ...more } = one.detail;
    const words = Object.entries(more).filter(([, value]) => value !== null).map(([key, value]) => `${key}: ${value}`).join(", ");
    for (const cell of [new Date(one.time).toISOString().slice(0, 19).replace("T", " "), one.actor, one.action, words]) line.append(made("td", cell));
    return line;
  }

  function row(one) {
    const line = made("tr", undefined, one.named ? "best" : "");
    const share = one.share === null ? "–" : `${number(100 * one.share)} %`;
    const names = [...document.querySelectorAll("thead th")].map((head) => head.textContent);
    [one.name, number(one.value), number(one.low), number(one.high), number(one.difference), number(one.bound),
      share, one.dropped_after === null ? "" : number(one.dropped_after)].forEach((words, i) => {
      const cell = made("td", words);
      cell.dataset.label = names[i];
      line.append(cell);
    });
    return line;
  }

  function once(key, data, fill) {
    const text = JSON.stringify(data);
    if (shown.get(key) !== text) {
      shown.set(key, text);
      fill();
    }
  }

  // What is known of an experiment's history: only what is new is asked for, and all of it again when that has become long.
  let past = { name: null, points: [], minutes: [] };

  async function historyOf(name) {
    const known = past.name === name && past.points.length && past.points.length < 1500 ? past : { points: [], minutes: [] };
    const since = known.points.length ? `?since=${known.points.at(-1).decisions}` : "";
    const { points, minutes } = await ask(`${base(name)}/history${since}`);
    const before = (rows, key, news) => (news.length ? rows.filter((row) => row[key] < news[0][key]) : rows);
    past = {
      name, points: [...before(known.points, "decisions", points), ...points],
      minutes: [...before(known.minutes, "time", minutes), ...minutes].slice(-180),
    };
    return past;
  }

  // Nothing changes any more: it has ended, and all is settled and learnt.
  const isOver = (status) =>
    status.state === "ended" && status.settled === status.decisions && (status.done || status.rounds === status.settled);

  let over = false;
  let state = "";
  let archived = false;
  let pressed = null; // the state that was asked for and is not seen yet

  function buttons(status) {
    const ended = status.state === "ended";
    $("pause").textContent = status.state === "paused" ? "Resume" : "Pause";
    $("pause").disabled = $("end").disabled = ended || pressed !== null;
    $("archive").hidden = !ended;
    $("archive").textContent = status.archived === null ? "Archive" : "Put back";
    archived = status.archived !== null;
  }

  async function showOne(name) {
    const [status, history] = await Promise.all([ask(`${base(name)}/status`), historyOf(name)]);
    if (current() !== name) return;
    over = isOver(status);
    $("one").hidden = false; // before anything is drawn: a chart takes the width that it sees
    if (pressed === status.state) pressed = null;
    document.title = `${visible(status.name)}: comband`;
    put("name", status.name);
    put("note", status.note);
    state = status.state;
    put("state", state);
    $("state").className = `badge ${status.state}`;
    put("kind", kindOf(status));
    $("kind").className = `badge ${kindClass(status)}`;
    put("answer", status.answer || "Nothing is known yet: no decision is settled.");
    put("next", status.next_step);
    put("lift", status.lift ? status.lift.text : "");
    once("warnings", status.warnings, () => $("warnings").replaceChildren(...status.warnings.map((words) => made("p", words, "alarm"))));
    buttons(status);
    tiles("numbers", facts(status, history));
    if (!shown.has("spec")) {
      const { declared: rows, created } = await ask(base(name));
      if (current() !== name) return;
      shown.set("spec", name);
      tiles("declared", declared(rows, created));
    }
    put("removed", status.removed_note);
    if ($("checking").open) await showHead(name);
    if (!shown.has("trail") || shown.get("trail of") !== `${state} ${status.archived} ${gone(status)}`) {
      const { changes } = await ask(`/v1/audit?experiment=${encodeURIComponent(name)}`);
      if (current() !== name) return;
      shown.set("trail of", `${state} ${status.archived} ${gone(status)}`);
      once("trail", changes, () => $("trail").replaceChildren(...changes.map(entry)));
    }
    const guarded = status.guarded || [];
    $("metrics").hidden = !guarded.length;
    once("guarded", guarded, () => $("guarded").replaceChildren(...guarded.map(byMetric)));
    once("guards", status.guards, () => $("guards").replaceChildren(...status.guards.map(guard)));
    const comparison = compared(status), points = columns(status, history), minutes = byMinute(history);
    const away = status.withdrawn || [];
    put("withdrawn", away.length ? `Withdrawn, and in none of these numbers: ${away.map(visible).join(", ")}.` : "");
    once("rows", status.candidates, () => $("rows").replaceChildren(...comparison.candidates.map(row)));
    if (comparison.candidates.length) {
      const most = Math.max(12, Math.min(30, status.survivors)), all = comparison.candidates.length;
      const first = { ...comparison, candidates: comparison.candidates.slice(0, most) };
      show("differences", first);
      show("values", first);
      put("more", all > most ? `The first ${most} of ${number(all)}; the table below has all.` : "");
      show("shares", comparison);
    }
    if (points.time.length) for (const kind of ["field", "certificate", "lost"]) show(kind, points);
    if (minutes.time.length) for (const kind of ["rates", "delays"]) show(kind, minutes);
    document.documentElement.dataset.shown = status.name;
  }

  async function showHead(name) {
    try {
      const { head, records, decisions, ended } = await ask(`${base(name)}/head`);
      put("head", `Head ${head}, of ${number(records)} records and ${number(decisions)} decisions. Publish it: nothing up to here can ` +
        `be changed without notice. ${ended ? "Nothing more comes in." : "The certificate is made when the experiment has ended and no window is open."}`);
      $("certify").hidden = !ended;
    } catch (error) {
      put("head", error.message);
      $("certify").hidden = true;
    }
  }

  async function certify() {
    const name = current(), headers = token ? { authorization: `Bearer ${token}` } : {};
    const response = await fetch(`${base(name)}/certificate`, { headers, cache: "no-store" });
    if (!response.ok) return refuse(new Refused(response.status, (await response.json()).detail));
    const link = made("a", ""), address = URL.createObjectURL(await response.blob());
    link.href = address;
    link.download = `${name}-certificate.zip`;
    link.click();
    URL.revokeObjectURL(address);
  }

  function addresses(name) {
    $("addresses").replaceChildren(...["", "/status", "/history", "/result"].map((part) => {
      const button = made("button", `GET ${base(name)}${part}`);
      button.type = "button";
      button.addEventListener("click", async () => {
        try {
          $("raw").textContent = visible(JSON.stringify(await ask(base(name) + part), null, 2)).replaceAll("\\u000a", "\n");
          $("raw").hidden = false;
        } catch (error) {
          refuse(error);
        }
      });
      return button;
    }));
    $("raw").hidden = true;
  }

  async function change(verb, state) {
    const name = current();
    $("pause").disabled = $("end").disabled = true;
    pressed = state;
    try {
      await ask(`${base(name)}/${verb}`, "POST");
      accept();
    } catch (error) {
      pressed = null;
      refuse(error);
    }
    sure(false);
    await tick();
  }

  function sure(asked) {
    $("sure").hidden = $("keep").hidden = $("consequence").hidden = !asked;
    $("end").hidden = asked;
  }

  $("pause").addEventListener("click", () =>
    state === "paused" ? change("resume", "running") : change("pause", "paused"));
  $("archive").addEventListener("click", () => change(archived ? "unarchive" : "archive", null));
  $("end").addEventListener("click", () => sure(true));
  $("checking").addEventListener("toggle", () => $("checking").open && current() && showHead(current()));
  $("certify").addEventListener("click", () => certify().catch(refuse));
  $("keep").addEventListener("click", () => sure(false));
  $("sure").addEventListener("click", () => change("end", "ended"));

  // ---- signing in ---------------------------------------------------------------------------------------------------

  $("sign").addEventListener("click", () => {
    $("access").hidden = !$("access").hidden;
    if (!$("access").hidden) $("token").focus();
  });
  $("access").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    sessionStorage.setItem("comband-token", token);
    $("token").value = "";
    $("access").hidden = true;
    accept();
    tick();
  });
  $("forget").addEventListener("click", () => {
    token = "";
    sessionStorage.removeItem("comband-token");
    $("access").hidden = true;
    accept();
    tick();
  });

  // ---- where we are, and once per second ----------------------------------------------------------------------------

  function current() {
    const found = location.hash.match(/^#\/experiments\/(.+)$/);
    try {
      return found ? decodeURIComponent(found[1]) : null;
    } catch {
      return found[1];
    }
  }

  let timer = 0;

  async function tick() {
    clearTimeout(timer);
    const name = current();
    over = false;
    try {
      if (!document.hidden) {
        await (name === null ? showList() : showOne(name));
        $("list").hidden = name !== null;
        $("one").hidden = name === null;
        put("live", over ? "ended" : "live");
        if ($("refusal").dataset.kind === "reading") accept();
        delete $("refusal").dataset.kind;
      }
    } catch (error) {
      if (error instanceof Refused) {
        $("list").hidden = $("one").hidden = true;
        refuse(error);
        $("refusal").dataset.kind = "reading";
        put("live", "");
      } else {
        put("live", "no connection; trying again");
      }
    }
    clearTimeout(timer);
    if (!over) timer = setTimeout(tick, EVERY);
  }

  function moved() {
    shown.clear();
    accept();
    sure(false);
    pressed = null;
    $("list").hidden = $("one").hidden = true;
    delete document.documentElement.dataset.shown;
    const name = current();
    if (name !== null) addresses(name);
    scrollTo(0, 0);
    tick();
  }

  window.addEventListener("hashchange", moved);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
  moved();
})();
