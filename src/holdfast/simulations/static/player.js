// Step, play, pause, reset, speed and seed: the same for every simulation.
import { h, text, unique } from "./dom.js";

const SPEEDS = { 0.5: "half", 1: "normal", 2: "double", 8: "fast" };

// `view` has `pace` (milliseconds per step), `make(seed)` and `draw(playing)`; `view.model` steps.
export function player(view) {
  let timer = null;
  let speed = "1";
  const seeds = unique("seed");
  const speeds = unique("speed");
  const play = h("button", { type: "button", class: "main", "aria-keyshortcuts": "p", onclick: () => (timer === null ? start() : pause()) }, "Play");
  const once = h("button", { type: "button", "aria-keyshortcuts": "s", onclick: () => (pause(), step()) }, "Step");
  const again = h("button", { type: "button", "aria-keyshortcuts": "r", onclick: () => reset() }, "Reset");
  const seed = h("input", { id: seeds, type: "number", min: "1", max: "999999", value: "1", inputmode: "numeric", onchange: () => reset() });
  const list = h(
    "select",
    { id: speeds, onchange: () => ((speed = list.value), timer === null || (pause(), start())) },
    Object.entries(SPEEDS).map(([value, words]) => h("option", { value, selected: value === "1" }, words)),
  );
  list.value = "1";

  function step() {
    view.model.step();
    if (view.model.over) pause();
    draw();
  }

  function start() {
    if (view.model.over) view.make(chosenSeed());
    timer = setInterval(step, view.pace / Number(speed));
    draw();
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    draw();
  }

  function reset() {
    pause();
    view.make(chosenSeed());
    draw();
  }

  function chosenSeed() {
    return Math.max(1, Math.floor(Number(seed.value)) || 1);
  }

  function draw() {
    text(play, timer === null ? "Play" : "Pause");
    once.disabled = view.model.over;
    view.draw(timer !== null);
  }

  const element = h(
    "div",
    { class: "player", role: "group", "aria-label": "Run the simulation" },
    play,
    once,
    again,
    h("span", { class: "field" }, h("label", { for: speeds }, "Speed"), list),
    h("span", { class: "field" }, h("label", { for: seeds }, "Seed"), seed),
  );

  function onkey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const action = { s: once, p: play, r: again }[event.key];
    if (action === undefined || action.disabled) return;
    event.preventDefault();
    event.stopPropagation(); // the page around may have keys of its own
    action.click();
  }

  view.make(chosenSeed());
  view.draw(false);
  return { element, onkey, pause, reset, draw, step };
}
