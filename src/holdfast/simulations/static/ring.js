// The ring: the same as model/ring.py, point by point; and what "hash modulo workers" would do instead.
import { sha256, shake256 } from "./hash.js";

export const BUCKETS = 1024;
export const POINTS = 150;
const SPACING = 2 ** 32 / BUCKETS;
const encoder = new TextEncoder();
const known = new Map();

export function bucket(key) {
  const digest = sha256(encoder.encode(key));
  return (digest[0] << 2) | (digest[1] >> 6);
}

export function points(member) {
  if (!known.has(member)) {
    const view = new DataView(shake256(encoder.encode(member), 4 * POINTS).buffer);
    known.set(member, Array.from({ length: POINTS }, (_, i) => view.getUint32(4 * i)));
  }
  return known.get(member);
}

// The owner of each bucket: the first point clockwise. With no members, null.
export function owners(members) {
  const circle = [...new Set(members)].flatMap((member) => points(member).map((point) => [point, member]));
  circle.sort(([a, one], [b, other]) => a - b || (one < other ? -1 : 1));
  let next = 0;
  return Array.from({ length: BUCKETS }, (_, number) => {
    while (next < circle.length && circle[next][0] < number * SPACING) next++;
    return circle.length ? circle[next % circle.length][1] : null;
  });
}

// What many systems do: the number of the bucket, modulo the number of workers.
export function moduloOwners(members) {
  const sorted = [...new Set(members)].sort();
  return Array.from({ length: BUCKETS }, (_, number) => (sorted.length ? sorted[number % sorted.length] : null));
}

// How many of these buckets have another owner.
export function moved(before, after, numbers) {
  return numbers.filter((number) => before[number] !== after[number]).length;
}
