// The entry: all simulations inside one element.
import { h, unique } from "./dom.js";
import { player } from "./player.js";
import { receiptView } from "./view_receipt.js";
import { crashView } from "./view_crash.js";
import { contentionView } from "./view_contention.js";
import { ownershipView } from "./view_ownership.js";
import { tunerView } from "./view_tuner.js";

const VIEWS = [receiptView, crashView, contentionView, ownershipView, tunerView];

// Show the simulations. `hash`: keep the chosen one in the address. Returns a function that removes them.
export function mount(element, { hash = false } = {}) {
  const views = VIEWS.map((make) => make());
  const tabs = views.map((view, n) => {
    const id = unique("tab");
    const tab = h("button", { type: "button", role: "tab", id, "aria-selected": "false", tabindex: "-1", onclick: () => choose(n), onkeydown: (event) => move(event, n) }, view.title);
    const panel = h("section", { role: "tabpanel", id: unique("panel"), "aria-labelledby": id, hidden: true, class: `panel ${view.name}` });
    tab.setAttribute("aria-controls", panel.id);
    return { tab, panel };
  });
  let current = -1;

  function fill(n) {
    const view = views[n];
    if (view.player !== undefined) return;
    view.player = player(view);
    tabs[n].panel.append(
      h("div", { class: "intro" }, h("h2", {}, view.title), h("p", { class: "lead" }, view.lead)),
      h("div", { class: "controls" }, view.player.element, h("div", { class: "options", role: "group", "aria-label": "Choices" }, view.options())),
      h("div", { class: "scene" }, view.stage, view.log),
      h("div", { class: "tries" }, h("h3", {}, "Try this"), h("ul", {}, view.tries.map((words) => h("li", {}, words)))),
    );
    tabs[n].panel.addEventListener("keydown", view.player.onkey);
  }

  function choose(n, focus = false) {
    if (n === current) return;
    if (current >= 0) views[current].player.pause();
    fill(n);
    tabs.forEach(({ tab, panel }, each) => {
      tab.setAttribute("aria-selected", String(each === n));
      tab.tabIndex = each === n ? 0 : -1;
      panel.hidden = each !== n;
    });
    current = n;
    tabs[n].tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (focus) tabs[n].tab.focus();
    if (hash && location.hash !== `#${views[n].name}`) history.replaceState(null, "", `#${views[n].name}`);
  }

  function move(event, n) {
    const to = { ArrowRight: n + 1, ArrowLeft: n - 1, Home: 0, End: views.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose((to + views.length) % views.length, true);
  }

  function named() {
    const found = hash ? views.findIndex((view) => `#${view.name}` === location.hash) : 0;
    choose(Math.max(0, found));
  }

  const root = h("div", { class: "hf-sim" }, h("div", { class: "tabs", role: "tablist", "aria-label": "Simulations" }, tabs.map(({ tab }) => tab)), tabs.map(({ panel }) => panel));
  element.replaceChildren(root);
  named();
  if (hash) addEventListener("hashchange", named);
  return () => {
    if (hash) removeEventListener("hashchange", named);
    views.forEach((view) => view.player?.pause());
    root.remove();
  };
}
