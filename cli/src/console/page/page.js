"use strict";

// Everything that comes from the masters is put in as text, never as markup.

const byId = (id) => document.getElementById(id);
const mayForce = document.documentElement.dataset.force === "yes";

function element(tag, text, properties = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  return Object.assign(made, properties);
}

// Names with characters that are not seen, or that turn the direction of the text, would look like other names.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

function visible(text) {
  return text.replace(UNSEEN, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
}

function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor(ms / 1000) % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Parts that are drawn anew only when they have changed, so that focus and selection stay.
const drawn = {};

function isNew(part, value) {
  const text = JSON.stringify(value);
  const changed = drawn[part] !== text;
  drawn[part] = text;
  return changed;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function showReady(ready) {
  const pill = ({ policy, in_ms: wait }) => {
    if (wait === 0) return element("span", `${policy} ready`, { className: "good" });
    const text = wait === null ? `${policy} not available` : `${policy} ready in ${duration(wait)}`;
    return element("span", text, { className: wait === null ? "bad" : "warn" });
  };
  byId("ready").replaceChildren(...ready.map(pill));
  // Announced only when it changes, and not with each second that is left.
  const word = (wait) => (wait === null ? "not available" : wait > 0 ? "in quarantine" : "ready");
  announce("ready", ready.map(({ policy, in_ms: wait }) => `${policy} ${word(wait)}`).join(", "));
}

function announce(what, text) {
  if (isNew(`said ${what}`, text)) byId("said").textContent = text;
}

const MASTER_STATES = {
  votes: ["has a vote", "good"], quarantine: ["in quarantine", "warn"], silent: ["silent", "bad"],
  overloaded: ["overloaded", "bad"], refused: ["refused", "bad"], away: ["not connected", "bad"],
};

function masterCard(master) {
  const card = element("li");
  const [word, kind] = MASTER_STATES[master.state];
  card.dataset.state = master.state;
  card.append(element("h3", master.node), element("b", word, { className: kind }));
  if (master.why) card.append(element("div", master.why, { className: "quiet" }));
  const facts = element("dl");
  const add = (name, value) => value && facts.append(element("dt", name), element("dd", value));
  add("quarantine left", master.quarantine_ms > 0 && duration(master.quarantine_ms));
  add("version", master.version);
  add("remembers", duration(master.remembers_ms));
  // Known once the master has been examined.
  if (Number.isInteger(master.round_trip_us)) {
    add("round trip", `${(master.round_trip_us / 1000).toFixed(1)} ms`);
    add("clock", `${master.clock_offset_us < 0 ? "" : "+"}${(master.clock_offset_us / 1000).toFixed(1)} ms`);
  }
  add("releases pending", master.pending_releases > 0 && String(master.pending_releases));
  card.append(facts);
  return card;
}

function showFindings(findings) {
  if (!isNew("findings", findings)) return;
  if (!findings) {
    byId("findings").replaceChildren(element("li", "The masters are being examined…", { className: "quiet" }));
    return;
  }
  const entry = ({ severity, node, seen, remedy, page }) => {
    const item = element("li");
    item.append(element("b", severity, { className: severity === "error" ? "bad" : "warn" }));
    item.append(` ${node ? `${node}: ` : ""}${seen}`);
    const more = element("small", `${remedy} `);
    if (page) more.append(element("a", "more", { href: page, rel: "noreferrer", target: "_blank" }));
    item.append(more);
    return item;
  };
  const nothing = element("li", "Nothing is wrong.", { className: "good" });
  byId("findings").replaceChildren(...(findings.length ? findings.map(entry) : [nothing]));
}

function drawCurve(name, values, digits) {
  const svg = byId(`curve-${name}`);
  const largest = Math.max(1, ...values);
  // A line for each stretch between looks that failed.
  const stretches = [[]];
  values.forEach((value, at) => {
    if (value === null) stretches.push([]);
    else stretches[stretches.length - 1].push(`${90 - values.length + at},${46 - (44 * value) / largest}`);
  });
  const lines = stretches.map((points) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", points.join(" "));
    return line;
  });
  svg.setAttribute("viewBox", "0 0 89 48");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...lines);
  const now = values.length ? values[values.length - 1] : null;
  byId(`now-${name}`).textContent = now === null ? "" : now.toFixed(digits);
}

function showLongest(longest) {
  byId("longest-section").hidden = !longest.length;
  byId("longest").replaceChildren(...longest.map(({ name, waiter, waits_ms: waits, waiting }) => {
    const item = element("li");
    item.append(element("b", duration(waits)), ` ${visible(waiter)} waits for `, element("b", visible(name), { className: "name" }));
    if (waiting > 1) item.append(` before ${waiting - 1} more`);
    return item;
  }));
}

const COLUMNS = ["Name", "State", "Holder", "Since", "Expires in", "Token", "Masters", "Waiting"];
const rows = new Map();

function newRow(name) {
  const row = element("tr");
  row.dataset.name = name;
  row.setAttribute("role", "row");
  for (const label of COLUMNS) {
    const cell = element(label === "Name" ? "th" : "td");
    if (label === "Name") cell.scope = "row";
    cell.setAttribute("role", label === "Name" ? "rowheader" : "cell");
    cell.dataset.label = label;
    cell.append(element("span"), element("small"));
    row.append(cell);
  }
  return row;
}

