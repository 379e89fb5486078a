// Read a model file of suffice, and predict, in 130 lines without any library: docs/format.md.
// It reads linear models of two or more classes without a feature map, and refuses all others.
"use strict";

const utf8 = (bytes) => decodeURIComponent(Array.from(bytes, (b) => "%" + (256 + b).toString(16).slice(1)).join(""));

// SHA-256 (FIPS 180-4).
const primes = (function () {
  const found = [];
  for (let n = 2; found.length < 64; n++) if (found.every((p) => n % p)) found.push(n);
  return found;
})();
const fraction = (x) => Math.floor((x - Math.floor(x)) * 2 ** 32) | 0;
const ROUND = primes.map((p) => fraction(Math.cbrt(p)));
const START = primes.slice(0, 8).map((p) => fraction(Math.sqrt(p)));

function sha256(bytes) {
  const padded = new Uint8Array(((bytes.length + 8) >> 6 << 6) + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length * 8) >>> 0);
  const turn = (x, n) => (x >>> n) | (x << (32 - n));
  const hash = START.slice(), w = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let t = 0; t < 16; t++) w[t] = view.getInt32(block + 4 * t);
    for (let t = 16; t < 64; t++) {
      const low = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ (w[t - 15] >>> 3);
      const high = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ (w[t - 2] >>> 10);
      w[t] = w[t - 16] + low + w[t - 7] + high;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let t = 0; t < 64; t++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[t] + w[t]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (hash[i] = (hash[i] + x) | 0));
  }
  return hash.map((x) => (x >>> 0).toString(16).padStart(8, "0")).join("");
}

// The container: magic, three lengths, manifest, payload, signature block, checksum.
function readFile(bytes) {
  const fail = (why) => { throw new Error("This is no model file that can be read: " + why + "."); };
  if (bytes.length < 64 || utf8(bytes.slice(0, 8)) !== "suffice\u0001") fail("another magic");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const sizes = [8, 16, 24].map((at) => Number(view.getBigUint64(at, true)));
  if (32 + sizes[0] + sizes[1] + sizes[2] + 32 !== bytes.length) fail("lengths that do not add up");
  const stated = Array.from(bytes.slice(-32), (b) => b.toString(16).padStart(2, "0")).join("");
  if (sha256(bytes.slice(0, -32)) !== stated) fail("the checksum does not match");
  const manifest = JSON.parse(utf8(bytes.slice(32, 32 + sizes[0])));
  const payload = bytes.slice(32 + sizes[0], 32 + sizes[0] + sizes[1]);
  if (manifest.payload.sha256 !== sha256(payload)) fail("another payload");
  if (manifest.kind !== "model" || manifest.kind_version !== 1) fail("its kind or version");
  if (manifest.pipeline.map !== null) fail("a feature map");
  return { manifest, arrays: readArrays(payload) };
}

// The payload: safetensors, a JSON header and little-endian numbers.
function readArrays(payload) {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const length = Number(view.getBigUint64(0, true));
  const arrays = {};
  for (const [name, { dtype, shape, data_offsets: ends }] of Object.entries(JSON.parse(utf8(payload.slice(8, 8 + length))))) {
    if (dtype !== "F64") throw new Error("An array of a linear model holds F64.");
    const values = [];
    for (let at = ends[0]; at < ends[1]; at += 8) values.push(view.getFloat64(8 + length + at, true));
    arrays[name] = { shape, values };
  }
  return arrays;
}

// One row, {column: value}, as the vector that the coefficients belong to.
function vectorOf({ manifest: { pipeline }, arrays }, row) {
  const fill = arrays["pipeline.fill"], encoded = [];
  for (const column of pipeline.columns) {
    const value = row[column.name], missing = value === null || value === undefined;
    if (missing && !fill) throw new Error("A value of " + column.name + " is missing, and the model has no rule for it.");
    if (column.unit) throw new Error("Column " + column.name + " holds dates, which this reader does not read.");
    if (column.categories === null) {
      encoded.push(missing ? NaN : Number(value));
      continue;
    }
    const at = column.categories.indexOf(value);
    if (at < 0 && !missing && !column.other) throw new Error("Column " + column.name + " holds a category that is not listed.");
    column.categories.forEach((_, i) => encoded.push(missing ? NaN : Number(i === at)));
    if (column.other) encoded.push(missing ? NaN : Number(at < 0));
  }
  const mean = arrays["pipeline.mean"].values, scale = arrays["pipeline.scale"].values;
  const scaled = encoded.map((x, i) => ((Number.isNaN(x) ? fill.values[i] : x) - mean[i]) / scale[i]);
  const length = Math.hypot(...scaled);
  const shrink = length > pipeline.bound ? pipeline.bound / length : 1;
  const vector = scaled.map((x) => x * shrink);
  if (pipeline.intercept) vector.push(pipeline.intercept);
  return vector;
}

// The class of a row: of two the second where the score is above 0, of more the one of largest score.
function predict(model, row) {
  const { shape, values } = model.arrays.coefficients, classes = model.manifest.details.classes;
  const vector = vectorOf(model, row), columns = shape[1] || 1;
  const scores = Array.from({ length: columns }, (_, k) => vector.reduce((sum, x, i) => sum + x * values[i * columns + k], 0));
  if (columns === 1) return { scores, label: classes[Number(scores[0] > 0)] };
  return { scores, label: classes[scores.indexOf(Math.max(...scores))] };
}
