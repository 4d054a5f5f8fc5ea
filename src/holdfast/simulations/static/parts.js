// Parts that several simulations show: choices, tiles, the states of a row, its columns, workers, and the log.
import { clock, h, mark, text, unique } from "./dom.js";

// A choice of one of several, as a labelled list.
export function choice(label, options, chosen, changed) {
  const id = unique("choice");
  const list = h(
    "select",
    { id, onchange: () => changed(list.value) },
    Object.entries(options).map(([value, words]) => h("option", { value, selected: value === chosen }, words)),
  );
  return h("span", { class: "field" }, h("label", { for: id }, label), list);
}

export function toggle(label, on, changed) {
  const id = unique("toggle");
  const box = h("input", { id, type: "checkbox", checked: on, onchange: () => changed(box.checked) });
  return h("span", { class: "field toggle" }, box, h("label", { for: id }, label));
}

// A number with its name. `tone` colours it.
export function tile(label, hint = "") {
  const value = h("strong", {}, "0");
  const element = h("div", { class: "tile" }, h("span", { class: "name" }, label), value, hint ? h("span", { class: "hint" }, hint) : "");
  return {
    element,
    show(words, tone = "plain") {
      text(value, words);
      element.dataset.tone = tone;
    },
  };
}

const STATES = {
  pending: ["○", "pending", "waits for a worker"],
  processing: ["●", "processing", "a worker holds it"],
  completed: ["✓", "completed", "in the archive"],
  dead_letter: ["✕", "dead letter", "waits for you"],
};

export function states() {
  const places = Object.entries(STATES).map(([state, [sign, name, words]]) => {
    const element = h("li", { class: `state ${state}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign), h("b", {}, name), h("small", {}, words));
    return [state, element];
  });
  return {
    element: h("ol", { class: "states", "aria-label": "Where the row is" }, places.map(([, element]) => element)),
    show(current) {
      for (const [state, element] of places) {
        mark(element, "current", state === current);
        if (state === current) element.setAttribute("aria-current", "true");
        else element.removeAttribute("aria-current");
      }
    },
  };
}

const COLUMNS = [
  ["state", "status", (row) => row.state],
  ["owner", "claimed_by", (row) => (row.owner ? `worker ${row.owner}` : "–")],
  ["generation", "lease_generation", (row) => row.generation],
  ["attempts", "attempts", (row) => `${row.attempts} of ${row.max_attempts}`],
  ["lease", "lease_expires_at", (row, now) => (row.lease ? (row.lease < now ? `${clock(row.lease)}, over` : `${clock(row.lease)}, in ${row.lease - now} s`) : "–")],
  ["available", "available_at", (row, now) => (row.available > now ? `${clock(row.available)}, in ${row.available - now} s` : clock(row.available))],
];

// The row, as a query would show it. What the last step changed is marked.
export function rowTable() {
  const cells = COLUMNS.map(([field, name]) => {
    const value = h("td", {});
    return { field, value, line: h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), value) };
  });
  const left = h("span", {});
  const bar = h("div", { class: "lease", "aria-hidden": "true" }, h("span", {}, "lease"), h("div", {}, left));
  return {
    element: h(
      "div",
      { class: "card" },
      h("table", { class: "row" }, h("caption", {}, "The row in ", h("code", {}, "holdfast.inbox")), h("tbody", {}, cells.map(({ line }) => line))),
      bar,
    ),
    show(row, now, changed, lease) {
      cells.forEach(({ field, value, line }, n) => {
        text(value, row.state === "absent" ? "–" : COLUMNS[n][2](row, now));
        mark(line, "changed", changed.includes(field));
      });
      const share = row.lease > now ? Math.min(1, (row.lease - now) / lease) : 0;
      left.style.width = `${share * 100}%`;
    },
  };
}

const WORKER = {
  idle: ["○", "idle"],
  claimed: ["●", "has claimed it"],
  running: ["●", "runs the handler"],
  frozen: ["❚❚", "frozen"],
  dead: ["✕", "dead"],
};

export function workerCard(name) {
  const sign = h("span", { class: "sign", "aria-hidden": "true" });
  const words = h("span", {});
  const element = h("div", { class: "card worker" }, sign, h("b", {}, name), words);
  return {
    element,
    show(state, more = "") {
      text(sign, WORKER[state]?.[0] ?? "●");
      text(words, more || (WORKER[state]?.[1] ?? state));
      element.dataset.state = state;
    },
  };
}

// Newest first. A screen reader is told of each line while the simulation is stepped, not while it plays.
export function logView() {
  const list = h("ol", { class: "log" });
  const region = h("div", { class: "scroll", role: "log", "aria-label": "What happened, newest first", tabindex: "0" }, list);
  let shown = 0;
  return {
    element: h("div", { class: "card happened" }, h("h3", {}, "What happened"), region),
    show(log, playing) {
      region.setAttribute("aria-live", playing ? "off" : "polite");
      if (log.length < shown) {
        list.replaceChildren();
        shown = 0;
      }
      list.firstElementChild?.classList.remove("latest");
      for (; shown < log.length; shown++) {
        const { at, text: words, tone, who } = log[shown];
        list.prepend(h("li", { "data-tone": tone }, h("time", {}, clock(at)), h("span", { class: "who" }, who), h("span", { class: "words" }, words)));
      }
      list.firstElementChild?.classList.add("latest");
      while (list.children.length > 60) list.lastElementChild.remove();
    },
  };
}
