// The interpreter of the rules: the same as model/rules.py. Rows and events hold whole numbers only.
import { told } from "./rules_data.js";

const COMPARISONS = {
  "=": (left, right) => left === right,
  "<": (left, right) => left < right,
  "<=": (left, right) => left <= right,
  ">": (left, right) => left > right,
};

export const fields = told.fields;
export const events = [...new Set(told.rules.map((rule) => rule.event))];

export function absent() {
  return { state: "absent", ...Object.fromEntries(fields.map((name) => [name, 0])) };
}

// The rule that applies, or null: then the event does nothing to this row.
export function ruleFor(row, event, values) {
  return (
    told.rules.find(
      (rule) =>
        rule.event === event && rule.from === row.state && rule.guards.every((guard) => holds(guard, row, values)),
    ) ?? null
  );
}

// The row after the event, or null if the event does nothing to this row.
export function apply(row, event, values) {
  const rule = ruleFor(row, event, values);
  if (rule === null) return null;
  const after = { ...row, state: rule.to };
  for (const [name, terms] of Object.entries(rule.changes)) {
    after[name] = terms.reduce((sum, term) => sum + value(term, row, values), 0);
  }
  return after;
}

function holds(guard, row, values) {
  return told.guards[guard].every(([left, sign, right]) =>
    COMPARISONS[sign](value(left, row, values), value(right, row, values)),
  );
}

function value(term, row, values) {
  if (typeof term === "number") return term;
  const [of, name] = term.split(".");
  return of === "row" ? row[name] : values[name];
}
