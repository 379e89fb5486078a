"""`participant.js` is `participant.py` in another language: the same draws, words and refusals.

Both get the same bytes of a survey and the same random bytes. They must give the same answer file,
byte by byte, after as many random bytes, or refuse the survey with the same sentence. Random
surveys alone would not notice some slips, so crafted ones come first: ties, powers of two, zeros
that are drawn with a sign, large tables. Faults are planted in copies of the JavaScript: each must
be noticed. The JavaScript runs in QuickJS, and as an audit in Chromium.
"""

import hashlib
import itertools
import json
import math
import random
from functools import cache
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import quickjs
from browsing import needs_browser, open_browser

from suffice import participant

SOURCE = (Path(participant.__file__).with_suffix(".js")).read_text(encoding="utf-8")
HARNESS = """
const unhex = (text) => Uint8Array.from(text.match(/../g) || [], (pair) => parseInt(pair, 16));
function outcome(survey, truths, streams) {
  try {
    const read = suffice.readSurvey(unhex(survey));
    const sheets = JSON.parse(streams).map((text) => {
      const stream = unhex(text);
      let taken = 0;
      const source = (count) => stream.slice(taken, taken += count);
      return [suffice.respond(read, new Map(JSON.parse(truths)), source), taken];
    });
    return JSON.stringify({ sheets, cost: [read.epsilon, read.delta] });
  } catch (error) {
    if (error instanceof suffice.SurveyError) return JSON.stringify(error.message);
    return JSON.stringify(`${error}\\n${error.stack}`);
  }
}
"""
LONGEST = 1500  # random bytes that are at hand for one sheet
ANSWER_WORDS = ["no", "yes", "Größe", "あ", "\U0001f600", "a b", '"', "\\", "<b>", "é", "None", "7"]


def handed(data, truths, streams) -> list[str]:
    """Return a survey, truths and random bytes as the function `outcome` takes them."""
    written = [[name, str(truth)] for name, truth in truths.items()]
    return [data.hex(), json.dumps(written), json.dumps([stream.hex() for stream in streams])]


def running(source: str):
    """Return the function `outcome` of a JavaScript program, on the same arguments as `ours`."""
    context = quickjs.Context()
    context.eval(source + HARNESS)
    call = context.get("outcome")

    def outcome(*arguments):
        return json.loads(call(*handed(*arguments)))

    outcome.context = context  # it lives as long as the function
    return outcome


def ours(data, truths, streams):
    """Return what `participant.py` makes of a survey, truths and random bytes."""
    try:
        survey = participant.read_survey(data)
    except participant.SurveyError as error:
        return str(error)
    sheets = []
    for stream in streams:
        taken = [0]

        def token_bytes(size, stream=stream, taken=taken):
            taken[0] += size
            assert taken[0] <= LONGEST
            return stream[taken[0] - size : taken[0]]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(participant, "secrets", SimpleNamespace(token_bytes=token_bytes))
            sheet, _ = participant.respond(survey, truths, None)
        sheets.append([sheet.decode(), taken[0]])
    noises = list(survey.parts.values())
    return {"sheets": sheets, "cost": list(participant._cost(noises, survey.content["delta"]))}


def agree(one, other) -> bool:
    """Say whether two outcomes are the same; logarithms may differ in their last digits.

    A part that is missing is another sentence in each language, so what follows a colon may differ.
    """
    if isinstance(one, str) or isinstance(other, str):
        return str(one).split(":")[0] == str(other).split(":")[0]
    close = all(
        math.isclose(a, b, rel_tol=1e-9) for a, b in zip(one["cost"], other["cost"], strict=True)
    )
    return close and one["sheets"] == other["sheets"]


def stream(seed: object) -> bytes:
    return hashlib.shake_256(str(seed).encode()).digest(LONGEST)


# Surveys.


def keeping(name, states, keep):
    return {"name": name, "text": "", "states": list(states), "noise": {"keep": keep}}


def by_table(name, states, rows):
    return {"name": name, "text": "A table?", "states": list(states), "noise": {"table": rows}}


