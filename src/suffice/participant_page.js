
// The page on which a person answers a survey. It runs after participant.js, in one document.
//
// What is drawn is stored, durably, before anything leaves, and is never drawn again for the same
// invitation. What leaves is that draw, with the invitation and a key r that belongs to the draw.
// True answers stay in the form. They are stored only if the person asks for it, and erased when
// the answer is drawn.

"use strict";

(async () => {
  const TEXTS = {
    en: {
      invited: "You answer with an invitation. The organisers can see that it was used. Your answer is stored apart from it. Until the survey is closed, whoever runs the service could still join the two: they would find your changed answer.",
      open: "Everybody who has the address of this page can answer.",
      offline: "This page sends nothing. It gives you a file, which you can look at before you hand it on.",
      own: "Title, possible answers and lines on a shaded ground are the survey's own words. Do not rely on what they say about privacy.",
      about: "What the organisers say",
      organiser: "Organiser",
      contact: "Contact",
      purpose: "Purpose",
      notice: "Data protection",
      deleted: "Stored answers are deleted after the release, at the latest on",
      how: "How your answers are protected",
      here: "Your true answers stay in this browser. Each is changed at random, and only the changed answers leave.",
      after: "You will see what was sent after it was sent, not before. Whoever wants to look first can use the offline page of this survey, or the program participant.py.",
      final: "A sent answer cannot be found again among the others, so it cannot be withdrawn.",
      serves: "Whoever serves this page could change it. The offline page has a published hash, and participant.py can be read by everybody.",
      question: "Question {index} of {count}",
      stay: "{kept} of {of} people's answers stay as they are. The others are changed at random.",
      "true one": "{size} of all {count} combinations of answers are sent. For {kept} of 100 people, the true one is among them.",
      combinations: "{size} combinations of answers, of which one may be true",
      "stay at most": "At most {kept} of {of} people's answers stay as they are. The others are changed at random.",
      move: "About {moved} of 100 people's numbers are moved by more than {by}.",
      number: "A number from {low} to {high}",
      choose: "Choose an answer",
      shared: "This is a shared computer: keep nothing here after sending",
      send: "Change my answers at random and send them",
      draw: "Change my answers at random",
      save: "Save and come back later",
      saved: "Your true answers are saved in this browser, until you send. Use the same link here to go on.",
      restored: "These are the answers that you saved in this browser.",
      missing: "Answer this question.",
      "not a number": "Write a number here.",
      bring: "I have an answer from the offline page or from participant.py",
      paste: "The text of the answer file",
      "send this": "Send this answer",
      "not an answer": "This is not an answer to this survey.",
      sending: "Your answer is being sent.",
      waiting: "Your answer is drawn and stored in this browser, but not sent yet. It stays the same, however often you send it.",
      again: "Send it",
      "no network": "The answer could not be sent. It is stored in this browser. Try again when you are online.",
      busy: "The service is busy. Try again in a minute.",
      used: "This invitation was used for another answer, which counts. Nothing was stored now.",
      unknown: "This invitation is not known here. Check the link.",
      closed: "This survey is closed. Your answer was not stored.",
      refused: "The service did not take the answer. Tell the organisers.",
      thanks: "Your answer is stored. Thank you.",
      receipt: "This is what was sent. Each answer may have been changed at random:",
      drawn: "This is your answer, changed at random:",
      kept: "This browser keeps what was sent, so that nothing else is ever drawn for you.",
      "kept nothing": "This browser keeps nothing. Do not answer again: a second answer would give away more about you.",
      download: "Save the answer file",
      code: "Or copy this text into the online page:",
      somebody: "An answer to this survey was drawn in this browser before. Has somebody else answered here?",
      mine: "No, that was me",
      "not mine": "Yes, and I have not answered yet",
      done: "You have answered. A second answer would give away more about you.",
      "no invitation": "This survey is by invitation. Open the link that you were sent.",
      "cannot store": "This browser cannot keep your answer, so it would be drawn anew each time. Use another browser, without private mode.",
      id: "Survey {id}",
      trial: "This is a trial. Answers that are sent here are checked and thrown away. They never count. Make up your answers: if you are asked again later, true ones would give away more about you.",
      tried: "Your answer was checked and thrown away, because this is a trial. Thank you.",
    },
    de: {
      invited: "Sie antworten mit einer Einladung. Die Veranstalter können sehen, dass sie benutzt wurde. Ihre Antwort wird getrennt davon gespeichert. Bis die Umfrage geschlossen ist, könnte der Betreiber des Dienstes beide noch verbinden: Er fände Ihre veränderte Antwort.",
      open: "Alle, die die Adresse dieser Seite haben, können antworten.",
      offline: "Diese Seite sendet nichts. Sie gibt Ihnen eine Datei, die Sie ansehen können, bevor Sie sie weitergeben.",
      own: "Titel, mögliche Antworten und Zeilen auf farbigem Grund sind Worte der Umfrage. Verlassen Sie sich nicht auf das, was sie über den Schutz sagen.",
      about: "Was die Veranstalter sagen",
      organiser: "Veranstalter",
      contact: "Kontakt",
      purpose: "Zweck",
      notice: "Datenschutz",
      deleted: "Gespeicherte Antworten werden nach der Veröffentlichung gelöscht, spätestens am",
      how: "Wie Ihre Antworten geschützt sind",
      here: "Ihre wahren Antworten bleiben in diesem Browser. Jede wird zufällig verändert, und nur die veränderten Antworten werden gesendet.",
      after: "Was gesendet wurde, sehen Sie nach dem Senden, nicht vorher. Wer es vorher ansehen will, nimmt die Offline-Seite dieser Umfrage oder das Programm participant.py.",
      final: "Eine gesendete Antwort ist unter den anderen nicht wiederzufinden. Sie kann also nicht zurückgezogen werden.",
      serves: "Wer diese Seite ausliefert, könnte sie verändern. Die Offline-Seite hat einen veröffentlichten Hash, und participant.py kann jeder lesen.",
      question: "Frage {index} von {count}",
      stay: "Von {of} Menschen bleiben die Antworten von {kept}, wie sie sind. Die anderen werden zufällig verändert.",
      "true one": "Von allen {count} Kombinationen von Antworten werden {size} gesendet. Bei {kept} von 100 Menschen ist die wahre darunter.",
      combinations: "{size} Kombinationen von Antworten, von denen eine wahr sein kann",
      "stay at most": "Von {of} Menschen bleiben die Antworten von höchstens {kept}, wie sie sind. Die anderen werden zufällig verändert.",
      move: "Von 100 Menschen werden die Zahlen von etwa {moved} um mehr als {by} verschoben.",
      number: "Eine Zahl von {low} bis {high}",
      choose: "Wählen Sie eine Antwort",
      shared: "Diesen Computer benutzen mehrere: Nach dem Senden hier nichts aufbewahren",
      send: "Meine Antworten zufällig verändern und senden",
      draw: "Meine Antworten zufällig verändern",
      save: "Speichern und später weitermachen",
      saved: "Ihre wahren Antworten sind in diesem Browser gespeichert, bis Sie senden. Mit demselben Link machen Sie hier weiter.",
      restored: "Das sind die Antworten, die Sie in diesem Browser gespeichert haben.",
      missing: "Beantworten Sie diese Frage.",
      "not a number": "Schreiben Sie hier eine Zahl.",
      bring: "Ich habe eine Antwort von der Offline-Seite oder von participant.py",
      paste: "Der Text der Antwortdatei",
      "send this": "Diese Antwort senden",
      "not an answer": "Das ist keine Antwort auf diese Umfrage.",
      sending: "Ihre Antwort wird gesendet.",
      waiting: "Ihre Antwort ist gezogen und in diesem Browser gespeichert, aber noch nicht gesendet. Sie bleibt dieselbe, so oft Sie sie auch senden.",
      again: "Senden",
      "no network": "Die Antwort konnte nicht gesendet werden. Sie ist in diesem Browser gespeichert. Versuchen Sie es wieder, wenn Sie online sind.",
      busy: "Der Dienst ist ausgelastet. Versuchen Sie es in einer Minute wieder.",
      used: "Diese Einladung wurde für eine andere Antwort benutzt, die zählt. Jetzt wurde nichts gespeichert.",
      unknown: "Diese Einladung ist hier nicht bekannt. Prüfen Sie den Link.",
      closed: "Diese Umfrage ist geschlossen. Ihre Antwort wurde nicht gespeichert.",
      refused: "Der Dienst hat die Antwort nicht angenommen. Sagen Sie es den Veranstaltern.",
      thanks: "Ihre Antwort ist gespeichert. Danke.",
      receipt: "Das wurde gesendet. Jede Antwort kann zufällig verändert sein:",
      drawn: "Das ist Ihre Antwort, zufällig verändert:",
      kept: "Dieser Browser bewahrt auf, was gesendet wurde, damit für Sie nie etwas anderes gezogen wird.",
      "kept nothing": "Dieser Browser bewahrt nichts auf. Antworten Sie nicht noch einmal: Eine zweite Antwort würde mehr über Sie verraten.",
      download: "Die Antwortdatei speichern",
      code: "Oder kopieren Sie diesen Text in die Online-Seite:",
      somebody: "In diesem Browser wurde schon eine Antwort auf diese Umfrage gezogen. Hat hier jemand anderes geantwortet?",
      mine: "Nein, das war ich",
      "not mine": "Ja, und ich habe noch nicht geantwortet",
      done: "Sie haben geantwortet. Eine zweite Antwort würde mehr über Sie verraten.",
      "no invitation": "Diese Umfrage geht nur mit Einladung. Öffnen Sie den Link, den Sie bekommen haben.",
      "cannot store": "Dieser Browser kann Ihre Antwort nicht aufbewahren; sie würde jedes Mal neu gezogen. Nehmen Sie einen anderen Browser, ohne privaten Modus.",
      id: "Umfrage {id}",
      trial: "Das ist eine Probe. Antworten, die hier gesendet werden, werden geprüft und weggeworfen. Sie zählen nie. Erfinden Sie Ihre Antworten: Wenn Sie später noch einmal gefragt werden, würden wahre mehr über Sie verraten.",
      tried: "Ihre Antwort wurde geprüft und weggeworfen, denn das ist eine Probe. Danke.",
    },
  };
  const { mode, trial, survey: encoded } = document.body.dataset;
  const main = document.getElementById("main");
  const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
  const hex = (list) => Array.from(list, (byte) => byte.toString(16).padStart(2, "0")).join("");

  // What is shown. Texts are put in as texts: none of them can become a part of the page.

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  const line = (text, className = "") => element("p", { className }, text);

  function show(...parts) {
    main.replaceChildren(...parts);
    const first = main.querySelector("h1, p");
    first.tabIndex = -1;
    first.focus();
  }

  let survey;
  try {
    survey = suffice.readSurvey(bytes);
  } catch (error) {
    const known = error instanceof suffice.SurveyError;
    show(line(known ? error.message : "This survey cannot be read.", "problem"));
    return;
  }
  const number = (value) => {
    const text = String(Number(value.toPrecision(3)));
    return survey.language === "de" ? text.replace(".", ",") : text;
  };
  const say = (key, values = {}) =>
    TEXTS[survey.language][key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
  // The head of every page: of a trial it says what that means.
  const title = () => {
    const heading = element("h1", {}, survey.content.get("title"));
    return trial ? element("div", {}, heading, line(say("trial"), "trial")) : heading;
  };

  // What the organisers say about themselves, in their own words.
  function aboutOrganisers() {
    const about = survey.content.get("about");
    if (!about.size) return [];
    const list = element("dl", { className: "organisers" });
    for (const key of ["organiser", "contact", "purpose", "notice", "deleted"]) {
      list.append(element("dt", {}, say(key)), element("dd", { className: "own" }, about.get(key)));
    }
    return [element("h2", {}, say("about")), list];
  }

  // Who answers. The link's last part leaves the address bar; this tab remembers it.

  const asked = `${trial}${survey.id}`; // a trial has draws of its own
  const found = location.hash.slice(1);
  if (/^[0-9a-f]{32}$/.test(found)) {
    if (mode === "invited") sessionStorage.setItem(asked, found);
    history.replaceState(null, "", location.pathname + location.search);
  }
  addEventListener("hashchange", () => location.reload()); // another link in the same tab
  let invitation = mode === "invited" ? sessionStorage.getItem(asked) : null;
  if (mode === "invited" && !invitation) {
    show(title(), line(say("no invitation"), "problem"));
    return;
  }
  const owner = mode === "invited" ? suffice.sha256([...invitation].map((c) => c.charCodeAt(0)))
    : "everybody";
  const key = `${asked} ${owner}`;

  // The memory: one draw for each invitation, on disk before anything leaves.

  let database;
  try {
    database = await new Promise((resolve, reject) => {
      const request = indexedDB.open("suffice", 1);
      request.onupgradeneeded = () => request.result.createObjectStore("draws");
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
  } catch {
    show(title(), line(say("cannot store"), "problem"));
    return;
  }

  const memory = (change) => new Promise((resolve, reject) => {
    const transaction = database.transaction("draws", "readwrite", { durability: "strict" });
    const request = change(transaction.objectStore("draws"));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
  const stored = () => memory((draws) => draws.get(key));

  // The one draw: what is stored, or else what `draw` makes, once it is stored. Tabs take turns.
  const drawnOnce = (draw) => navigator.locks.request(key, async () => {
    const before = await stored();
    if (before) return before;
    const record = {
      sheet: draw(),
      r: hex(suffice.freshBytes(16)),
      invitation: invitation || hex(suffice.freshBytes(16)),
      sent: false,
    };
    await memory((draws) => draws.put(record, key));
    return record;
  });

  // True answers that the person asked to save: a file of this page, which is removed for good.

  async function savedFile(create) {
    const folder = await navigator.storage.getDirectory();
    return folder.getFileHandle(suffice.sha256([...key].map((c) => c.charCodeAt(0))), { create });
  }

  async function save(truths) {
    const writer = await (await savedFile(true)).createWritable();
    await writer.write(JSON.stringify([...truths]));
    await writer.close();
  }

  async function saved() {
    try {
      return new Map(JSON.parse(await (await (await savedFile(false)).getFile()).text()));
    } catch {
      return new Map();
    }
  }

  async function eraseSaved() {
    try {
      const folder = await navigator.storage.getDirectory();
      await folder.removeEntry((await savedFile(false)).name);
    } catch { /* there is none */ }
  }

  const handles = globalThis.FileSystemFileHandle;
  const thanks = trial ? "tried" : "thanks";
  const canSave = mode !== "offline" && handles && "createWritable" in handles.prototype;

  // Sending.

  const REPLIES = { 404: "unknown", 409: "used", 410: "closed", 429: "busy", 503: "busy" };

  // Send a stored draw; return what went wrong, or nothing.
  const send = (record) => navigator.locks.request(`${key} sent`, async () => {
    const address = location.pathname.replace(/\/surveys\/([^/]*)$/, "/v1/surveys/$1/answers");
    const { r, sheet } = record;
    let response;
    try {
      response = await fetch(address, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ invitation: record.invitation, r, answer: sheet }),
        credentials: "omit",
        referrerPolicy: "no-referrer",
        cache: "no-store",
        redirect: "error",
      });
    } catch {
      return "no network";
    }
    if (!response.ok) return REPLIES[response.status] || "refused";
    await memory((draws) => draws.put({ ...record, sent: true }, key));
    return "";
  });

  // The answers of a combination with a number, in the order of the questions.
  function combination(number) {
    const names = [];
    for (const { states } of [...survey.noises.values()].reverse()) {
      names.unshift(String(states[number % states.length]));
      number = Math.floor(number / states.length);
    }
    return names.join(" / ");
  }

  function receipt(record, heading) {
    const { answers, report } = JSON.parse(record.sheet);
    const list = element("dl");
    if (report) {
      const shown = report.map((number) => element("li", {}, combination(number)));
      return [line(say(heading)), line(say("combinations", { size: shown.length })), element("ul", {}, ...shown)];
    }
    for (const question of survey.content.get("questions")) {
      const name = question.get("name");
      list.append(element("dt", {}, question.get("text") || name), element("dd", {}, String(answers[name])));
    }
    return [line(say(heading)), list];
  }

  async function sendAndShow(record, shared) {
    show(title(), line(say("sending")));
    const trouble = await send(record);
    if (trouble) {
      showWaiting(record, shared, trouble);
      return;
    }
    if (shared) {
      await memory((draws) => draws.delete(key));
      sessionStorage.removeItem(asked);
    }
    const kept = line(say(shared ? "kept nothing" : "kept"), "soft");
    show(title(), line(say(thanks), "done"), ...receipt(record, "receipt"), kept);
  }

  function showWaiting(record, shared, trouble) {
    const button = element("button", { type: "button" }, say("again"));
    button.onclick = () => { button.disabled = true; sendAndShow(record, shared); };
    const problem = trouble ? [line(say(trouble), "problem")] : [];
    if (trouble) problem[0].setAttribute("role", "alert");
    const final = ["used", "unknown", "closed"].includes(trouble);
    show(title(), ...problem, ...(final ? [] : [line(say("waiting")), button]));
  }

  function showDrawn(record) {
    const file = URL.createObjectURL(new Blob([record.sheet], { type: "application/json" }));
    const link = element("a", { href: file, download: "answer.json", className: "button" }, say("download"));
    const code = element("textarea", { id: "code", rows: 8, readOnly: true, value: record.sheet });
    const label = element("label", { htmlFor: "code" }, say("code"));
    show(title(), ...receipt(record, "drawn"), line(say("kept"), "soft"), element("p", {}, link), label, code);
  }

  const next = (record, shared) => (mode === "offline" ? showDrawn(record) : sendAndShow(record, shared));

  // The questions.

  function odds(one) {
    const noise = survey.report || one;
    if (survey.report) {
      const kept = Math.ceil(100 * noise.keep - 1e-9); // rounded up: it never flatters
      return say("true one", { kept, size: noise.size, count: noise.count });
    }
    if (noise.states === undefined) {
      const moved = noise.kernel === "laplace" ? 24 : 32; // 100 e^-sqrt(2); outside one deviation
      return say("move", { moved, by: number(noise.deviation) });
    }
    const of = noise.keep > 0.99 ? 10000 : 100;
    const kept = Math.min(of, Math.ceil(noise.keep * of - 1e-9)); // rounded up: it never flatters
    return say(noise.hasTable ? "stay at most" : "stay", { kept, of });
  }

  function field(name, index) {
    const noise = survey.noises.get(name);
    const question = survey.content.get("questions")[index];
    const box = element("fieldset", {}, element("legend", {}, say("question", { index: index + 1, count: survey.noises.size })));
    const text = element("p", { className: "own", id: `text-${index}` }, question.get("text") || name);
    const about = element("p", { className: "odds", id: `odds-${index}` }, odds(noise));
    box.append(text, about);
    let read;
    let fill;
    if (noise.states === undefined) {
      const input = element("input", { type: "text", inputMode: "decimal", autocomplete: "off", id: `q-${index}` });
      const [low, high] = [noise.low, noise.high].map(number);
      box.append(element("label", { htmlFor: input.id }, say("number", { low, high })), input);
      read = () => (survey.language === "de" ? input.value.replace(",", ".") : input.value).trim();
      fill = (value) => { input.value = value; };
    } else if (noise.states.length > 12) {
      const select = element("select", { id: `q-${index}`, autocomplete: "off" }, element("option", { value: "" }, say("choose")));
      noise.states.forEach((state) => select.append(element("option", { value: String(state) }, String(state))));
      box.append(element("label", { htmlFor: select.id }, say("choose")), select);
      read = () => select.value;
      fill = (value) => { select.value = value; };
    } else {
      const radios = noise.states.map((state) => element("input", { type: "radio", name: `q-${index}`, value: String(state), autocomplete: "off" }));
      radios.forEach((radio) => box.append(element("label", { className: "state" }, radio, element("span", {}, radio.value))));
      read = () => (radios.find((radio) => radio.checked) || { value: "" }).value;
      fill = (value) => { radios.forEach((radio) => { radio.checked = radio.value === value; }); };
    }
    box.setAttribute("aria-describedby", `text-${index} odds-${index}`);
    const problem = element("p", { className: "problem" });
    problem.setAttribute("role", "alert");
    box.append(problem, element("p", { className: "soft" }, survey.each[index]));
    // What is wrong with the answer, if anything; it is not repeated.
    const check = () => {
      let trouble = "";
      try {
        if (read() === "") trouble = "missing";
        else noise.locate(read());
      } catch {
        trouble = "not a number";
      }
      problem.textContent = trouble && say(trouble);
      return !trouble;
    };
    return { name, box, read, fill, check };
  }

  async function showQuestions() {
    const fields = [...survey.noises.keys()].map(field);
    const form = element("form", { autocomplete: "off", noValidate: true });
    const shared = element("input", { type: "checkbox", autocomplete: "off" });
    const button = element("button", { type: "submit" }, say(mode === "offline" ? "draw" : "send"));
    const note = line("", "soft");
    note.setAttribute("role", "status");
    form.append(...fields.map((one) => one.box));
    if (mode !== "offline") form.append(element("label", { className: "state" }, shared, element("span", {}, say("shared"))));
    form.append(button);
    if (canSave) {
      const later = element("button", { type: "button", className: "quiet" }, say("save"));
      later.onclick = async () => {
        await save(new Map(fields.map((one) => [one.name, one.read()])));
        note.textContent = say("saved");
      };
      form.append(later);
      const before = await saved();
      fields.forEach((one) => { if (before.has(one.name)) one.fill(before.get(one.name)); });
      if (before.size) note.textContent = say("restored");
    }
    form.append(note);

    const finish = async (draw) => {
      const keepNothing = shared.checked;
      form.querySelectorAll("button").forEach((one) => { one.disabled = true; });
      const record = await drawnOnce(draw);
      await eraseSaved();
      next(record, keepNothing);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      if (button.disabled) return;
      const wrong = fields.filter((one) => !one.check());
      if (wrong.length) {
        wrong[0].box.querySelector("input, select").focus();
        return;
      }
      const truths = new Map(fields.map((one) => [one.name, one.read()]));
      finish(() => suffice.respond(survey, truths, suffice.freshBytes));
    };

    const parts = [title(), ...aboutOrganisers(), line(say(mode)), element("h2", {}, say("how")),
      line(say("here")), line(survey.together), element("ul", {},
        ...(mode === "offline" ? [] : [element("li", {}, say("after")), element("li", {}, say("final")), element("li", {}, say("serves"))])),
      line(say("own"), "soft"), form];
    if (mode !== "offline") parts.push(bringing(finish));
    parts.push(line(say("id", { id: survey.id }), "soft"));
    show(...parts);
  }

  // An answer that was drawn elsewhere, by the same program.
  function bringing(finish) {
    const text = element("textarea", { id: "brought", rows: 6, autocomplete: "off" });
    const button = element("button", { type: "button", className: "quiet" }, say("send this"));
    const problem = element("p", { className: "problem" });
    problem.setAttribute("role", "alert");
    button.onclick = () => {
      let sheet;
      try {
        sheet = JSON.parse(text.value);
      } catch { /* it is none */ }
      if (!sheet || sheet.suffice !== "answer" || sheet.survey !== survey.id) {
        problem.textContent = say("not an answer");
        return;
      }
      finish(() => text.value);
    };
    return element("details", {}, element("summary", {}, say("bring")),
      element("label", { htmlFor: "brought" }, say("paste")), text, button, problem);
  }

  function askWhoAnswered(record) {
    const mine = element("button", { type: "button" }, say("mine"));
    mine.onclick = () => {
      if (mode === "offline") showDrawn(record);
      else if (record.sent) show(title(), line(say("done")));
      else showWaiting(record, false, "");
    };
    const other = element("button", { type: "button", className: "quiet" }, say("not mine"));
    other.onclick = async () => {
      await memory((draws) => draws.delete(key));
      await showQuestions();
    };
    show(title(), line(say("somebody")), mine, other);
  }

  const before = await stored();
  if (before) await eraseSaved(); // the browser may have ended between the draw and that
  if (!before) await showQuestions();
  else if (mode !== "invited") askWhoAnswered(before);
  else if (before.sent) show(title(), line(say(thanks), "done"), ...receipt(before, "receipt"), line(say("kept"), "soft"));
  else showWaiting(before, false, "");
})();
