// Sends a party's contribution with its token. The token stays in this page and is not stored.
"use strict";
const form = document.getElementById("round");
const token = document.getElementById("token");
const part = document.getElementById("part");
const result = document.getElementById("result");
const place = location.pathname.replace(/rounds\/([^/]*)$/, "v1/rounds/$1/part");
form.hidden = false;

function show(good, title, ...lines) {
  const heading = document.createElement("h2");
  heading.textContent = title;
  const shown = lines.filter(Boolean).map((line) => {
    const paragraph = document.createElement("p");
    paragraph.textContent = line;
    return paragraph;
  });
  result.className = good ? "result" : "result bad";
  result.replaceChildren(heading, ...shown);
  result.hidden = false;
}

async function ask(method, body) {
  const headers = { Authorization: `Bearer ${token.value.trim()}` };
  const response = await fetch(place, { method, body, headers, cache: "no-store" });
  if (response.ok) return response;
  const problem = await response.json();
  throw new Error(response.status === 401 ? "This token is not good." : problem.detail);
}

async function look(title) {
  const told = await (await ask("GET")).json();
  const states = { missing: "Nothing is stored for your party.", rejected: `Your last file was rejected: ${told.reason}`,
                   stored: "Your contribution is stored. It counts once." };
  show(told.state === "stored", title || told.title, `Party: ${told.party}`, states[told.state],
       `The round is ${told.round}. Closing time: ${new Date(told.closes).toLocaleString(undefined, { timeZoneName: "short" })}`);
}

async function run(work) {
  if (!form.reportValidity()) return;
  try {
    await work();
  } catch (error) {
    show(false, "Not done", error instanceof TypeError ? "The service cannot be reached. Try again." : error.message);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run(async () => {
    const file = part.files[0];
    if (!file) throw new Error("Choose the .part file first.");
    await ask("PUT", file);
    await look("Stored");
  });
});
document.getElementById("look").addEventListener("click", () => run(look));
document.getElementById("withdraw").addEventListener("click", () => run(async () => {
  await ask("DELETE");
  await look("Withdrawn");
}));