def number(name, low, high, kernel, variance):
    noise = {"kernel": kernel, "variance": variance}
    return {"name": name, "text": "How many?", "range": [low, high], "noise": noise}


def silent(name, states):
    """Return a question whose answer is a part of a report."""
    return {"name": name, "text": "", "states": list(states)}


def least_keep(size, count):
    """Return the least probability of a report that hides anything at all."""
    return next(p for p in _rising(size / count) if int(p * 2.0**64) * count > size * 2**64)


def _rising(p):
    while True:
        p = math.nextafter(p, 1)
        yield p


VOTE = keeping("vote", ["no", "yes"], 0.75)
SAID = dict.fromkeys(("organiser", "contact", "purpose", "notice"), "Größe")
SAID["deleted"] = "2027-03-31"


def mixed_rows(rng, count):
    rows = [[rng.random() + 3 * (i == j) for j in range(count)] for i in range(count)]
    totals = [math.fsum(column) for column in zip(*rows, strict=True)]
    return [[p / total for p, total in zip(row, totals, strict=True)] for row in rows]


def tied_rows():
    """Columns whose small probabilities are halves of a word: 1.5 and 2046.5."""
    small = [3 * 2.0**-65, 4093 * 2.0**-65]
    columns = [[*small[:i], 1 - 2.0**-53, *small[i:]] for i in range(3)]
    return [list(row) for row in zip(*columns, strict=True)]


def tied_keeps():
    """Return probabilities of 129 answers that leave each of the others half a word too many."""
    keep, found = 0.008, []
    while len(found) < 4:
        rest = 2**64 - int(keep * 2.0**64)
        found += [keep] if rest % 128 == 64 else []
        keep = math.nextafter(keep, 1)
    return found


def crafted():
    """Yield the questions, the truths and the delta of surveys on which slips show."""
    for keep in tied_keeps():
        yield [keeping("q", range(129), keep)], {"q": 128}, 0
    yield [by_table("q", "abc", tied_rows())], {"q": "b"}, 1e-6
    for power in (-3, 0, 5, 29):
        for ulps in (-2, -1, 0, 1, 2):
            variance = 4.0**power
            for _ in range(abs(ulps)):
                variance = math.nextafter(variance, math.inf * ulps)
            kernel = "gaussian" if ulps % 2 else "laplace"
            asked = [number("n", 0, 2.0**power * 3, kernel, variance), VOTE]
            yield asked, {"n": 2.0**power, "vote": "no"}, 1e-5
    for kernel in ("laplace", "gaussian"):
        step = participant.grid_step(1.0)
        for half in (0.5, 1.5, 2.5, -0.5, -1.5):
            asked = [number("n", -1, 1, kernel, 1.0), VOTE]
            yield asked, {"n": half * step, "vote": "yes"}, 1e-3
    for low, high in ((100000.5, 100001.5), (-0.0, 0.5), (-1000005, 1000015), (1e-5, 1.000005e-4)):
        yield (
            [number("n", low, high, "laplace", (high - low) ** 2), VOTE],
            {"n": 0, "vote": "no"},
            0,
        )
    for delta in (1e-3, 1.0000001e-3, 0.0123456, 0.0999, 1e-6, 1e-9, 1e-30, 3.3e-4):
        asked = [number("n", 0, 1, "gaussian", 4.0), number("m", 0, 1, "gaussian", 0.04), VOTE]
        yield asked, {"n": 0.5, "m": 2, "vote": "no"}, delta
    for keep in (0.9, 0.96, 0.99999, 1 - 1e-8, 1 - 2.0**-53, 0.5000001, 0.751234565, 0.7512355):
        yield [keeping("q", ["no", "yes"], keep)], {"q": "no"}, 7
    for variance in (2.0**32, 2.0**31.9, 1.1 * 2.0**-24, 1e-5):
        yield [number("n", 0, 1, "gaussian", variance), VOTE], {"n": 1, "vote": "no"}, 1e-6
    yield [keeping("q", range(-128, 128), 0.8)], {"q": -128}, 0
    yield [keeping("q", range(256), 0.004)], {"q": 255}, 0
    yield [by_table("q", range(24), mixed_rows(random.Random(3), 24))], {"q": 5}, 0
    names = ["b", "a", "Z", "é", "\U0001f600", "\uffee", "__proto__", "constructor", "10", "9"]
    yield [keeping(name, ["1", "2"], 0.7) for name in names], dict.fromkeys(names, "2"), 0


