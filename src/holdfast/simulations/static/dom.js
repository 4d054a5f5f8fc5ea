// Elements, made without markup: text stays text, and a strict Content-Security-Policy has nothing to forbid.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, given = {}, ...children) {
  return fill(document.createElement(tag), given, children);
}

export function svg(tag, given = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), given, children);
}

function fill(element, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat());
  return element;
}

// Change only what differs, so that a screen reader is not told the same twice.
export function text(element, words) {
  const string = String(words);
  if (element.textContent !== string) element.textContent = string;
}

export function mark(element, name, on) {
  element.classList.toggle(name, Boolean(on));
}

let serial = 0;
export function unique(word) {
  serial += 1;
  return `hf-sim-${word}-${serial}`;
}

export const number = (value) => value.toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");

export function clock(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${String(seconds % 60).padStart(2, "0")}`;
}
