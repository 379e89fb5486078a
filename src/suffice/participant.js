// One person, one record, one randomised answer, in a browser: the twin of participant.py.
//
// It reads the bytes of a survey, and computes from the survey's numbers what an answer gives away.
// It refuses a survey that says anything else, and changes each true answer at random. From the
// same random bytes it makes the same answer file as participant.py, byte by byte; the tests
// compare both. It stores nothing, sends nothing and needs nothing but the language itself.
//
//     const survey = suffice.readSurvey(bytes);
//     const sheet = suffice.respond(survey, new Map([["vote", "yes"]]), suffice.freshBytes);
//
// Integers are BigInt and fractions are pairs of them, so no draw is rounded.

"use strict";

const suffice = (() => {
  const MOST_BYTES = 2 ** 20; // of a survey
  const WORD_COUNT = 2n ** 64n; // different words of 64 random bits
  const MOST_STATES = 256;
  const MOST_COMBINATIONS = 1024n; // of answers in a report
  const MOST_TABLE = 64; // the exact check of a larger one would take minutes
  const WEAK = 3;
  const PRACTICALLY_NONE = 10; // epsilons
  const NO_PROTECTION_DELTA = 0.1;
  const EXPLAINED_DELTA = 1e-3;
  const TAILS = { laplace: 46, gaussian: 10 }; // of so many scales: beyond with probability < 2^-64
  const VERSION = 2n; // of surveys and of the words in them

  class SurveyError extends Error {}

  function require(holds, reason) {
    if (!holds) throw new SurveyError(`This is not a valid survey: ${reason}`);
  }

  // Floats as what they are: an integer times a power of two.

  const view = new DataView(new ArrayBuffer(8));

  function bitsOf(x) {
    view.setFloat64(0, x);
    return view.getBigUint64(0);
  }

  function floatOf(bits) {
    view.setBigUint64(0, bits);
    return view.getFloat64(0);
  }

  // The next larger float of a positive one.
  const nextUp = (x) => floatOf(bitsOf(x) + 1n);

  const abs = (n) => (n < 0n ? -n : n);

  function fraction(n, d) {
    let [a, b] = [abs(n), d];
    while (b) [a, b] = [b, a % b];
    return { n: n / a, d: d / a };
  }

  // The float x as a fraction in lowest terms.
  function exact(x) {
    const bits = bitsOf(x);
    const power = Number((bits >> 52n) & 0x7ffn);
    const digits = (bits & (2n ** 52n - 1n)) + (power ? 2n ** 52n : 0n);
    const n = bits >> 63n ? -digits : digits;
    const shift = BigInt((power || 1) - 1075);
    return shift < 0n ? fraction(n, 2n ** -shift) : { n: n * 2n ** shift, d: 1n };
  }

  const larger = (x, y) => (x.n * y.d > y.n * x.d ? x : y);

  // n / d rounded to an integer; halves go to the even one, as in Python.
  function roundQuotient(n, d) {
    let whole = n / d;
    if (n % d < 0n) whole -= 1n;
    const twice = 2n * (n - whole * d);
    return twice > d || (twice === d && whole % 2n !== 0n) ? whole + 1n : whole;
  }

  function roundFloat(x) {
    const { n, d } = exact(x);
    return roundQuotient(n, d);
  }

  // The step of a number's grid: the largest power of two up to deviation / 2^20, exactly.
  function gridStep(deviation) {
    const { n, d } = exact(deviation);
    const shift = d.toString(2).length - 1; // d is a power of two
    return 2 ** (n.toString(2).length - 1 - shift - 20);
  }

  // The exact sum of floats, rounded once.
  function sum(values) {
    let [n, d] = [0n, 1n];
    for (const value of values) {
      const part = exact(value);
      [n, d] = [n * part.d + part.n * d, d * part.d];
    }
    const total = fraction(n, d);
    return Number(total.n) / Number(total.d);
  }

  // All that is drawn comes from here. A source is a function that returns so many random bytes.

  function freshBytes(count) {
    return crypto.getRandomValues(new Uint8Array(count));
  }

  // An integer of `count` random bits: the first of as few fresh bytes as hold them.
  function randomBits(source, count) {
    let value = 0n;
    const size = Math.ceil(count / 8);
    for (const byte of source(size)) value = (value << 8n) | BigInt(byte);
    return value >> BigInt(8 * size - count);
  }

  // A random integer from 0 to limit - 1, all equally likely: what is none of them is drawn again.
  function randomBelow(source, limit) {
    const count = limit === 1n ? 0 : (limit - 1n).toString(2).length;
    let value = randomBits(source, count);
    while (value >= limit) value = randomBits(source, count);
    return value;
  }

  // Exact samplers of Canonne, Kamath and Steinke 2020 (arXiv 2004.00010).

  const ONE = { n: 1n, d: 1n };

  // True with probability e^-x, for x >= 0 (Algorithm 1).
  function withChanceExp(source, x) {
    let n = x.n;
    while (n > x.d) {
      if (!withChanceExp(source, ONE)) return false;
      n -= x.d;
    }
    let k = 1n;
    while (randomBelow(source, k * x.d) < n) k += 1n; // with probability x / k
    return k % 2n === 1n;
  }

  // n with probability proportional to e^(-|n| / scale) (Algorithm 2).
  function laplace(source, scale) {
    for (;;) {
      let u = randomBelow(source, scale.n);
      if (!withChanceExp(source, fraction(u, scale.n))) continue;
      while (withChanceExp(source, ONE)) u += scale.n;
      const n = u / scale.d;
      const negative = randomBits(source, 1) === 1n;
      if (n || !negative) return negative ? -n : n; // zero has one sign only
    }
  }

  // n with probability proportional to e^(-n^2 / (2 scale^2)) (Algorithm 3).
  function gaussian(source, scale) {
    const t = scale.n / scale.d + 1n;
    const [v, w] = [scale.n * scale.n, scale.d * scale.d]; // the variance is v / w
    for (;;) {
      const n = laplace(source, { n: t, d: 1n });
      const off = abs(n) * t * w - v; // (|n| - variance / t) t w
      if (withChanceExp(source, fraction(off * off, 2n * v * t * t * w))) return n;
    }
  }

  // The possible answers to a question, without noise of its own.

  class Answers {
    constructor(states) {
      const count = states.length;
      require(count >= 2 && count <= MOST_STATES && new Set(states).size === count,
        `states must list 2 to ${MOST_STATES} different answers.`);
      this.states = states;
    }

    locate(truth) {
      const index = this.states.findIndex((state) => state === truth || String(state) === truth);
      if (index < 0) throw new Error("The truth must be one of the possible answers.");
      return index;
    }
  }

  // One of several possible answers. P_ij = P[answer i | truth j].

  class Choice extends Answers {
    constructor(states, noise) {
      super(states);
      const count = states.length;
      this.hasTable = typeof noise !== "number";
      this.precision = this.slack = 0; // not Gaussian
      let ratio;
      if (this.hasTable) {
        this.table = wordsByTruth(count, noise);
        const rows = states.map((_, i) => this.table.map((words) => words[i]));
        const most = (row) => row.reduce((x, y) => (x > y ? x : y));
        const least = (row) => row.reduce((x, y) => (x < y ? x : y));
        ratio = rows.map((row) => fraction(most(row), least(row))).reduce(larger);
        this.keep = Number(most(this.table.map((words, i) => words[i]))) / 2 ** 64;
      } else {
        this.even = evenWords(count, noise);
        ratio = fraction(this.even.same, this.even.other);
        this.keep = noise;
      }
      // The epsilon, rounded up: two logarithms of at most 64 log 2 err by less than 2^-45.
      this.pure = Math.log(Number(ratio.n)) - Math.log(Number(ratio.d)) + 2 ** -45;
    }

    // How many of the 2^64 words give each answer, for one truth.
    weights(index) {
      if (this.hasTable) return this.table[index];
      return this.states.map((_, i) => (i === index ? this.even.same : this.even.other));
    }

    draw(source, index) {
      let word = randomBits(source, 64);
      const weights = this.weights(index);
      let answer = 0;
      while (word >= weights[answer]) {
        word -= weights[answer];
        answer += 1;
      }
      return this.states[answer];
    }
  }

  // How many of the 2^64 words send the truth, and how many send each other answer.
  function evenWords(count, keep) {
    require(1 / count < keep && keep < 1,
      "keep must lie between 1/states and 1; both ends are excluded.");
    const { n, d } = exact(keep);
    const others = BigInt(count - 1);
    const other = roundQuotient((d - n) * WORD_COUNT, d * others);
    const same = WORD_COUNT - others * other;
    require(other > 0n && other < same, "keep is too close to an end of its range.");
    return { same, other };
  }

  // The words of each answer, truth by truth, after checking that P is valid noise.
  function wordsByTruth(count, table) {
    require(table.length === count && table.every((row) => row.length === count),
      `P must have ${count} rows and as many columns.`);
    require(count <= MOST_TABLE, `P may have ${MOST_TABLE} states at most; more need keep.`);
    require(table.every((row) => row.every((p) => p > 0)),
      "P must be positive: a zero probability makes epsilon infinite.");
    const tolerance = exact(1e-9);
    const words = table.map((_, truth) => {
      const column = table.map((row) => row[truth]);
      const parts = column.map(exact);
      const d = parts.reduce((most, part) => (part.d > most ? part.d : most), 1n); // powers of two
      const shares = parts.map((part) => part.n * (d / part.d));
      const total = shares.reduce((x, y) => x + y);
      require(abs(total - d) * tolerance.d <= tolerance.n * d,
        "the columns of P must sum to one: P_ij is P[answer i | truth j].");
      const dealt = shares.map((share) => roundQuotient(share * WORD_COUNT, total) || 1n);
      const rest = WORD_COUNT - dealt.reduce((x, y) => x + y);
      dealt[column.indexOf(Math.max(...column))] += rest; // the largest takes the rest
      return dealt;
    });
    require(invertible(words), "P is singular, or nearly so: some truths have the same answers.");
    return words;
  }

  // Whether the pivots of an exact elimination (Bareiss 1968) are 1e-9 or more.
  function invertible(matrix) {
    let rest = matrix;
    let last = 1n;
    while (rest.length) {
      const top = rest.reduce((best, row) => (abs(row[0]) > abs(best[0]) ? row : best));
      if (abs(top[0]) * 10n ** 9n < WORD_COUNT * abs(last)) return false;
      const [pivot, divisor] = [top[0], last];
      rest = rest.filter((row) => row !== top).map((row) =>
        row.slice(1).map((x, i) => (x * pivot - row[0] * top[i + 1]) / divisor));
      last = pivot;
    }
    return true;
  }

  // All answers of a person together: some combinations are sent, perhaps the true one.

  class Report {
    constructor(states, size, keep) {
      this.states = states.map(BigInt);
      this.count = this.states.reduce((x, y) => x * y, 1n);
      require(this.count <= MOST_COMBINATIONS,
        `the questions have more than ${MOST_COMBINATIONS} combinations of answers.`);
      require(size > 0n && size < this.count,
        "a report holds at least one combination, and not all of them.");
      require(keep > Number(size) / Number(this.count) && keep < 1,
        "keep must lie between size/combinations and 1, ends excluded.");
      Object.assign(this, { size, keep, precision: 0, slack: 0 }); // not Gaussian
      const { n, d } = exact(keep);
      this.threshold = (n * WORD_COUNT) / d; // words of 2^64 that keep the truth
      const ratio = fraction(this.threshold * (this.count - size),
        (WORD_COUNT - this.threshold) * size);
      require(ratio.n > ratio.d, "keep is too close to an end of its range.");
      // The epsilon, rounded up: two logarithms of at most 128 log 2 err by less than 2^-44.
      this.pure = Math.log(Number(ratio.n)) - Math.log(Number(ratio.d)) + 2 ** -44;
    }

    // The number of a combination of answers, given by their indices.
    locate(indices) {
      return indices.reduce((number, index, at) => number * this.states[at] + BigInt(index), 0n);
    }

    // Fresh combinations, in rising order. As many others are drawn for every truth, which takes
    // the place of the last one.
    draw(source, indices) {
      const number = this.locate(indices);
      const kept = randomBits(source, 64) < this.threshold;
      const others = [];
      while (others.length < this.size) {
        let other = randomBelow(source, this.count - 1n);
        if (other >= number) other += 1n; // the true one is left out
        if (!others.includes(other)) others.push(other);
      }
      if (kept) others[others.length - 1] = number;
      return others.map(Number).sort((x, y) => x - y);
    }
  }

  // A number: limited to low..high, put on a grid, then moved by noise.

  class Measure {
    constructor(low, high, kernel, variance) {
      require(low < high, "a number needs a declared range low < high.");
      require(Object.keys(TAILS).includes(kernel), "the noise must be gaussian or laplace.");
      const deviation = variance > 0 ? Math.sqrt(variance) : NaN;
      const share = deviation / (high - low);
      require(share >= 2 ** -12 && share <= 2 ** 16,
        "the standard deviation must be 1/4096 to 65536 times the declared range.");
      Object.assign(this, { low, high, kernel, deviation });
      this.step = gridStep(deviation);
      require(Math.max(Math.abs(low), Math.abs(high)) / this.step < 2 ** 52,
        "the range lies too far from zero for its noise; shift the values.");
      const root = kernel === "laplace" ? Math.SQRT2 : 1;
      const scale = deviation / this.step / root;
      const reach = Math.max(1, Number(roundFloat(high / this.step) - roundFloat(low / this.step)));
      this.scale = exact(scale);
      const far = TAILS[kernel] * (deviation / root);
      this.limits = [low - far, high + far];
      this.pure = this.precision = this.slack = 0;
      if (kernel === "laplace") {
        this.pure = nextUp((reach + 2) / scale);
      } else {
        this.precision = (reach / scale) ** 2;
        this.slack = (14 + reach / scale) ** 2 / (24 * scale ** 2);
      }
    }

    locate(truth) {
      const written = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i;
      const value = typeof truth === "string" && written.test(truth) ? Number(truth) : truth;
      if (typeof value !== "number" || Number.isNaN(value)) {
        throw new Error("The truth must be a number.");
      }
      return roundFloat(Math.min(Math.max(value, this.low), this.high) / this.step);
    }

    draw(source, index) {
      const sample = this.kernel === "gaussian" ? gaussian : laplace;
      const moved = index + sample(source, this.scale);
      const least = BigInt(Math.ceil(this.limits[0] / this.step));
      const most = BigInt(Math.floor(this.limits[1] / this.step));
      const held = moved < least ? least : moved > most ? most : moved;
      return Number(held) * this.step;
    }
  }

  // What answers cost.

  // [epsilon, delta] of answers together, rounded up; without Gaussians delta is 0.
  function cost(noises, delta) {
    const pure = sum(noises.map((noise) => noise.pure));
    const precision = sum(noises.map((noise) => noise.precision));
    if (!precision) return [noises.length === 1 ? pure : nextUp(pure), 0];
    require(delta < NO_PROTECTION_DELTA,
      "delta must be below 0.1: a larger one may reveal one answer in ten completely.");
    const slack = sum(noises.map((noise) => noise.slack));
    const smaller = (delta - noises.length * 2 * Math.exp(-98)) * Math.exp(-slack);
    require(smaller > 0 && smaller < delta,
      "Gaussian noise needs delta between 0 and 1; Laplace noise needs none.");
    return [pure + gaussianEpsilon(precision ** -0.5, smaller) + 2 * slack, delta];
  }

  // The epsilon of Gaussian noise of z ranges (Balle and Wang 2018, Theorem 8).
  function gaussianEpsilon(z, delta) {
    const rho = 0.5 / z ** 2;
    let low = 0;
    let high = rho + 2 * Math.sqrt(rho * Math.log(1 / delta)); // Bun and Steinke 2016
    if (high > 700) return high; // beyond floats, and beyond any protection
    for (let i = 0; i < 100; i += 1) {
      const middle = (low + high) / 2;
      const near = middle * z - 0.5 / z;
      const far = middle * z + 0.5 / z;
      const lost = (erfc(near / Math.SQRT2) - Math.exp(middle) * erfc(far / Math.SQRT2)) / 2;
      if (lost > delta) low = middle;
      else high = middle;
    }
    return high * (1 + 1e-9);
  }

  // The complementary error function, to about 14 digits: a series of positive terms up to 1, and
  // a continued fraction beyond (Abramowitz and Stegun 7.1.6 and 7.1.14).
  function erfc(x) {
    if (x < 0) return 2 - erfc(-x);
    const factor = Math.exp(-x * x) / Math.sqrt(Math.PI);
    if (x < 1) {
      let [term, total] = [2 * x, 0];
      for (let n = 1; total + term !== total; n += 1) {
        total += term;
        term *= (2 * x * x) / (2 * n + 1);
      }
      return 1 - factor * total;
    }
    let tail = x;
    for (let k = 120; k > 0; k -= 1) tail = x + k / 2 / tail; // at 1, 120 terms give 15 digits
    return factor / tail;
  }

  // What the program says: the sentences of participant.py that are in a survey's file.

  const TEXTS = {
    en: {
      changed: "Your answer is changed at random before it leaves this computer.",
      kept: "With a probability of {chance} it stays as it is.",
      "kept at most": "With a probability of at most {chance} it stays as it is.",
      together:
        "All your answers are changed at random together before they leave this computer.",
      subset:
        "Of all {count} combinations of answers, {size} are sent. With a probability of {chance}"
        + " the true one is among them.",
      each:
        "This holds for one answer as for all of them: a single answer is not protected better.",
      limited: "Your number is limited to the range from {low} to {high}.",
      noise:
        "Random noise is added before it leaves this computer ({kernel} noise, standard"
        + " deviation about {deviation}).",
      any: "Whatever is sent could come from any true answer.",
      factor: "No true answer makes it more than {factor} times as likely as another ({cost}).",
      "factor and delta":
        "For one true answer its probability is at most {factor} times what it is for another,"
        + " plus {delta} ({cost}).",
      weak: "This protects your answer only weakly.",
      nothing:
        "This hides practically nothing ({cost}): a reader may become almost certain of your"
        + " answer.",
      "all factor": "For all your answers together the factor is {factor} ({cost}).",
      "all factor and delta":
        "For all your answers together the factor is {factor}, and the added probability is"
        + " {delta} ({cost}).",
      "all weak": "All your answers together are protected only weakly.",
      "all nothing":
        "All your answers together are practically not hidden ({cost}): a reader may become"
        + " almost certain of them.",
      rest:
        "This does not hide that you took part, or what other people's answers suggest about"
        + " you.",
      "large delta":
        "Large delta: in the worst case, noise with delta = {delta} reveals your answers"
        + " completely with probability {delta} (1 in {count}).",
      cost: "epsilon = {epsilon}",
      "cost and delta": "epsilon = {epsilon}, delta = {delta}",
      "more than": "more than {chance}",
    },
    de: {
      changed: "Ihre Antwort wird zufällig verändert, bevor sie diesen Computer verlässt.",
      kept: "Mit einer Wahrscheinlichkeit von {chance} bleibt sie, wie sie ist.",
      "kept at most":
        "Mit einer Wahrscheinlichkeit von höchstens {chance} bleibt sie, wie sie ist.",
      together:
        "Alle Ihre Antworten werden gemeinsam zufällig verändert, bevor sie diesen Computer"
        + " verlassen.",
      subset:
        "Von allen {count} Kombinationen von Antworten werden {size} gesendet. Mit einer"
        + " Wahrscheinlichkeit von {chance} ist die wahre darunter.",
      each:
        "Das gilt für eine Antwort wie für alle zusammen: Eine einzelne ist nicht besser"
        + " geschützt.",
      limited: "Ihre Zahl wird auf den Bereich von {low} bis {high} begrenzt.",
      noise:
        "Bevor sie diesen Computer verlässt, wird ein zufälliger Betrag addiert"
        + " ({kernel}-Rauschen, Standardabweichung etwa {deviation}).",
      any: "Was gesendet wird, kann von jeder wahren Antwort stammen.",
      factor:
        "Keine wahre Antwort macht es mehr als {factor}-mal so wahrscheinlich wie eine andere"
        + " ({cost}).",
      "factor and delta":
        "Die Wahrscheinlichkeit dafür ist bei einer wahren Antwort höchstens {factor}-mal so"
        + " groß wie bei einer anderen, plus {delta} ({cost}).",
      weak: "Das schützt Ihre Antwort nur schwach.",
      nothing:
        "Das verbirgt praktisch nichts ({cost}): Wer es liest, kann fast sicher wissen, wie"
        + " Ihre Antwort lautet.",
      "all factor": "Für alle Ihre Antworten zusammen ist der Faktor {factor} ({cost}).",
      "all factor and delta":
        "Für alle Ihre Antworten zusammen ist der Faktor {factor}, und die zusätzliche"
        + " Wahrscheinlichkeit ist {delta} ({cost}).",
      "all weak": "Alle Ihre Antworten zusammen sind nur schwach geschützt.",
      "all nothing":
        "Alle Ihre Antworten zusammen sind praktisch nicht verborgen ({cost}): Wer sie liest,"
        + " kann fast sicher wissen, wie sie lauten.",
      rest:
        "Nicht verborgen wird, dass Sie teilgenommen haben, und auch nicht, was die Antworten"
        + " anderer über Sie vermuten lassen.",
      "large delta":
        "Großes Delta: Im schlimmsten Fall verrät ein Rauschen mit Delta = {delta} Ihre"
        + " Antworten vollständig mit der Wahrscheinlichkeit {delta} (1 von {count}).",
      cost: "Epsilon = {epsilon}",
      "cost and delta": "Epsilon = {epsilon}; Delta = {delta}",
      "more than": "mehr als {chance}",
    },
  };
  const KERNELS = {
    en: { laplace: "Laplace", gaussian: "Gaussian" },
    de: { laplace: "Laplace", gaussian: "Gauß" },
  };

  // Numbers are rounded up, so that they never flatter.
  class Words {
    constructor(language) {
      this.language = language;
    }

    text(key, values = {}) {
      return TEXTS[this.language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
    }

    number(text) {
      return this.language === "de" ? text.replace(".", ",") : text;
    }

    up(value, digits = 3, smallestPower = -3) {
      return this.number(rounded(value, "up", digits, smallestPower));
    }

    cost(epsilon, delta) {
      const key = delta ? "cost and delta" : "cost";
      return this.text(key, { epsilon: this.up(epsilon), delta: this.up(delta) });
    }

    // What a large delta means, and nothing for a small one.
    aboutDelta(delta) {
      if (delta <= EXPLAINED_DELTA) return "";
      const count = Math.max(1, Math.floor(1 / delta));
      return this.text("large delta", { delta: this.up(delta), count });
    }

    // How one answer is changed.
    change(noise) {
      if (noise instanceof Measure) {
        const [low, high] = [noise.low, noise.high].map((end) => this.number(sixDigits(end)));
        const deviation = this.number(rounded(noise.deviation, "down", 3, -3)); // never flatters
        const kernel = KERNELS[this.language][noise.kernel];
        return [this.text("limited", { low, high }), this.text("noise", { kernel, deviation })];
      }
      if (noise.hasTable) {
        const chance = `${this.up(100 * noise.keep, 6)} %`;
        return [this.text("changed"), this.text("kept at most", { chance })];
      }
      let chance = this.number(`${sixDigits(100 * noise.keep)} %`);
      if (chance === "100 %") { // it is below 1, and never shown as 1
        chance = this.text("more than", { chance: this.number("99.9999 %") });
      }
      if (noise instanceof Report) {
        const { count, size } = noise;
        return [this.text("together"), this.text("subset", { count, size, chance })];
      }
      return [this.text("changed"), this.text("kept", { chance })];
    }

    // How one answer is changed, and what it gives away.
    aboutQuestion(noise, surveyDelta) {
      const [epsilon, delta] = cost([noise], surveyDelta);
      const texts = [...this.change(noise), this.aboutDelta(delta)];
      if (epsilon > PRACTICALLY_NONE) {
        texts.push(this.text("nothing", { cost: this.cost(epsilon, delta) }));
      } else {
        if (epsilon > WEAK) texts.push(this.text("weak"));
        texts.push(this.text("any"), this.factor("factor", epsilon, delta));
      }
      return texts.filter(Boolean).join(" ");
    }

    // What all answers together give away.
    aboutAll(noises, surveyDelta) {
      const [epsilon, delta] = cost(noises, surveyDelta);
      const texts = [this.aboutDelta(delta)];
      if (epsilon > PRACTICALLY_NONE) {
        texts.push(this.text("all nothing", { cost: this.cost(epsilon, delta) }));
      } else {
        if (epsilon > WEAK) texts.push(this.text("all weak"));
        texts.push(this.factor("all factor", epsilon, delta));
      }
      if (noises[0] instanceof Report) texts.push(this.text("each"));
      return [...texts, this.text("rest")].filter(Boolean).join(" ");
    }

    // By how much the truth changes a probability.
    factor(key, epsilon, delta) {
      const values = {
        factor: this.up(Math.exp(epsilon)),
        delta: this.up(delta, 3, -6),
        cost: this.cost(epsilon, delta),
      };
      return this.text(delta ? `${key} and delta` : key, values);
    }
  }

  // A positive fraction as coefficient times 10^power, of so many digits: "even", "up" or "down".
  function decimal({ n, d }, digits, rounding) {
    let power = n.toString().length - d.toString().length - digits;
    for (;;) {
      const [a, b] = power < 0 ? [n * 10n ** BigInt(-power), d] : [n, d * 10n ** BigInt(power)];
      let coefficient = rounding === "even" ? roundQuotient(a, b) : a / b;
      if (rounding === "up" && a % b) coefficient += 1n;
      if (coefficient < 10n ** BigInt(digits)) return { coefficient, power };
      power += 1;
    }
  }

  // A decimal as text; beyond the given powers of its first digit with an exponent.
  function shown({ coefficient, power }, smallestPower, exponentText) {
    const digits = coefficient.toString().replace(/0+$/, "");
    const first = coefficient.toString().length - 1 + power;
    const withPoint = (whole, rest) => (rest ? `${whole}.${rest}` : whole);
    if (first < smallestPower || first >= 6) {
      return withPoint(digits[0], digits.slice(1)) + exponentText(first);
    }
    if (first < 0) return `0.${"0".repeat(-first - 1)}${digits}`;
    return withPoint(digits.slice(0, first + 1).padEnd(first + 1, "0"), digits.slice(first + 1));
  }

  // A number of a few digits; a difference below 1e-12 of it counts as none.
  function rounded(value, rounding, digits, smallestPower) {
    if (value === 0) return "0";
    const { n, d } = exact(value);
    const away = 10n ** 12n + (rounding === "up" ? -1n : 1n);
    const { coefficient, power } = decimal({ n: n * away, d: d * 10n ** 12n }, 28, "even");
    const whole = power < 0 ? { n: coefficient, d: 10n ** BigInt(-power) }
      : { n: coefficient * 10n ** BigInt(power), d: 1n };
    return shown(decimal(whole, digits, rounding), smallestPower, (first) => `e${first}`);
  }

  // An exponent as Python writes it: e-05, e+16.
  function pythonExponent(power) {
    return `e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  }

  // A number as Python writes it with the format .6g.
  function sixDigits(value) {
    if (value === 0) return Object.is(value, -0) ? "-0" : "0";
    const { n, d } = exact(Math.abs(value));
    return (value < 0 ? "-" : "") + shown(decimal({ n, d }, 6, "even"), -4, pythonExponent);
  }

  // Text from a survey is data: it cannot look like the words of this program.

  const UNPRINTABLE = /^[\p{C}\p{Zl}\p{Zp}]$|^(?! )\p{Zs}$/u;
  const MARK = /^[\p{Mn}\p{Me}]$/u;
  const BLANKS = "\u115f\u1160\u2800\u3164\uffa0"; // letters and signs that show nothing
  const UNSEEN = /^[\u034f\u17b4\u17b5\u180b-\u180f\ufe00-\ufe0f\u{e0100}-\u{e01ef}]$/u;
  const MOST_MARKS = 4; // accents on one letter; more would run into other lines

  // A text as it may be shown: nothing unprintable or unseen, blanks one at a time.
  function plain(text) {
    let marks = 0;
    const letters = [...text].map((letter) => {
      marks = MARK.test(letter) ? marks + 1 : 0;
      if (BLANKS.includes(letter)) return " ";
      const hidden = UNPRINTABLE.test(letter) || UNSEEN.test(letter) || marks > MOST_MARKS;
      return hidden ? "\ufffd" : letter;
    });
    return letters.join("").split(" ").filter(Boolean).join(" ");
  }

  const differ = (values) =>
    new Set(values.map((value) => plain(String(value)).normalize("NFC"))).size === values.length;

  function checkLine(value, most = 200) {
    const valid = typeof value === "string" && [...value].length <= most && plain(value) === value;
    require(valid, `texts must be one printable line of at most ${most} letters, without two blanks`
      + " in a row, blanks at an end, or signs that cannot be seen.");
    return value;
  }

  function checkNumber(value) {
    const float = typeof value === "bigint" ? Number(value) : value;
    require(typeof float === "number" && Number.isFinite(float),
      "something else stands where a number belongs.");
    return float;
  }

  function checkInteger(value) {
    require(typeof value === "bigint" && abs(value) < 2n ** 53n,
      "states must be texts, or integers.");
    return value;
  }

  function checkList(value) {
    require(Array.isArray(value), "a part is missing or malformed.");
    return value;
  }

  // JSON as Python reads it: objects are Maps, integers are BigInt, a key stands once.
  function parse(text) {
    const kinds = [
      /([[\]{}:,])/, // signs
      /("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")/, // texts
      /(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/, // numbers
      /(true|false|null)/,
      /$/,
    ];
    const token = new RegExp(`[ \\t\\n\\r]*(?:${kinds.map((kind) => kind.source).join("|")})`, "y");
    const fail = () => require(false, "it is no JSON file, or names a key twice.");
    const next = () => token.exec(text) || fail();
    function value(found, depth) {
      if (depth > 100) fail();
      if (found[2] || found[4]) return JSON.parse(found[2] || found[4]);
      if (found[3]) return /^-?\d+$/.test(found[3]) ? BigInt(found[3]) : Number(found[3]);
      if (found[1] === "[") return list(depth + 1);
      return found[1] === "{" ? object(depth + 1) : fail();
    }
    function list(depth) {
      const values = [];
      let found = next();
      if (found[1] === "]") return values;
      for (;;) {
        values.push(value(found, depth));
        found = next();
        if (found[1] === "]") return values;
        if (found[1] !== ",") fail();
        found = next();
      }
    }
    function object(depth) {
      const members = new Map();
      let found = next();
      if (found[1] === "}") return members;
      for (;;) {
        if (!found[2]) fail();
        const key = JSON.parse(found[2]);
        if (members.has(key) || next()[1] !== ":") fail();
        members.set(key, value(next(), depth));
        found = next();
        if (found[1] === "}") return members;
        if (found[1] !== ",") fail();
        found = next();
      }
    }
    const whole = value(next(), 0);
    const end = next();
    if (end[1] || end[2] || end[3] || end[4]) fail();
    return whole;
  }

  // The member of an object, which must be there.
  function member(object, key) {
    require(object instanceof Map && object.has(key), "a part is missing or malformed.");
    return object.get(key);
  }

  const hasKeys = (object, keys) =>
    object instanceof Map && object.size === keys.length && keys.every((key) => object.has(key));

  const ABOUT = ["organiser", "contact", "purpose", "notice", "deleted"]; // what organisers say

  // What the organisers say: all of it, or nothing.
  function checkAbout(texts) {
    require(hasKeys(texts, []) || hasKeys(texts, ABOUT),
      "the organisers must say all about themselves, or nothing.");
    require([...texts.values()].every((text) => checkLine(text, 1000)),
      "what the organisers say about themselves must not be empty.");
    if (texts.size) {
      const date = texts.get("deleted");
      require(/^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}$/.test(date),
        "the date of deletion must be written as 2027-03-31.");
      const day = new Date(`${date}T00:00:00Z`); // there is such a day
      require(!Number.isNaN(day.getTime()) && day.toISOString().startsWith(date),
        "day is out of range for month");
    }
  }

  function noiseOf(question, inReport) {
    if (inReport) {
      checkLine(member(question, "text"), 1000);
      require(hasKeys(question, ["name", "text", "states", "guarantee"]),
        "in a report of all answers, a question has states and no noise.");
      return new Answers(statesOf(question));
    }
    const [noise, kind] = [member(question, "noise"), question.has("range") ? "range" : "states"];
    checkLine(member(question, "text"), 1000);
    const keys = ["name", "text", "noise", "guarantee", kind];
    const noises = kind === "range" ? [["kernel", "variance"]] : [["keep"], ["table"]];
    const fits = hasKeys(question, keys) && noises.some((names) => hasKeys(noise, names));
    require(fits, "a question has states or a range, and noise that fits them. It cannot depend on an"
      + " earlier answer: whether somebody is asked would show that answer.");
    if (kind === "range") {
      const range = checkList(question.get("range")).map(checkNumber);
      require(range.length === 2, "a part is missing or malformed.");
      return new Measure(...range, noise.get("kernel"), checkNumber(noise.get("variance")));
    }
    const states = statesOf(question);
    if (noise.has("keep")) return new Choice(states, checkNumber(noise.get("keep")));
    const table = checkList(noise.get("table"));
    return new Choice(states, table.map((row) => checkList(row).map(checkNumber)));
  }

  // Possible answers that look different from each other.
  function statesOf(question) {
    const answers = checkList(question.get("states"));
    const states = answers.map(typeof answers[0] === "string" ? (s) => checkLine(s) : checkInteger);
    require(differ(states), "states must look different from each other.");
    return states;
  }

  // The report of all answers.
  function reportOf(report, noises) {
    require(hasKeys(report, ["size", "keep"]), "a report has a size and a keep.");
    const sizes = [...noises.values()].map((answers) => answers.states.length);
    return new Report(sizes, checkInteger(report.get("size")), checkNumber(report.get("keep")));
  }

  // The survey in a file, after computing its words anew from its numbers; a SurveyError if it is
  // damaged, or says anything else than its numbers mean.
  function readSurvey(bytes) {
    if (bytes.length > MOST_BYTES) {
      throw new SurveyError(`This survey is larger than ${MOST_BYTES} bytes.`);
    }
    const content = parse(textOf(bytes));
    const questions = checkList(member(content, "questions"));
    require(member(content, "version") === VERSION, "this program does not read its version.");
    const language = member(content, "language");
    require(Object.keys(TEXTS).includes(language), "the language must be en or de.");
    const wanted = content.get("report") ?? null; // a report of all answers
    const noises = new Map();
    for (const question of questions) {
      const name = checkLine(member(question, "name"));
      noises.set(name, noiseOf(question, wanted !== null));
    }
    const names = [...noises.keys()];
    require(names.every((name) => name && !name.includes("=")) && names.length > 0
      && names.length === questions.length && differ(names),
      "questions need different names, without an equals sign.");
    require(noises.get(member(content, "label")) instanceof Answers,
      "the label must be the name of a question with possible values.");
    const delta = checkNumber(member(content, "delta"));
    const words = new Words(language);
    const report = wanted === null ? null : reportOf(wanted, noises);
    const listed = report ? [report] : [...noises.values()];
    const each = [...noises.values()].map((noise) => words.aboutQuestion(report || noise, delta));
    const together = words.aboutAll(listed, delta);
    checkLine(member(content, "title"));
    checkAbout(member(content, "about"));
    const same = questions.every((question, i) => member(question, "guarantee") === each[i])
      && member(content, "guarantee") === together;
    if (!same) throw new SurveyError("This survey does not do what it says. Do not answer it.");
    const keys = ["suffice", "version", "language", "title", "about", "label", "delta",
      "questions", "guarantee", "id", ...(report ? ["report"] : [])];
    const id = member(content, "id");
    const complete = hasKeys(content, keys) && content.get("suffice") === "survey";
    if (!complete || !/^sha256:[0-9a-f]{64}$/.test(id) || id !== idOf(bytes, id)) {
      throw new SurveyError(
        "The survey was altered or damaged: its id does not match its contents.");
    }
    const [epsilon, effectiveDelta] = cost(listed, delta);
    return { content, noises, report, id, language, epsilon, delta: effectiveDelta, each, together };
  }

  // Strict UTF-8: what is malformed is refused.
  function textOf(bytes) {
    const escaped = Array.from(bytes, (byte) => `%${byte.toString(16).padStart(2, "0")}`);
    try {
      return decodeURIComponent(escaped.join(""));
    } catch {
      return require(false, "it is no JSON file, or names a key twice.");
    }
  }

  const bytesOf = (text) => Uint8Array.from(
    encodeURIComponent(text).match(/%..|./g) || [],
    (part) => (part.length > 1 ? parseInt(part.slice(1), 16) : part.charCodeAt(0)));

  // The id that the bytes of a survey have: a hash of all its lines but that of the id.
  function idOf(bytes, id) {
    const line = bytesOf(` "id": "${id}",\n`);
    const starts = (at) => line.every((byte, i) => bytes[at + i] === byte);
    let at = 0;
    while (at < bytes.length && !starts(at)) at += 1;
    return `sha256:${sha256([...bytes.slice(0, at), ...bytes.slice(at + line.length)])}`;
  }

  // SHA-256 (FIPS 180-4). Its constants are the first 32 bits after the point of roots of primes.

  const PRIMES = [];
  for (let n = 2; PRIMES.length < 64; n += 1) if (PRIMES.every((p) => n % p)) PRIMES.push(n);

  function rootDigits(prime, degree) {
    const target = BigInt(prime) << (32n * degree);
    let root = 0n;
    for (let bit = 1n << 40n; bit; bit >>= 1n) if ((root + bit) ** degree <= target) root += bit;
    return Number(root & 0xffffffffn);
  }

  const SHA_KEYS = PRIMES.map((prime) => rootDigits(prime, 3n));
  const SHA_START = PRIMES.slice(0, 8).map((prime) => rootDigits(prime, 2n));

  function sha256(message) {
    const [keys, hash] = [SHA_KEYS, [...SHA_START]];
    const size = Math.ceil((message.length + 9) / 64) * 64;
    const padded = new DataView(new ArrayBuffer(size));
    message.forEach((byte, i) => padded.setUint8(i, byte));
    padded.setUint8(message.length, 0x80);
    padded.setBigUint64(size - 8, BigInt(message.length) * 8n);
    const turn = (x, by) => (x >>> by) | (x << (32 - by));
    const w = new Uint32Array(64);
    for (let block = 0; block < size; block += 64) {
      for (let t = 0; t < 64; t += 1) {
        if (t < 16) w[t] = padded.getUint32(block + 4 * t);
        else {
          const [x, y] = [w[t - 15], w[t - 2]];
          const small = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
          const large = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
          w[t] = w[t - 16] + small + w[t - 7] + large;
        }
      }
      let [a, b, c, d, e, f, g, h] = hash;
      for (let t = 0; t < 64; t += 1) {
        const chosen = (e & f) ^ (~e & g);
        const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + keys[t] + w[t]) | 0;
        const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((part, i) => { hash[i] = (hash[i] + part) | 0; });
    }
    return hash.map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
  }

  // The text of one participant's answer file. All truths are checked before anything is drawn.
  // Draw once: whoever calls this keeps what it returns before sending it.
  function respond(survey, truths, source) {
    const names = [...survey.noises.keys()];
    const indices = names.map((name) => survey.noises.get(name).locate(truths.get(name)));
    const token = randomBits(source, 128).toString(16).padStart(32, "0");
    if (survey.report) {
      const drawn = survey.report.draw(source, indices).map((number) => `  ${number}`);
      return `{\n "report": [\n${drawn.join(",\n")}\n ],\n "suffice": "answer",\n`
        + ` "survey": "${survey.id}",\n "token": "${token}",\n "version": 1\n}\n`;
    }
    const answers = new Map(names.map((name, i) =>
      [name, survey.noises.get(name).draw(source, indices[i])]));
    const sorted = [...answers.keys()].sort(byCodePoint); // the one form in which a file is written
    const lines = sorted.map((name) => `  ${JSON.stringify(name)}: ${written(answers.get(name))}`);
    return `{\n "answers": {\n${lines.join(",\n")}\n },\n "suffice": "answer",\n`
      + ` "survey": "${survey.id}",\n "token": "${token}",\n "version": 1\n}\n`;
  }

  function byCodePoint(one, other) {
    const [x, y] = [[...one], [...other]].map((text) => text.map((c) => c.codePointAt(0)));
    const at = x.findIndex((code, i) => code !== y[i]);
    return at < 0 ? x.length - y.length : x[at] - (at < y.length ? y[at] : -1);
  }

  // An answer as Python writes it: a text, an integer, or the shortest digits of a float.
  function written(answer) {
    if (typeof answer === "string") return JSON.stringify(answer);
    if (typeof answer === "bigint") return String(answer);
    if (answer === 0) return "0.0";
    const [digits, exponent] = Math.abs(answer).toExponential().split("e");
    const first = Number(exponent);
    const sign = answer < 0 ? "-" : "";
    if (first < -4 || first >= 16) {
      return sign + digits + pythonExponent(first);
    }
    const plainDigits = digits.replace(".", "");
    if (first < 0) return `${sign}0.${"0".repeat(-first - 1)}${plainDigits}`;
    const whole = plainDigits.slice(0, first + 1).padEnd(first + 1, "0");
    return `${sign}${whole}.${plainDigits.slice(first + 1) || "0"}`;
  }

  return { readSurvey, respond, freshBytes, sha256, SurveyError };
})();
