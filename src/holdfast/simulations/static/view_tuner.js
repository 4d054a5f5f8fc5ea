// The view of the tuner: sliders, what they give, what limits it, and the last two minutes.
import { h, number, svg, text, unique } from "./dom.js";
import { tile, toggle } from "./parts.js";
import { LIMITS, SETTINGS, Tuner } from "./tuner.js";

const [WIDTH, HEIGHT] = [600, 160];

export function tunerView() {
  const tiles = {
    throughput: tile("Throughput", "jobs a second"),
    waiting: tile("Waiting", "jobs that are due"),
    lag: tile("Lag", "until a new job starts"),
  };
  const verdict = h("p", { class: "verdict", role: "status" });
  const remedy = h("p", { class: "remedy" });
  const meters = Object.entries(LIMITS).map(([name, { label }]) => meter(name, label));
  const graph = chart();
  const view = {
    name: "tuner",
    title: "Tune a claim loop",
    lead: "How many jobs a second can a fleet run, and what stops it from running more? Move the sliders. The costs behind them are those that the benchmarks measured; your machine has its own.",
    tries: [
      "Raise the jobs that come in to 1,000: the hands cannot follow. Raise the jobs at a time, or the processes.",
      "Set the handler to 0 ms and the rate to 100,000. What limits it now? What if there are 16 cores?",
      "Set the rows per claim to 1, with a round trip of 20 ms.",
      "Switch the wake-ups off, with few jobs: an idle worker finds a job at its next poll.",
    ],
    pace: 250,
    settings: { ...Object.fromEntries(Object.entries(SETTINGS).map(([name, { start }]) => [name, start])), wake: true, bursts: false },
    make(seed) {
      view.model = new Tuner(seed, view.settings);
      view.settings = view.model.settings;
    },
    options: () => [
      toggle("Wake-ups (LISTEN, NOTIFY)", view.settings.wake, (on) => change("wake", on)),
      toggle("Bursts: every 30 s, four times as many jobs", view.settings.bursts, (on) => change("bursts", on)),
    ],
    stage: h(
      "div",
      { class: "stage" },
      h("div", { class: "card sliders", role: "group", "aria-label": "Settings" }, Object.entries(SETTINGS).map(([name, setting]) => slider(name, setting))),
      h("div", { class: "card" }, h("h3", {}, "The last two minutes"), graph.element),
    ),
    log: h(
      "div",
      { class: "stage" },
      h("div", { class: "tiles" }, Object.values(tiles).map(({ element }) => element)),
      h("div", { class: "card" }, h("h3", {}, "What limits it"), verdict, remedy, h("div", { class: "meters" }, meters.map(({ element }) => element))),
    ),
    draw() {
      const { model } = view;
      const { capacities, limit, capacity, enough, offered } = model.prediction;
      const load = Math.min(model.expected + model.waiting, capacity);
      tiles.throughput.show(number(load), enough ? "good" : "late");
      tiles.waiting.show(number(model.waiting), model.waiting ? "late" : "good");
      tiles.lag.show(duration(model.lag), model.lag > 10000 ? "bad" : model.lag > 1000 ? "late" : "good");
      text(verdict, enough ? `It keeps up with ${number(offered)} jobs a second. It could run ${number(capacity)}; beyond that, ${LIMITS[limit].words}` : `It falls behind: ${number(offered)} jobs a second come in, and it can run ${number(capacity)}, because ${LIMITS[limit].words}`);
      verdict.dataset.tone = enough ? "good" : "bad";
      text(remedy, LIMITS[limit].remedy);
      for (const each of meters) each.show(load, capacities[each.name], each.name === limit);
      graph.show(model.history);
    },
  };

  function change(name, value) {
    view.settings[name] = value;
    view.player.draw();
  }

  function slider(name, { label, unit, low, high, start, log }) {
    const id = unique("slider");
    const steps = 1000;
    const shown = h("output", { for: id });
    const value = () => {
      const part = Number(input.value) / steps;
      return log ? Math.round((low + 1) * ((high + 1) / (low + 1)) ** part - 1) : Math.round(low + (high - low) * part);
    };
    const place = log ? Math.round((steps * Math.log((start + 1) / (low + 1))) / Math.log((high + 1) / (low + 1))) : Math.round((steps * (start - low)) / (high - low));
    const input = h("input", { id, type: "range", min: "0", max: steps, step: log ? "5" : "1", value: place, oninput: () => (change(name, value()), tell()) });
    const tell = () => {
      const words = `${number(view.settings[name])}${unit ? ` ${unit}` : ""}`;
      text(shown, words);
      input.setAttribute("aria-valuetext", words);
    };
    text(shown, `${number(start)}${unit ? ` ${unit}` : ""}`);
    input.setAttribute("aria-valuetext", shown.textContent);
    return h("div", { class: "slider" }, h("label", { for: id }, label), shown, input);
  }
  return view;
}

function meter(name, label) {
  const bar = h("span", {});
  const words = h("span", { class: "amount" });
  const element = h("div", { class: "meter" }, h("b", {}, label), h("div", { class: "bar", "aria-hidden": "true" }, bar), words);
  return {
    name,
    element,
    show(load, capacity, limiting) {
      const share = Math.min(100, Math.round((100 * load) / capacity));
      bar.style.width = `${share}%`;
      element.dataset.tone = limiting ? (share >= 95 ? "bad" : "late") : "plain";
      text(words, `${share} % of ${number(capacity)}`);
    },
  };
}

function chart() {
  const [waiting, done] = [svg("path", { class: "waiting" }), svg("path", { class: "done" })];
  const top = h("span", { class: "top" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }), waiting, done);
  const element = h("div", { class: "chart" }, top, picture, h("p", { class: "legend" }, h("span", { class: "done" }, "jobs run a second"), h("span", { class: "waiting" }, "jobs waiting")));
  return {
    element,
    show(history) {
      const most = Math.max(10, ...history.map((each) => Math.max(each.waiting, each.done)));
      const line = (field) => history.map((each, n) => `${n ? "L" : "M"}${((n * WIDTH) / 119).toFixed(1)},${(HEIGHT - (each[field] / most) * (HEIGHT - 8)).toFixed(1)}`).join("");
      waiting.setAttribute("d", line("waiting"));
      done.setAttribute("d", line("done"));
      text(top, history.length ? number(most) : "Press Play to let time pass.");
      const last = history.at(-1);
      picture.setAttribute("aria-label", last ? `After ${last.at} s: ${number(last.done)} jobs run a second, ${number(last.waiting)} waiting` : "No time has passed yet");
    },
  };
}

function duration(milliseconds) {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  if (milliseconds < 100000) return `${(milliseconds / 1000).toFixed(1)} s`;
  return `${number(Math.round(milliseconds / 60000))} min`;
}
