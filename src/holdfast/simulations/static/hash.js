// SHA-256 and SHAKE256, as FIPS 180-4 and FIPS 202 define them. The browser's own are asynchronous, and have no SHAKE.

const PRIMES = primes(64);
const K = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

function primes(count) {
  const found = [];
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n);
  return found;
}

function fraction(root) {
  return Math.floor((root - Math.floor(root)) * 2 ** 32) >>> 0;
}

const rotate = (word, by) => (word >>> by) | (word << (32 - by));

export function sha256(bytes) {
  const length = Math.ceil((bytes.length + 9) / 64) * 64;
  const padded = new Uint8Array(length);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(length - 8, Math.floor((bytes.length * 8) / 2 ** 32));
  view.setUint32(length - 4, (bytes.length * 8) >>> 0);
  const hash = START.slice();
  const w = new Array(64);
  for (let block = 0; block < length; block += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(block + 4 * i);
    for (let i = 16; i < 64; i++) {
      const a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = (w[i - 16] + a + w[i - 7] + b) >>> 0;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) >>> 0;
      const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) >>> 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) >>> 0, c, b, a, (t1 + t2) >>> 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] = (hash[i] + word) >>> 0));
  }
  const digest = new DataView(new ArrayBuffer(32));
  hash.forEach((word, i) => digest.setUint32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

const RATE = 136; // bytes, for SHAKE256
const WORD = (1n << 64n) - 1n;
const turn = (word, by) => (by === 0n ? word : ((word << by) | (word >> (64n - by))) & WORD);

export function shake256(bytes, size) {
  const state = new Array(25).fill(0n);
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x1f;
  padded[padded.length - 1] ^= 0x80;
  const input = new DataView(padded.buffer);
  for (let block = 0; block < padded.length; block += RATE) {
    for (let i = 0; i < RATE / 8; i++) state[i] ^= input.getBigUint64(block + 8 * i, true);
    keccak(state);
  }
  const output = new DataView(new ArrayBuffer(Math.ceil(size / RATE) * RATE));
  for (let block = 0; block < size; block += RATE) {
    if (block > 0) keccak(state);
    for (let i = 0; i < RATE / 8; i++) output.setBigUint64(block + 8 * i, state[i], true);
  }
  return new Uint8Array(output.buffer).slice(0, size);
}

function keccak(s) {
  let feedback = 1; // a linear-feedback register gives the constants of the rounds
  for (let round = 0; round < 24; round++) {
    const c = [0, 1, 2, 3, 4].map((x) => s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20]);
    for (let i = 0; i < 25; i++) s[i] ^= c[(i + 4) % 5] ^ turn(c[(i + 1) % 5], 1n);
    let [x, y, moving] = [1, 0, s[1]];
    for (let t = 0; t < 24; t++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const place = x + 5 * y;
      [moving, s[place]] = [s[place], turn(moving, BigInt((((t + 1) * (t + 2)) / 2) % 64))];
    }
    for (let row = 0; row < 25; row += 5) {
      const line = s.slice(row, row + 5);
      for (let i = 0; i < 5; i++) s[row + i] = line[i] ^ (~line[(i + 1) % 5] & WORD & line[(i + 2) % 5]);
    }
    for (let j = 0; j < 7; j++) {
      if (feedback & 1) s[0] ^= 1n << BigInt(2 ** j - 1);
      feedback = (feedback << 1) ^ (feedback & 0x80 ? 0x171 : 0);
    }
  }
}
