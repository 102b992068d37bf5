// The charts of reports and of the service's page, drawn by plotly from plain data. Names come from outside: they reach
// plotly through `text` only, and the document as text nodes only.
"use strict";

const combandCharts = (() => {
  // Legible on a light page and on a dark one; text, grid and background follow the page's style sheet.
  const COLOUR = { best: "#2a9d63", mark: "#3a86d8", soft: "#8a93a3", limit: "#d9722b" };
  const MOST = 40; // rows
  const NARROW = 600; // pixels
  const drawn = new Map(); // element -> [kind, data]

  const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;
  const visible = (value) =>
    String(value).replace(UNSEEN, (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
  // Plotly reads tags and entities in its texts.
  const text = (value) =>
    visible(value).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const shorten = (value, width) => {
    const all = Array.from(visible(value));
    return text(all.length <= width ? all.join("") : all.slice(0, width - 1).join("") + "…");
  };
  const number = (value, digits = 3) =>
    value === null || value === undefined || !isFinite(value) ? "–"
      : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(digits)));
  const rough = (value) => Number(value.toPrecision(2)).toLocaleString("en-US");

  const axis = (more) => ({ automargin: true, ticks: "outside", ticklen: 5, tickcolor: "rgba(0,0,0,0)", zeroline: false, gridcolor: "#888888", title: {}, ...more });
  const titled = (words) => ({ text: words, standoff: 10, font: { size: 12 } });

  function layout(narrow, more) {
    return {
      autosize: true, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12 }, margin: { l: 8, r: narrow ? 12 : 24, t: 28, b: 8 },
      hoverlabel: { bgcolor: "#1c2330", bordercolor: "#1c2330", font: { color: "#ffffff", size: 12 }, align: "left" },
      dragmode: narrow ? false : "zoom", uirevision: "kept", ...more,
    };
  }

  function rows(names, narrow) {
    return axis({
      tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names.map((name) => shorten(name, narrow ? 14 : 30)),
      range: [names.length - 0.4, -0.6], fixedrange: true, showgrid: false,
    });
  }

  const kindOf = (one, i) => (i === 0 && one.named === true ? "best" : one.dropped === null ? "mark" : "soft");

  function segments(candidates, ends) {
    return ["best", "mark", "soft"].map((kind) => {
      const x = [], y = [];
      candidates.forEach((one, i) => {
        if (kindOf(one, i) === kind) {
          x.push(...ends(one), null);
          y.push(i, i, null);
        }
      });
      return { type: "scatter", mode: "lines", x, y, line: { color: COLOUR[kind], width: 3 }, hoverinfo: "skip" };
    });
  }

  function dots(candidates, at, words) {
    return {
      type: "scatter", mode: "markers", x: candidates.map(at), y: candidates.map((_, i) => i),
      marker: {
        size: 9, color: candidates.map((one, i) => COLOUR[kindOf(one, i)]),
        symbol: candidates.map((one) => (one.dropped === null ? "circle" : "circle-open")),
      },
      text: candidates.map(words), hovertemplate: "%{text}<extra></extra>",
    };
  }

  const upright = (x, colour, dash) => ({
    type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: { color: colour, width: 1.5, dash },
  });
  const level = (y, colour, dash) => ({
    type: "line", xref: "paper", yref: "y", x0: 0, x1: 1, y0: y, y1: y, line: { color: colour, width: 1.5, dash },
  });
  const label = (more) => ({ showarrow: false, font: { size: 12, color: COLOUR.limit }, ...more });
  let paper = false;
  const height = (n) => 86 + (paper ? 15 : 20) * n;

  const left = (one) => (one.dropped === null ? "" : `<br>dropped after ${number(one.dropped)} rounds: not the best`);
  const noted = (one) => (one.unjudged ? `<br>cannot be judged: ${shorten(one.unjudged, 70)}` : "");

  function differences({ candidates, epsilon, role = "the winner" }, narrow) {
    const shown = candidates.slice(0, MOST), winner = candidates[0];
    const known = epsilon !== null; // while an experiment runs, nothing may be certified yet
    const words = (one, i) =>
      i === 0 ? `<b>${shorten(one.name, 60)}</b><br>${role}`
        : `<b>${shorten(one.name, 60)}</b><br>difference ${number(one.difference)}` +
          `<br>if it is the best, better by at most ${number(one.bound)}${left(one)}${noted(one)}`;
    const ends = {
      type: "scatter", mode: "markers", x: shown.slice(1).map((one) => one.bound), y: shown.slice(1).map((_, i) => i + 1),
      marker: { size: 11, symbol: "line-ns-open", line: { width: 2 },
        color: shown.slice(1).map((one, i) => COLOUR[kindOf(one, i + 1)]) },
      text: shown.slice(1).map((one, i) => words(one, i + 1)), hovertemplate: "%{text}<extra></extra>",
    };
    return {
      traces: [...segments(shown, (one) => [one.difference, one.bound]), ends, dots(shown, (one) => one.difference, words)],
      layout: layout(narrow, {
        height: height(shown.length) + 24, yaxis: rows(shown.map((one) => one.name), narrow),
        margin: { l: 8, r: narrow ? 12 : 24, t: 52, b: 8 }, // the tool bar is above the label of ε
        xaxis: axis({ title: titled(narrow ? `rewards per round more than ${role}`
          : `rewards per round more than ${shorten(winner.name, 40)}`), nticks: narrow ? 5 : 9, tickangle: 0 }),
        shapes: [upright(0, COLOUR.soft, "solid"), ...(known ? [upright(epsilon, COLOUR.limit, "dash")] : [])],
        annotations: known ? [label({ x: epsilon, y: 1, yref: "paper", yanchor: "bottom", xanchor: "right", text: `ε = ${number(epsilon)}` })] : [],
      }),
      aria: `Differences to ${role} with their bounds`,
    };
  }

  function values({ candidates }, narrow) {
    const shown = candidates.slice(0, MOST);
    const words = (one) =>
      `<b>${shorten(one.name, 60)}</b><br>value ${number(one.value)}` +
      `<br>between ${number(one.low)} and ${number(one.high)}${left(one)}${noted(one)}`;
    return {
      traces: [...segments(shown, (one) => [one.low, one.high]), dots(shown, (one) => one.value, words)],
      layout: layout(narrow, {
        height: height(shown.length), yaxis: rows(shown.map((one) => one.name), narrow),
        xaxis: axis({ title: titled("rewards per round"), rangemode: "tozero", nticks: narrow ? 5 : 9, tickangle: 0 }),
      }),
      aria: "Values with intervals",
    };
  }

  function forest({ name, rows: told }, narrow) {
    const shown = told.slice(0, MOST + 1).map((one) => ({ ...one, dropped: one === told[0] ? 0 : null }));
    const words = (one) =>
      `<b>${shorten(one.name, 60)}</b><br>${number(one.difference)} more than production` +
      `<br>between ${number(one.low)} and ${number(one.high)}`;
    return {
      traces: [...segments(shown, (one) => [one.low, one.high]), dots(shown, (one) => one.difference, words)],
      layout: layout(narrow, {
        height: height(shown.length), yaxis: rows(shown.map((one) => one.name), narrow),
        xaxis: axis({ title: titled(narrow ? "rewards per round more"
          : `rewards per round that ${shorten(name, 40)} collects more than production`), nticks: narrow ? 5 : 9, tickangle: 0 }),
        shapes: [upright(0, COLOUR.soft, "solid")],
      }),
      aria: "Lift by segment with intervals",
    };
  }

  // Histories are columns: rounds, or time where they have it.
  const across = (history) => (history.time ? history.time.map((t) => new Date(t * 1000)) : history.rounds);
  const along = (history, narrow) => history.time
    ? axis({ type: "date", nticks: narrow ? 4 : 8, title: {} })
    : axis({ title: titled("rounds"), rangemode: "tozero", nticks: narrow ? 5 : 9, tickangle: 0, tickformat: ",d" });

  function curve(history, y, words, narrow, { title, shape = "hv", fill = "none", ...more }) {
    return {
      traces: [{
        type: "scatter", mode: y.length === 1 ? "markers" : "lines", x: across(history), y, text: words, fill,
        line: { color: COLOUR.mark, width: 2.5, shape }, marker: { color: COLOUR.mark }, fillcolor: "rgba(58,134,216,0.15)",
        hovertemplate: "%{text}<extra></extra>", connectgaps: false,
      }],
      layout: layout(narrow, {
        height: 280, xaxis: along(history, narrow), hovermode: "x",
        yaxis: axis({ title: titled(title), rangemode: "tozero", nticks: 6 }), ...more,
      }),
      aria: title,
    };
  }

  const moment = (history, i) => `after ${number(history.rounds[i])} rounds`;

  function field(history, narrow) {
    const words = history.survivors.map((n, i) => `<b>${number(n)}</b> may still be the best<br>${moment(history, i)}`);
    return curve(history, history.survivors, words, narrow, { title: "candidates left", fill: "tozeroy" });
  }

  // 1, 2, 5 times powers of ten, written out: plotly's own marks between powers are single digits.
  function logTicks(values) {
    const known = values.filter((v) => v !== null && v > 0);
    if (known.length === 0) return {};
    const low = Math.log10(Math.min(...known)), high = Math.log10(Math.max(...known)), marks = [];
    for (let power = Math.floor(low) - 1; power <= Math.ceil(high); power++)
      for (const digit of high - low > 3 ? [1] : [1, 2, 5]) marks.push(Number((digit * 10 ** power).toPrecision(3)));
    return { tickvals: marks, ticktext: marks.map((v) => number(v)), range: [low - 0.25, high + 0.12] };
  }

  function certificate({ target, ...history }, narrow) {
    const last = history.rounds.length - 1, togo = history.forecast[last], now = history.certified[last];
    const words = history.certified.map((v, i) =>
      (v === null ? "nothing is certified yet" : `no candidate is better by more than <b>${number(v)}</b>`) +
      `<br>${moment(history, i)}` + (history.forecast[i] ? `<br>roughly ${rough(history.forecast[i])} to go` : ""));
    const marks = [...history.certified, target ?? null];
    const chart = curve(history, history.certified, words, narrow, {
      title: "certified ε (rewards per round)",
      yaxis: axis({ type: "log", title: titled("certified ε"), ...logTicks(marks) }),
      shapes: target ? [level(target, COLOUR.limit, "dash")] : [],
      annotations: target ? [label({ x: 0, xref: "paper", xanchor: "left", y: Math.log10(target), yanchor: "top",
        text: `asked for: ε = ${number(target)}` })] : [],
    });
    if (target && togo > 0 && now !== null && now > target) {
      const x = across(history), from = x[last];
      const pace = history.time && last > 0
        ? (history.time[last] - history.time[0]) / Math.max(history.rounds[last] - history.rounds[0], 1) : 0;
      if (!history.time || pace > 0) {
        const end = history.time ? new Date((history.time[last] + togo * pace) * 1000) : history.rounds[last] + togo;
        const until = history.time ? ` (${end.toLocaleString()})` : "";
        chart.traces.push({
          type: "scatter", mode: "lines+markers", x: [from, end], y: [now, target], line: { color: COLOUR.soft, dash: "dot", width: 2 },
          marker: { color: COLOUR.soft, size: [0, 9], symbol: "circle-open" }, hovertemplate: "%{text}<extra></extra>",
          text: ["", `expected: roughly ${rough(togo)} rounds to go${until}`],
        });
      }
    }
    return chart;
  }

  function forecast(history, narrow) {
    const total = history.forecast.map((v, i) => (v === null ? null : history.rounds[i] + v));
    const words = total.map((v, i) => (v === null ? "no end in sight" : `an end after roughly <b>${rough(v)}</b> rounds`) +
      ` was expected<br>${moment(history, i)}`);
    return curve(history, total, words, narrow, {
      title: "rounds expected in all", shape: "linear", yaxis: axis({
        title: titled("rounds expected in all"), rangemode: "tozero", nticks: 6, tickformat: ",d",
      }),
    });
  }

  function needed(methods, narrow) {
    const words = methods.map((one) => (one.finished ? "" : "more than ") + number(one.rounds));
    const longest = Math.max(...methods.map((one) => one.rounds));
    return {
      traces: [{
        type: "bar", orientation: "h", x: methods.map((one) => one.rounds), y: methods.map((_, i) => i), text: words,
        textposition: "outside", cliponaxis: false, hovertemplate: "%{customdata}<extra></extra>",
        customdata: methods.map((one, i) => `<b>${shorten(one.method, 60)}</b><br>${words[i]} rounds<br>certified by then: ` +
          (one.epsilon === null ? "nothing" : number(one.epsilon))),
        marker: { color: methods.map((one, i) => (i === 0 && one.finished ? COLOUR.best : COLOUR.mark)),
          opacity: methods.map((one) => (one.finished ? 1 : 0.55)),
          pattern: { shape: methods.map((one) => (one.finished ? "" : "/")), fillmode: "overlay", fgopacity: 0.5 } },
      }],
      layout: layout(narrow, {
        height: 90 + 40 * methods.length, yaxis: rows(methods.map((one) => one.method), narrow),
        xaxis: axis({ title: titled("rounds"), range: [0, longest * (narrow ? 1.7 : 1.25)], nticks: narrow ? 4 : 9, tickformat: ",d" }),
      }),
      aria: "Rounds to the same certainty",
    };
  }

  const KINDS = { differences, values, forest, field, certificate, forecast, needed };

  function draw(kind, element, data, width) {
    drawn.set(element, [kind, data]);
    const narrow = (width || element.clientWidth || window.innerWidth) < NARROW;
    const chart = KINDS[kind](data, narrow);
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", chart.aria);
    if (width) chart.layout = { ...chart.layout, autosize: false, width };
    return Plotly.react(element, chart.traces, chart.layout, {
      responsive: !width, displaylogo: false, scrollZoom: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    });
  }

  function redraw(width) {
    for (const [element, [kind, data]] of drawn) draw(kind, element, data, width);
  }

  let last = window.innerWidth;
  window.addEventListener("resize", () => {
    if (last < NARROW !== window.innerWidth < NARROW) redraw();
    last = window.innerWidth;
  });
  // Paper has a width of its own, and no page to follow.
  const print = (begun) => () => {
    paper = begun;
    redraw(begun ? 680 : undefined);
  };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));

  return { draw, redraw, visible, number, rough, kinds: KINDS, parts: { COLOUR, axis, titled, layout, rows, curve, text, shorten, across, along, height } };
})();
