"use strict";

// Everything that comes from the masters is put in as text, never as markup.

const byId = (id) => document.getElementById(id);
const mayForce = document.documentElement.dataset.force === "yes";

function element(tag, text, properties = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  return Object.assign(made, properties);
}

function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor(ms / 1000) % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function showReady(ready) {
  const pill = ({ policy, in_ms: wait }) => {
    if (wait === 0) return element("span", `${policy} ready`, { className: "good" });
    const text = wait === null ? `${policy} not available` : `${policy} ready in ${duration(wait)}`;
    return element("span", text, { className: wait === null ? "bad" : "warn" });
  };
  // Announced only when it changes, and not with each second that is left.
  const said = ready.map(({ policy, in_ms: wait }) => policy + (wait === null ? "no" : wait > 0)).join();
  if (byId("ready").dataset.said === said && !said.includes("true")) return;
  byId("ready").dataset.said = said;
  byId("ready").replaceChildren(...ready.map(pill));
}

const MASTER_STATES = {
  votes: ["has a vote", "good"], quarantine: ["in quarantine", "warn"], silent: ["silent", "bad"],
  overloaded: ["overloaded", "bad"], away: ["not connected", "bad"],
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
  add("up for", duration(master.remembers_ms));
  if (master.round_trip_us !== undefined) {
    add("round trip", `${(master.round_trip_us / 1000).toFixed(1)} ms`);
    add("clock", `${master.clock_offset_us < 0 ? "" : "+"}${(master.clock_offset_us / 1000).toFixed(1)} ms`);
  }
  add("releases pending", master.owed_releases > 0 && String(master.owed_releases));
  card.append(facts);
  return card;
}

function showFindings(findings) {
  if (!findings) return;
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
  const points = values.map((value, at) => `${90 - values.length + at},${46 - (44 * value) / largest}`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  svg.setAttribute("viewBox", "0 0 89 48");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(line);
  byId(`now-${name}`).textContent = values.length ? values[values.length - 1].toFixed(digits) : "";
}

function showLongest(longest) {
  byId("longest-section").hidden = !longest.length;
  byId("longest").replaceChildren(...longest.map(({ name, waiter, waits_ms: waits, waiting }) => {
    const item = element("li");
    item.append(element("b", duration(waits)), ` ${waiter} waits for `, element("b", name));
    if (waiting > 1) item.append(` before ${waiting - 1} more`);
    return item;
  }));
}

function lockRow(lock) {
  const row = element("tr");
  row.dataset.name = lock.name;
  const cell = (label, text, small) => {
    const made = element("td");
    made.dataset.label = label;
    made.append(element("span", text));
    if (small) made.append(element("small", small));
    row.append(made);
    return made;
  };
  cell("Name", lock.name);
  cell("State", lock.state);
  const holder = cell("Holder", lock.holders, lock.about);
  cell("Since", duration(lock.age_ms));
  cell("Expires in", duration(lock.expires_in_ms));
  cell("Token", lock.fence === null ? "" : String(lock.fence));
  cell("Masters", `${lock.on} of ${lock.of}`);
  cell("Waiting", String(lock.waiting), lock.waiting ? `${lock.first_waiting} for ${duration(lock.first_waits_ms)}` : "");
  if (mayForce) {
    for (const { holder: label, hold } of lock.holds) {
      const button = element("button", "Take away…", { type: "button" });
      button.setAttribute("aria-label", `Take ${lock.name} away from ${label}`);
      button.addEventListener("click", () => askForce(lock.name, label, hold));
      holder.append(button);
    }
  }
  return row;
}

const ORDERS = {
  waiting: (one, other) => other.waiting - one.waiting || (other.first_waits_ms ?? 0) - (one.first_waits_ms ?? 0),
  name: (one, other) => (one.name < other.name ? -1 : 1),
  age: (one, other) => (other.age_ms ?? -1) - (one.age_ms ?? -1),
};

let latest = null;

function showLocks() {
  const { locks, found, total } = latest;
  const sorted = [...locks].sort(ORDERS[byId("order").value]);
  // A table that is drawn anew takes the focus from its buttons.
  const focused = document.activeElement?.getAttribute("aria-label");
  byId("locks").replaceChildren(...sorted.map(lockRow));
  if (focused) document.querySelector(`#locks [aria-label="${CSS.escape(focused)}"]`)?.focus();
  // Too few masters told what they have.
  const isKnown = !latest.error;
  byId("none").hidden = isKnown && total > 0;
  byId("none").textContent = isKnown ? "No lock is held or waited for." : "It is not known which locks are held.";
  const shown = locks.length < found ? `${locks.length} of ${found} shown, ${total} in all` : `${found} of ${total}`;
  if (byId("count").textContent !== shown) byId("count").textContent = shown;
}

function show(snapshot) {
  latest = snapshot;
  byId("age").textContent = new Date(snapshot.at).toLocaleTimeString();
  byId("error").hidden = !snapshot.error;
  byId("error").textContent = snapshot.error ?? "";
  showReady(snapshot.ready);
  byId("masters").replaceChildren(...snapshot.masters.map(masterCard));
  showFindings(snapshot.findings);
  drawCurve("held", snapshot.curves.held, 0);
  drawCurve("waiting", snapshot.curves.waiting, 0);
  drawCurve("grants", snapshot.curves.grants, 1);
  showLongest(snapshot.longest);
  showLocks();
}

let source = null;

function listen() {
  source?.close();
  source = new EventSource(`/events?text=${encodeURIComponent(byId("text").value)}`);
  source.addEventListener("message", ({ data }) => show(JSON.parse(data)));
  source.addEventListener("error", () => { byId("age").textContent = "the console does not answer"; });
}

let typing = 0;
byId("text").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(listen, 250);
});
byId("order").addEventListener("change", () => latest && showLocks());
// Nobody looks at a hidden page, so the masters are not asked for it.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) source?.close();
  else listen();
});

let asked = null;

function askForce(name, label, hold) {
  asked = { name, hold };
  byId("force-name").textContent = name;
  byId("force-holder").textContent = label;
  byId("force-said").hidden = true;
  byId("force-reason").value = "";
  byId("force").showModal();
}

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

listen();
