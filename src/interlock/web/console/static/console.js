// Keeps an open page up to date. The server sends only that something changed; the page then asks for its parts.
// Nothing here decides anything: answers are plain forms.

const title = document.title.replace(/^\(\d+\) /, "");
const state = document.getElementById("state");
const requests = document.getElementById("requests");
const known = new Set([...cards(document).map((card) => card.dataset.id), ...news(document).keys()]);
let first = requests === null;
let hasEnded = false;
const SILENT = "The hub does not answer.";

function cards(root) {
  return [...root.querySelectorAll("article.card[data-id]")];
}

// The newest requests that are on another page of the list: their titles by id.
function news(root) {
  return new Map([...root.querySelectorAll("template[data-new]")].map(({ dataset }) => [dataset.new, dataset.title]));
}

async function part(address) {
  const response = await fetch(address, { headers: { accept: "text/html" } });
  hasEnded = response.status === 401;
  if (hasEnded) {
    state.textContent = "Your session has ended. Log in again.";
    return null;
  }
  if (!response.ok) return null;
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

async function refreshApprovals() {
  // A request that is on the page, or was announced, comes back as its id alone.
  const shown = requests ? cards(requests).map((card) => card.dataset.id) : [...known].slice(-50);
  const from = requests?.dataset.from ?? "0";
  const fresh = await part(`/console/approvals/list?from=${from}&shown=${encodeURIComponent(shown.join(","))}`);
  const list = fresh?.getElementById("requests");
  if (!list) return;
  showCount(Number(list.dataset.open));
  const titles = cards(list).map((card) => [card.dataset.id, card.querySelector("h2")?.textContent.trim()]);
  const added = [...titles, ...news(list)].filter(([id]) => !known.has(id));
  for (const [id] of added) known.add(id);
  if (requests) merge(list);
  if (!first) for (const [id, text] of added) announce(id, text);
  first = false;
}

// Cards that are on the page stay as they are: somebody may be typing in one.
function merge(list) {
  const wanted = new Map(cards(list).map((card) => [card.dataset.id, card]));
  const later = new Set([...list.querySelectorAll("template[data-later]")].map((each) => each.dataset.later));
  for (const card of cards(requests)) {
    const { id } = card.dataset;
    if (!wanted.has(id) && !(later.has(id) && isFilledIn(card))) remove(card);
    wanted.delete(id);
  }
  for (const old of requests.querySelectorAll(":scope > p, :scope > nav")) old.remove();
  for (const card of wanted.values()) requests.append(document.adoptNode(card));
  for (const text of list.querySelectorAll(":scope > p, :scope > nav")) requests.append(document.adoptNode(text));
}

// A card that moved to another page stays while somebody is in it.
function isFilledIn(card) {
  const fields = [...card.querySelectorAll("input:not([type=hidden]), textarea")];
  return card.contains(document.activeElement) || fields.some((field) => field.value !== field.defaultValue);
}

function remove(card) {
  const next = card.contains(document.activeElement) ? card.nextElementSibling ?? document.getElementById("main") : null;
  card.remove();
  next?.focus();
}

function showCount(open) {
  document.title = open ? `(${open}) ${title}` : title;
  const count = document.getElementById("count");
  count.textContent = String(open);
  if (count.hidden !== (open === 0)) {
    count.hidden = open === 0;
    showPage();
  }
}

// On a narrow screen the row of pages scrolls, and the current one may be outside.
function showPage() {
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

function announce(id, text) {
  state.textContent = `New request: ${text}`;
  if (globalThis.Notification?.permission === "granted") {
    new Notification("Interlock asks for an approval", { body: text, tag: id });
  }
}

function offerNotifications() {
  const button = document.getElementById("notify");
  if (!button || globalThis.Notification?.permission !== "default") return;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await Notification.requestPermission();
    button.hidden = true;
  });
}