function fill(row, lock) {
  const waiter = lock.waiting ? `${visible(lock.first_waiting ?? "")} for ${duration(lock.first_waits_ms)}` : "";
  const texts = [
    [visible(lock.name)], [lock.state], [visible(lock.holders), visible(lock.about ?? "")], [duration(lock.age_ms)], [duration(lock.expires_in_ms)],
    [lock.fence === null ? "" : String(lock.fence)], [`${lock.on} of ${lock.of}`], [String(lock.waiting), waiter],
  ];
  texts.forEach(([text, small = ""], at) => {
    const [span, note] = row.cells[at].children;
    setText(span, text);
    setText(note, small);
    note.hidden = !small;
  });
  const holds = JSON.stringify(lock.holds);
  if (!mayForce || row.dataset.holds === holds) return;
  row.dataset.holds = holds;
  row.cells[2].querySelectorAll("button").forEach((button) => button.remove());
  for (const { holder: label, hold } of lock.holds) {
    const button = element("button", "Take away…", { type: "button" });
    button.setAttribute("aria-label", `Take ${visible(lock.name)} away from ${visible(label)}`);
    button.addEventListener("click", () => askForce(lock.name, label, hold));
    row.cells[2].append(button);
  }
}

function showLocks({ locks, found, total, error, locks_age_ms: age }) {
  const body = byId("locks");
  const names = new Set(locks.map(({ name }) => name));
  for (const [name, row] of rows) {
    if (!names.has(name)) {
      row.remove();
      rows.delete(name);
    }
  }
  locks.forEach((lock, at) => {
    if (!rows.has(lock.name)) rows.set(lock.name, newRow(lock.name));
    const row = rows.get(lock.name);
    fill(row, lock);
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] ?? null);
  });
  byId("none").hidden = total > 0;
  // With an error too few masters told what they have.
  const nothing = error ? "It is not known which locks are held." : "No lock is held or waited for.";
  setText(byId("none"), total === null && !error ? "The locks are being read…" : nothing);
  const count = locks.length < found ? `${locks.length} of ${found} shown, ${total} in all` : `${found} of ${total}`;
  const old = age > 3000 ? `, ${duration(age)} ago` : "";
  setText(byId("count"), total === null ? "" : count + old);
  if (byId("text").value) announce("found", `${found} locks found`);
}

function show(snapshot) {
  heardAt = Date.now();
  setText(byId("age"), new Date(snapshot.at).toLocaleTimeString());
  trouble(snapshot.error ?? "");
  if (isNew("ready", snapshot.ready)) showReady(snapshot.ready);
  if (isNew("masters", snapshot.masters)) byId("masters").replaceChildren(...snapshot.masters.map(masterCard));
  showFindings(snapshot.findings);
  const age = snapshot.examined_age_ms;
  setText(byId("examined"), age === null ? "" : `examined ${Math.floor(age / 1000)} s ago`);
  const curves = snapshot.curves ?? { held: [], waiting: [], grants: [] };
  drawCurve("held", curves.held, 0);
  drawCurve("waiting", curves.waiting, 0);
  drawCurve("grants", curves.grants, 1);
  showLongest(snapshot.longest ?? []);
  showLocks(snapshot);
}

function trouble(text) {
  byId("error").hidden = !text;
  setText(byId("error"), text);
}

let source = null;
let heardAt = Date.now();

function listen() {
  source?.close();
  const asked = new URLSearchParams({ text: byId("text").value, order: byId("order").value });
  source = new EventSource(`/events?${asked}`);
  source.addEventListener("message", ({ data }) => show(JSON.parse(data)));
  // A browser gives up after an answer that is none, such as that of a proxy. A new token is asked for by the page.
  source.addEventListener("error", () => {
    if (source.readyState !== EventSource.CLOSED || document.hidden) return;
    fetch("/page.js").then(({ status }) => status === 401 && location.reload()).catch(() => {});
    setTimeout(listen, 3000);
  });
}

setInterval(() => {
  const silent = Date.now() - heardAt;
  if (!document.hidden && silent > 10_000) trouble(`Nothing was heard for ${duration(silent)}: what is shown may be old.`);
}, 5000);

let typing = 0;
byId("text").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(listen, 250);
});
byId("order").addEventListener("change", listen);
// Nobody looks at a hidden page, so the masters are not asked for it.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) source?.close();
  else listen();
});

let asked = null;
let opener = null;

function askForce(name, label, hold) {
  asked = { name, hold };
  opener = document.activeElement;
  byId("force-name").textContent = visible(name);
  byId("force-holder").textContent = visible(label);
  byId("force-said").hidden = true;
  byId("force-reason").value = "";
  byId("force").showModal();
}

byId("force").addEventListener("close", () => (opener?.isConnected ? opener : byId("text")).focus());

byId("force-yes").addEventListener("click", async (event) => {
  event.preventDefault();
  const answer = await fetch("/force", { method: "POST", body: JSON.stringify({ ...asked, reason: byId("force-reason").value.trim() }) }).catch(() => null);
  const said = await answer?.json().catch(() => null);
  if (answer?.ok && said.former.length) {
    byId("force").close();
    return;
  }
  const free = answer?.ok && "It was not held by that holder any more.";
  byId("force-said").textContent = free || said?.error || "The console refused.";
  byId("force-said").hidden = false;
});

if (!document.hidden) listen();
