// Seeded random numbers: mulberry32. The same seed gives the same numbers in every language.

export function generator(seed) {
  let state = seed >>> 0;
  function next() {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }
  return {
    next,
    // A whole number from 0 up to, but not including, `limit`.
    below: (limit) => next() % limit,
    between: (low, high) => low + (next() % (high - low + 1)),
    chance: (percent) => next() % 100 < percent,
  };
}