// j and k go to the next and the previous card, from anywhere but a field that one types into.
function moveByKeys(event) {
  if (!["j", "k"].includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select")) return;
  const cards = [...document.querySelectorAll("article.card[tabindex]")];
  const at = cards.indexOf(event.target.closest?.("article.card"));
  cards[event.key === "j" ? at + 1 : at - 1]?.focus();
}

// A part of a page that names its address is replaced when its topic changes, unless somebody is in it.
const shown = new WeakMap();

async function refreshParts(selector) {
  for (const old of document.querySelectorAll(selector)) {
    if (old !== document.activeElement && old.contains(document.activeElement)) continue;
    const fresh = (await part(old.dataset.part))?.getElementById(old.id);
    // Compared with what came last and not with the page: an opened element stays open.
    if (!fresh || fresh.innerHTML === (shown.get(old) ?? old.innerHTML)) continue;
    shown.set(old, fresh.innerHTML);
    // A part that grows at its end stays there, unless somebody scrolled back.
    const follows = "tail" in old.dataset && old.scrollHeight - old.scrollTop - old.clientHeight < 40;
    old.replaceChildren(...document.adoptNode(fresh).childNodes);
    if (follows) old.scrollTop = old.scrollHeight;
  }
}

function refreshByTime() {
  for (const each of document.querySelectorAll("[data-every]")) {
    const refresh = single(() => refreshParts(`#${each.id}`));
    setInterval(() => document.hidden || refresh(), Number(each.dataset.every));
  }
}

// One refresh at a time, and one more if something changed meanwhile.
function single(refresh) {
  let running = false, again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await refresh();
      }
      if (state.textContent === SILENT) state.textContent = "";
    } catch {
      state.textContent = SILENT;
    } finally {
      running = false;
    }
  };
}

// All open pages share one stream: a browser has few connections to one host. The page with the lock listens and tells
// the others. When it closes, the next one gets the lock.
const pages = new BroadcastChannel("interlock-console");
const approvals = single(refreshApprovals);
const changes = {
  approvals,
  audit: single(() => refreshParts("[data-topic=audit]")),
  servers: single(() => refreshParts("[data-topic=servers]")),
};

function hear(topic) {
  if (topic === "open") {
    state.textContent = "";
    document.documentElement.dataset.live = "yes";
    // Changes from while there was no connection.
    for (const refresh of Object.values(changes)) refresh();
  } else if (topic === "ended") {
    state.textContent = "Your session has ended. Log in again.";
  } else if (topic === "error") {
    delete document.documentElement.dataset.live;
    state.textContent = "The hub does not answer. Trying again…";
  } else {
    changes[topic]?.();
  }
}

function tell(topic) {
  pages.postMessage(topic);
  hear(topic);
}

// A browser connects again by itself after a lost connection, and never after a response that is no stream: the hub may
// be busy, or a proxy may answer while it restarts.
let events;
const FIRST_PAUSE_MS = 2000, LONGEST_PAUSE_MS = 30_000;

// Until the session has ended: then the lock is free for a page of another session.
async function listen() {
  let pause = FIRST_PAUSE_MS;
  while (true) {
    const { began } = await streamed();
    if (hasEnded) return;
    pause = began ? FIRST_PAUSE_MS : Math.min(pause * 1.5, LONGEST_PAUSE_MS);
    await new Promise((over) => setTimeout(over, pause * (0.5 + Math.random() / 2)));
  }
}

// One stream until the browser gives it up.
function streamed() {
  events = new EventSource("/console/events");
  for (const topic of [...Object.keys(changes), "open", "error"]) events.addEventListener(topic, () => tell(topic));
  let began = false;
  return new Promise((over) => {
    events.addEventListener("open", () => { began = true; });
    events.addEventListener("ended", () => {
      events.close();
      hasEnded = true;
      tell("ended");
      over({ began });
    });
    events.addEventListener("error", async () => {
      if (events.readyState !== EventSource.CLOSED) return;
      await changes.approvals(); // finds out whether the session has ended
      over({ began });
    });
  });
}

function follow() {
  pages.addEventListener("message", ({ data }) => {
    if (data === "hello" && events?.readyState === EventSource.OPEN) pages.postMessage("open");
    hear(data);
  });
  pages.postMessage("hello");
  if (navigator.locks) navigator.locks.request("interlock-console", listen);
  else listen();
}

document.addEventListener("keydown", moveByKeys);
document.getElementById("reload")?.remove();
showPage();
for (const each of document.querySelectorAll("[data-tail]")) each.scrollTop = each.scrollHeight;
offerNotifications();
refreshByTime();
follow();