def reports():
    """Yield surveys with a report of all answers: questions, truths, delta and the report."""
    pair, many = [silent("a", "xy"), silent("b", [1, 2, 3])], [silent(n, range(4)) for n in "abcde"]
    for size, keep in ((1, 0.9999), (2, 0.6), (5, 0.84), (1, 1 - 2.0**-53), (3, least_keep(3, 6))):
        for truths in ({"a": "x", "b": 1}, {"a": "y", "b": 3}):
            yield pair, truths, 0, {"size": size, "keep": keep}
    for size, keep in ((275, 0.5), (1, 0.001), (120, 0.265), (1, 1 - 1e-8)):
        yield many, dict.fromkeys("abcde", 3), 0.01, {"size": size, "keep": keep}
    yield [silent("q", range(256))], {"q": 255}, 0, {"size": 69, "keep": 0.5}


def signed_zeros(questions):
    """Return bytes with which the noise of the first question, a number, is -0 before it is drawn.

    They are a token, no bit at all for u, and bits that end both coins and then ask for a minus.
    """
    noise = participant._asked(questions[0])
    scale = noise.scale
    top = scale.numerator if noise.kernel == "laplace" else math.floor(scale) + 1
    size = -(-(top - 1).bit_length() // 8)
    return bytes(16 + size) + b"\x80\x80" + stream(size)[: LONGEST - 18 - size]


def at_random(rng):
    """Return the questions, truths and delta of one survey, and perhaps a report."""
    questions, truths = [], {}
    if rng.random() < 0.25:
        sizes = [rng.randint(2, 6) for _ in range(rng.randint(1, 3))]
        questions = [silent(f"{rng.choice('abcäñ中')}{k}", range(n)) for k, n in enumerate(sizes)]
        count, epsilon = math.prod(sizes), rng.uniform(0.05, 12)
        size = min(max(1, round(count / (math.exp(epsilon) + 1))), count - 1)
        odds = size * math.exp(epsilon)
        report = {"size": size, "keep": odds / (odds + count - size)}
        truths = {q["name"]: rng.choice(q["states"]) for q in questions}
        return questions, truths, rng.choice([0, 1e-6]), report
    for place in range(rng.randint(1, 4)):
        name, sort = f"{rng.choice('abcäñ中')}{place}", rng.randrange(4) if place else 0
        if sort == 0:
            states = rng.sample(ANSWER_WORDS, rng.randint(2, 12))
            if rng.random() < 0.4:
                first = rng.randint(-50, 50)
                states = list(range(first, first + rng.randint(2, 40)))
            keep = 1 / len(states) + (1 - 1 / len(states)) * rng.uniform(0.01, 0.999)
            questions.append(keeping(name, states, keep))
            truths[name] = rng.choice(states)
        elif sort == 1:
            states = rng.sample(ANSWER_WORDS, rng.randint(2, 6))
            questions.append(by_table(name, states, mixed_rows(rng, len(states))))
            truths[name] = rng.choice(states)
        else:
            low = rng.choice([0, -1, rng.uniform(-1e3, 1e3), rng.randint(-99, 99), 1e4])
            width = rng.choice([1, 0.001, rng.uniform(0.1, 500), 12345])
            deviation = width * 2 ** rng.uniform(-8, 8)
            kernel = rng.choice(["laplace", "gaussian"])
            questions.append(number(name, low, low + width, kernel, deviation**2))
            truths[name] = low + width * rng.uniform(-0.2, 1.2)
    return questions, truths, rng.choice([1e-6, 1e-5, 10 ** rng.uniform(-12, -1.01)])


def vector(questions, truths, delta, report, *given):
    language, streams = given
    label = next(q["name"] for q in questions if "states" in q)
    about = SAID if len(questions) % 2 else {}
    survey = participant.make_survey(
        "Ein Titel", questions, label, delta, language, about=about, report=report
    )
    return survey.data, truths, streams


def draws(surveys: int, sheets: int):
    """Yield surveys with the random bytes of so many sheets each; crafted ones come first."""
    for place, (questions, truths, delta, *report) in enumerate(chain(crafted(), reports())):
        streams = [stream(f"{place} {sheet}") for sheet in range(sheets)]
        if "range" in questions[0]:
            streams[0] = signed_zeros(questions)
        language = participant.LANGUAGES[place % 2]
        yield vector(questions, truths, delta, *(report or [None]), language, streams)
    rng = random.Random(34)
    for place in range(surveys):
        streams = [stream(f"random {place} {sheet}") for sheet in range(sheets)]
        questions, truths, delta, *report = at_random(rng)
        language = participant.LANGUAGES[place % 2]
        yield vector(questions, truths, delta, *(report or [None]), language, streams)


# What is refused.

BASE = [VOTE, by_table("grade", [1, 2], [[0.8, 0.1], [0.2, 0.9]]),
        number("age", 0, 120, "gaussian", 14400.0)]  # fmt: skip
TRUTHS = {"vote": "yes", "grade": 2, "age": 44}
GONE = object()
SIGNS = "\u200b\u202e\u00a0\u3164\ufe0f\x07\x7f\u2028\ue000\u034f\u00ad\n\t\U000e0100\U000f0000"
EDITS = [  # where, and what stands there instead
    *[(("version",), value) for value in (1, 0, 2.0, True, "2", None, 10**30)],
    *[(("about",), value) for value in ({}, None, [], "a", {"organiser": "a"})],
    *[(("about", "notice"), value) for value in ("", None, 7, "a  b", "a\u200bb", 1001 * "a")],
    *[(("about", "deleted"), value) for value in (
        "2027-02-30", "2027-2-3", "20270203", "0000-01-01", "2028-02-29", "2027-02-29", "soon",
        "2027-04-31", "2027-13-01", "2027-01-00", "2027-W01-1", "\u0662027-01-01")],
    (("about", "more"), "a"), (("about", "contact"), GONE),
    *[(("language",), value) for value in ("fr", "", None, "constructor", ["en"])],
    *[(("label",), value) for value in ("age", "nobody", None, 7, "__proto__")],
    *[(("title",), value) for value in ("", "a  b", " a", "a ", "e" + 5 * "\u0301", 201 * "a")],
    *[(("title",), value) for value in ("e" + 4 * "\u0301", 200 * "\U0001f600", "{cost}")],
    *[(("title",), f"a{sign}b") for sign in SIGNS],
    *[(("delta",), value) for value in (0, 1, 0.1, 1e-50, -1e-6, "1e-6", None, True, 10**400)],
    *[(("questions",), value) for value in ([], {}, None, "vote", [[]], [None])],
    *[(("questions", 0, "name"), value) for value in ("", "a=b", "grade", "a  b", None)],
    *[(("questions", 0, "text"), value) for value in ("a\u200bb", 1001 * "a", 1000 * "a", None)],
    *[(("questions", 0, "states"), value) for value in (
        ["a"], [], ["a", "a"], ["é", "e\u0301"], ["a", 1], [1, "a"], [1, True], [1.0, 2.0],
        [2**53, 1], [2**53 - 1, -1], "ab", {"a": 1}, None, list(range(257)), ["1", "01"])],
    *[(("questions", 0, "noise"), value) for value in (
        {"keep": 0.5}, {"keep": 1}, {"keep": 1.0}, {"keep": 0.2}, {"keep": "x"}, {"keep": None},
        {"keep": True}, {"keep": 1 - 2.0**-60}, {}, {"keep": 0.75, "more": 1}, ["keep"], None,
        {"keep": math.nextafter(0.5, 1)}, {"kernel": "laplace", "variance": 1.0}, {"table": 3})],
    *[(("questions", 1, "noise", "table"), value) for value in (
        [[0.9, 0.2], [0.1, 0.7]], [[1.0, 0.2], [0.0, 0.8]], [[1.1, 0.2], [-0.1, 0.8]],
        [[0.4, 0.4], [0.6, 0.6]], [[0.9, 0.1]], [[0.9], [0.1]], [[0.5 + 1e-11, 0.5], [0.5, 0.5]],
        [[0.5 + 1e-8, 0.5], [0.5 - 1e-8, 0.5]], [[1, 1], [1, 1]], [["a", 0.1], [0.1, 0.9]],
        [[0.8, 0.1], [0.2, 0.9 + 5e-10]], [[0.8, 0.1], [0.2, 0.9 + 2e-9]], [], {}, [0.8, 0.2])],
    *[(("questions", 2, "range"), value) for value in (
        [1, 1], [2, 1], [0], [0, 1, 2], {"a": 1, "b": 2}, "01", [0, "1"], [0, None], [0, True],
        [1e12, 1e12 + 1], [0, 1e-9], [0, 1e9], [2**70, 2**71], [-1e308, 1e308], [0, 5e-324])],
    *[(("questions", 2, "noise", "variance"), value) for value in (
        0, -1.0, 1e-9, 1e30, "1", None, 10**400, 5e-324, 14400, True)],
    *[(("questions", 2, "noise", "kernel"), v) for v in ("uniform", "", None, "constructor", 1)],
    *[((key,), GONE) for key in ("suffice", "version", "language", "title", "about", "label",
                                 "delta", "questions", "guarantee")],
    *[(("questions", 0, key), GONE) for key in ("name", "text", "states", "noise", "guarantee")],
    *[((*place, "more"), 1) for place in ((), ("questions", 0), ("questions", 2, "noise"))],
    (("questions", 0, "range"), [0, 1]),
    *[(("suffice",), value) for value in ("answer", "", None, 1)],
    *[(place, value) for place in (("guarantee",), ("questions", 0, "guarantee"))
      for value in ("This is safe.", "", None, 1, ["a"])],
]  # fmt: skip


REPORTED = [silent("a", "xy"), silent("b", [1, 2, 3])]
REPORT_EDITS = [
    *[(("report",), value) for value in (None, [], 3, {}, GONE, {"size": 2}, {"keep": 0.6})],
    *[(("report", "size"), value) for value in (0, -1, 6, 7, 5, 3, 2.0, "2", True, None, 10**30)],
    *[(("report", "keep"), value) for value in (
        0, 1, 1 / 3, math.nextafter(1 / 3, 1), 1 - 2.0**-53, 1 - 2.0**-60, "x", None, True, -1.0)],
    (("report", "more"), 1), (("questions", 0, "noise"), {"keep": 0.75}),
    *[(("questions", 0, key), GONE) for key in ("text", "states", "guarantee")],
    *[(("questions", 1, "states"), value) for value in ([], [1], list(range(513)), ["a", "a"])],
    *[(("questions", 1, "states"), list(range(count))) for count in (256, 257)],
    (("questions", 1, "range"), [0, 1]), (("guarantee",), "This is safe."),
]  # fmt: skip


def sealed(content) -> bytes:
    """Return the bytes of a survey's file with the id that they have."""
    bare = {key: value for key, value in content.items() if key != "id"}
    digest = hashlib.sha256(participant._canonical(bare)).hexdigest()
    return participant._canonical({**bare, "id": f"sha256:{digest}"})


def reworded(content) -> dict:
    """Return a survey with the words that its numbers mean, where it has any."""
    try:
        bare = [{k: v for k, v in q.items() if k != "guarantee"} for q in content["questions"]]
        title, *rest = (content[key] for key in ("title", "label", "delta", "language"))
        own = {key: content[key] for key in ("about", "report") if key in content}
        made = participant.make_survey(title, bare, *rest, **own).content
    except Exception:  # noqa: BLE001  # then its words are those of another survey
        return content
    questions = [
        {**q, "guarantee": m["guarantee"]} for q, m in zip(bare, made["questions"], strict=True)
    ]
    return {**content, "guarantee": made["guarantee"], "questions": questions}


@cache
def refusals() -> tuple[bytes, ...]:
    """Return the bytes of surveys, most of which are to be refused."""
    good = participant.make_survey("T", BASE, "vote", about=SAID).data
    whole = participant.make_survey("T", REPORTED, "a", report={"size": 2, "keep": 0.6}).data
    spelled = good.replace(b'"keep": 0.75', b'"keep": 0.750')
    line = next(line for line in good.splitlines(keepends=True) if line.startswith(b' "id"'))
    again = hashlib.sha256(spelled.replace(line, b"")).hexdigest()
    files = [
        good, spelled,
        spelled.replace(line, b' "id": "sha256:%s",\n' % again.encode()),
        json.dumps(json.loads(good)).encode(), good.replace(b"\n", b"\r\n"),
        good.replace(line, b""), good.replace(line, line + line),
        good.replace(b'"id": "s', b'"id": "t'),
        good[:-1], good + b"\n", good + b"x", good[:-40], b"", b"{}", b"[]", b"7", b"null", b"\xff",
        b"\xef\xbb\xbf" + good, good.replace(b"T", b"\xc3"), good.replace(b'"T"', b'"\\ud800"'),
        good.replace(b'"T"', b'"U"'), good.replace(b"14400.0", b"14401.0"),
        good.replace(b"0.75", b"NaN"),
        good.replace(b"14400.0", b"14400."), good.replace(b"0.75", b".75"),
        good.replace(b"120", b"0120"),
        good.replace(b' "title"', b' "title": "T",\n "title"'), 300 * b"[" + 300 * b"]",
        good.replace(b"epsilon = 1.1", b"epsilon = 1.0"), good.replace(b"75 %", b"65 %"),
    ]  # fmt: skip
    files += [whole, whole.replace(b"0.6", b"0.7"), whole.replace(b"2 are sent", b"3 are sent")]
    for data, place, value in [
        *((good, *edit) for edit in EDITS), *((whole, *edit) for edit in REPORT_EDITS)
    ]:  # fmt: skip
        content = json.loads(data)
        *path, last = place
        inner = content
        for key in path:
            inner = inner[key]
        inner[last] = value
        if value is GONE:
            del inner[last]
        elif "guarantee" not in place:
            content = reworded(content)
        files.append(sealed(content))
    return tuple(files)


# Both languages.


@pytest.fixture(scope="module")
def twin():
    return running(SOURCE)


def compare(twin, surveys: int, sheets: int) -> tuple[int, int]:
    """Return how many surveys both read, and answers both drew from the same random bytes.

    The JavaScript refuses a survey whose sentences are not its own: to read it is to agree in them.
    """
    read, count = 0, 0
    for arguments in draws(surveys, sheets):
        expected, found = ours(*arguments), twin(*arguments)
        assert not isinstance(expected, str), expected
        assert agree(expected, found), (arguments[0].decode(), expected, found)
        read += 1
        count += len(arguments[1]) * len(expected["sheets"])
    return read, count


def test_both_draw_the_same_from_the_same_bytes(twin):
    assert compare(twin, 37, 5)[1] >= 1000


def full(twin) -> None:
    """Compare 10,000 answers, and the words or refusals of 1,000 surveys."""
    read, drawn = compare(twin, 1000, 5)
    for data in refusals():
        assert agree(ours(data, TRUTHS, []), twin(data, TRUTHS, [])), data.decode(errors="replace")
    assert read >= 1000
    assert drawn >= 10_000


@pytest.mark.audit
def test_both_draw_the_same_from_the_same_bytes_ten_thousand_times(twin):
    full(twin)


@pytest.mark.audit
@needs_browser
def test_a_browser_draws_the_same_ten_thousand_times():
    with open_browser() as browser:
        page = browser.new_page()
        page.add_script_tag(content=SOURCE + HARNESS)

        def outcome(*arguments):
            return json.loads(page.evaluate("(given) => outcome(...given)", handed(*arguments)))

        full(outcome)


@pytest.mark.audit
def test_a_table_of_64_answers_is_the_same_in_both(twin):
    rows = mixed_rows(random.Random(64), 64)
    arguments = vector([by_table("q", range(64), rows)], {"q": 63}, 0, None, "en", [stream(64)])
    assert agree(ours(*arguments), twin(*arguments))


def test_both_refuse_the_same_surveys(twin):
    reasons = set()
    for data in refusals():
        expected, found = ours(data, TRUTHS, []), twin(data, TRUTHS, [])
        assert agree(expected, found), (data.decode(errors="replace"), expected, found)
        reasons.add(expected.split(":")[0] if isinstance(expected, str) else "read")
    assert len(reasons) == 4  # invalid, other words, another id; and some are read


def test_a_question_that_depends_on_an_answer_is_refused_with_the_reason(twin):
    content = json.loads(participant.make_survey("T", BASE, "vote", about=SAID).data)
    content["questions"][1]["if"] = {"vote": "yes"}
    for outcome in (ours, twin):
        said = outcome(sealed(content), TRUTHS, [])
        assert "whether somebody is asked would show that answer" in said


FAULTS = {
    "half-up rounding": ("(twice === d && whole % 2n !== 0n)", "twice === d"),
    "signed zero": ("if (n || !negative) return", "return"),
    "floor(log2)": (
        "return 2 ** (n.toString(2).length - 1 - shift - 20);",
        "return 2 ** (Math.floor(Math.log2(deviation)) - 20);",
    ),
    "endianness": (
        "for (const byte of source(size)) value",
        "for (const byte of source(size).reverse()) value",
    ),
    "no rejection": ("while (value >= limit) value = randomBits", "if (false) value = randomBits"),
    "delta ignored": ("const smaller = (delta - ", "const smaller = (1e-6 - "),
    "id unchecked": (" || id !== idOf(bytes, id)", ""),
    "words unchecked": ("if (!same) throw", "if (false) throw"),
    "version unchecked": ('require(member(content, "version") === VERSION', "require(true"),
    "organisers unchecked": ("    checkAbout(member", "    if (0) checkAbout(member"),
    "text unchecked": ("<= most && plain(value) === value", "<= most"),
    "one word more kept": (
        "randomBits(source, 64) < this.threshold",
        "randomBits(source, 64) <= this.threshold",
    ),
    "the truth among the others": ("if (other >= number) other += 1n;", ""),
    "a combination twice": ("if (!others.includes(other)) others", "others"),
    "sent in the order of drawing": (".sort((x, y) => x - y)", ""),
    "one word more": ("while (word >= weights[answer])", "while (word > weights[answer])"),
}  # fmt: skip


@pytest.fixture(scope="module")
def vectors():
    """Return surveys with what participant.py makes of them, a sheet each."""
    word = participant.Choice(["no", "yes"], 0.75).weights(1)[0].to_bytes(8, "big")
    drawn = [vector([VOTE], {"vote": "yes"}, 0, None, "en", [bytes(16) + word]), *draws(20, 1)]
    some = participant.Report([2, 3], 2, 0.6)
    edge = [bytes(16) + some.threshold.to_bytes(8, "big") + stream(7)]
    drawn.append(vector(*next(islice(reports(), 2, 3)), "en", edge))
    refused = [(data, TRUTHS, []) for data in refusals()]
    listed = [one for pair in itertools.zip_longest(drawn, refused) for one in pair if one]
    return [(arguments, ours(*arguments)) for arguments in listed]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_javascript_is_noticed(vectors, fault):
    right, wrong = FAULTS[fault]
    assert SOURCE.count(right) == 1
    faulty = running(SOURCE.replace(right, wrong))
    assert any(not agree(expected, faulty(*arguments)) for arguments, expected in vectors)
