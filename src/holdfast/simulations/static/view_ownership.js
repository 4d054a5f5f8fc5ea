// The view of the ring: who owns which buckets, beside "modulo".
import { h, svg, text } from "./dom.js";
import { logView, tile } from "./parts.js";
import { BUCKETS } from "./ring.js";
import { Ownership, SILENCE } from "./ownership.js";

const [OUTER, INNER, DOTS] = [96, 74, 104];

export function ownershipView() {
  const log = logView();
  const [ring, modulo] = [circle("ring", "The ring"), circle("modulo", "Hash modulo workers")];
  const body = h("tbody", {});
  const tiles = {
    ring: tile("Moved by the ring", "at the last change"),
    modulo: tile("Moved by modulo", "at the last change"),
    waiting: tile("Keys without an owner", `at most ${SILENCE} s and a refresh`),
    twice: tile("Keys with two owners", "harmless: the lock decides"),
  };
  const button = (words, action) => h("button", { type: "button", onclick: () => (action(), view.player.draw()) }, words);
  const add = button("Add a worker", () => view.model.add());
  const drain = button("Drain one", () => view.model.drain());
  const kill = button("Kill one", () => view.model.kill());
  const view = {
    name: "ring",
    title: "The ring",
    lead: "Jobs with the same key should run on the same worker. Keys fall into 1,024 buckets, and the ring says which worker owns each bucket. When a worker comes or goes, only its share moves; with “hash modulo workers”, nearly every key changes its owner. The dots around it are open keys; the large ones have just moved.",
    tries: [
      "Add a worker: about one key in four moves. Compare the other circle.",
      "Kill one, and play: for up to 30 s its keys have no owner, until its heartbeat is too old. Then the others take over its share.",
      "Drain one: it leaves the registry at once, so its keys wait for one refresh only.",
    ],
    pace: 700,
    make(seed) {
      view.model = new Ownership(seed);
    },
    options: () => [add, drain, kill],
    stage: h(
      "div",
      { class: "stage" },
      h("div", { class: "tiles" }, Object.values(tiles).map(({ element }) => element)),
      h("div", { class: "circles" }, ring.element, modulo.element),
      h(
        "div",
        { class: "card" },
        h(
          "table",
          { class: "list" },
          h("caption", {}, "Workers"),
          h("thead", {}, h("tr", {}, ["worker", "state", "heartbeat", "buckets", "modulo"].map((name) => h("th", { scope: "col" }, name)))),
          body,
        ),
      ),
    ),
    log: log.element,
    draw(playing) {
      const { model } = view;
      const { last } = model;
      const percent = (count) => `${count} of ${last.of} (${Math.round((100 * count) / last.of)} %)`;
      tiles.ring.show(last ? percent(last.ring) : "–", last ? "good" : "plain");
      tiles.modulo.show(last ? percent(last.modulo) : "–", last ? "bad" : "plain");
      const { waiting, twice } = model.believed();
      tiles.waiting.show(waiting, waiting ? "late" : "good");
      tiles.twice.show(twice, twice ? "late" : "good");
      ring.show(model.ring, model.keys, last?.ringMoved ?? [], model.members);
      modulo.show(model.modulo, model.keys, last?.moduloMoved ?? [], model.members);
      body.replaceChildren(...model.workers.map((worker) => line(model, worker)));
      add.disabled = !model.canAdd;
      drain.disabled = kill.disabled = model.workers.filter(({ state }) => state === "alive").length < 2;
      log.show(model.log, playing);
    },
  };
  return view;
}

function line(model, { name, state, seen }) {
  const words = { alive: "● alive", drained: "✓ drained", dead: "✕ dead" }[state];
  const member = model.members.includes(name);
  return h(
    "tr",
    { "data-state": state },
    h("th", { scope: "row" }, h("i", { class: `swatch ${colour(name)}`, "aria-hidden": "true" }), name),
    h("td", {}, words + (state === "dead" && member ? ", unnoticed" : "")),
    h("td", {}, state === "drained" ? "–" : `${model.now - seen} s ago`),
    h("td", {}, model.share(name)),
    h("td", {}, model.modulo.filter((owner) => owner === name).length),
  );
}

const colour = (name) => `c${"abcdefgh".indexOf(name[0])}`;

function circle(name, title) {
  const arcs = svg("g", {});
  const dots = svg("g", { class: "dots" });
  const middle = svg("text", { class: "middle", y: "-2" });
  const under = svg("text", { class: "under", y: "16" });
  const picture = svg("svg", { viewBox: "-112 -112 224 224", role: "img" }, arcs, dots, middle, under);
  let shown = null;
  return {
    element: h("figure", { class: `circle ${name}` }, picture, h("figcaption", {}, title)),
    show(owners, keys, moved, members) {
      text(middle, moved.length);
      text(under, "keys moved");
      picture.setAttribute("aria-label", `${title}: ${members.length} workers, ${moved.length} of ${keys.length} keys moved at the last change`);
      if (shown === owners) return;
      shown = owners;
      arcs.replaceChildren(...members.map((member) => svg("path", { class: colour(member), d: path(owners, member) }, svg("title", {}, member))));
      const gone = new Set(moved);
      dots.replaceChildren(
        ...[...keys].sort((a, b) => gone.has(a) - gone.has(b)).map((key) => {
          const [x, y] = place(key + 0.5, DOTS);
          return svg("circle", { cx: x, cy: y, r: gone.has(key) ? 2.6 : 1.3, class: gone.has(key) ? "moved" : "" });
        }),
      );
    },
  };
}

// One path with all arcs of a member: neighbours that have the same owner are one arc.
function path(owners, member) {
  const parts = [];
  for (let from = 0; from < BUCKETS; from++) {
    if (owners[from] !== member) continue;
    let to = from;
    while (to < BUCKETS && owners[to] === member) to++;
    const large = to - from > BUCKETS / 2 ? 1 : 0;
    const end = to - from === BUCKETS ? to - 0.01 : to;
    parts.push(`M${place(from, OUTER)}A${OUTER},${OUTER},0,${large},1,${place(end, OUTER)}L${place(end, INNER)}A${INNER},${INNER},0,${large},0,${place(from, INNER)}Z`);
    from = to;
  }
  return parts.join("");
}

function place(bucket, radius) {
  const angle = (bucket / BUCKETS) * 2 * Math.PI - Math.PI / 2;
  return [(Math.cos(angle) * radius).toFixed(2), (Math.sin(angle) * radius).toFixed(2)];
}
