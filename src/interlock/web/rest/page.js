"use strict";
const at = (id) => document.getElementById(id);
const make = (tag, text, name) => {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
};
const pretty = (value) => JSON.stringify(value, null, 2);
const about = (tool) => (tool._meta || {})["dev.interlock/tool"] || {};
const key = () => at("key").value.trim();

async function ask(path, body) {
  const headers = {};
  if (key()) headers.authorization = "Bearer " + key();
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body });
  return { status: response.status, ok: response.ok, value: await response.json() };
}

// What a schema says, in a few words.
function resolved(schema, root) {
  for (let steps = 0; schema && typeof schema.$ref === "string" && steps < 16; steps++) {
    const name = schema.$ref.replace("#/$defs/", "");
    const { $ref, ...beside } = schema;
    schema = { ...((root.$defs || {})[name] || {}), ...beside };
  }
  return schema && typeof schema === "object" ? schema : {};
}
function typeOf(given, root, depth = 0) {
  const schema = resolved(given, root);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  const arms = schema.anyOf || schema.oneOf;
  if (arms && depth < 3) return arms.map((arm) => typeOf(arm, root, depth + 1)).join(" | ");
  if (schema.type === "array" && schema.items && depth < 3) return "array of " + typeOf(schema.items, root, depth + 1);
  return Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "any";
}
const RULES = [
  ["pattern", (v) => "matches " + v], ["format", (v) => "format " + v],
  ["minLength", (v) => "at least " + v + " characters"], ["maxLength", (v) => "at most " + v + " characters"],
  ["minimum", (v) => "at least " + v], ["maximum", (v) => "at most " + v],
  ["exclusiveMinimum", (v) => "more than " + v], ["exclusiveMaximum", (v) => "less than " + v],
  ["multipleOf", (v) => "a multiple of " + v], ["minItems", (v) => "at least " + v + " items"],
  ["maxItems", (v) => "at most " + v + " items"], ["default", (v) => "default " + JSON.stringify(v)],
];
const rulesOf = (schema) => RULES.filter(([name]) => schema[name] !== undefined).map(([name, say]) => say(schema[name])).join("; ");

function table(root) {
  const names = Object.keys(root.properties || {});
  if (!names.length) return make("p", "Nothing.", "told");
  const made = make("table");
  const head = make("tr");
  for (const title of ["Name", "Type", "What it is"]) head.append(make("th", title));
  made.append(head);
  for (const name of names) {
    const schema = resolved(root.properties[name], root);
    const row = make("tr");
    const first = make("td", name);
    if ((root.required || []).includes(name)) {
      const star = make("sup", " *");
      star.title = "required";
      first.append(star);
    }
    const words = make("td", schema.description || "");
    const rules = rulesOf(schema);
    if (rules) words.append(make("small", rules));
    row.append(first, make("td", typeOf(root.properties[name], root)), words);
    made.append(row);
  }
  const scroll = make("div", undefined, "scroll");
  scroll.append(made);
  return scroll;
}
function folded(title, text) {
  const box = make("details");
  box.append(make("summary", title), make("pre", text));
  return box;
}

// One tool.
function show(tool) {
  const said = about(tool);
  const box = make("details", undefined, "tool");
  box.id = tool.name;
  const head = make("summary");
  head.append(make("b", tool.name), make("span", tool.title || (tool.description || "").split("\n")[0], "gist"));
  if (said.deprecated) head.append(make("span", "deprecated", "tag warn"));
  if ((tool.annotations || {}).destructiveHint) head.append(make("span", "destructive", "tag warn"));
  if ((tool.annotations || {}).readOnlyHint) head.append(make("span", "reads only", "tag"));
  for (const tag of [said.category, ...(said.tags || [])].filter(Boolean).slice(0, 4)) head.append(make("span", tag, "tag"));
  if (said.version) head.append(make("span", said.version, "tag"));
  box.append(head);
  box.addEventListener("toggle", () => {
    if (!box.open) return;
    history.replaceState(null, "", "#" + encodeURIComponent(tool.name));
    if (box.children.length === 1) box.append(body(tool));
  });
  return box;
}
function body(tool) {
  const said = about(tool);
  const path = "/tools/" + encodeURIComponent(tool.name);
  const made = make("div", undefined, "body");
  if (tool.description) made.append(make("p", tool.description, "told"));
  if (typeof said.deprecated === "string") made.append(make("p", "Deprecated: " + said.deprecated, "told bad"));
  if (/^https?:\/\//.test(said.documentation_url || "")) {
    const link = make("a", said.documentation_url);
    link.href = said.documentation_url;
    link.rel = "noreferrer";
    made.append(link);
  }
  made.append(make("h3", "Takes"), table(tool.inputSchema || {}));
  if (tool.outputSchema) made.append(make("h3", "Returns"), table(tool.outputSchema));
  made.append(make("h3", "Schemas"), folded("input", pretty(tool.inputSchema)));
  if (tool.outputSchema) made.append(folded("output", pretty(tool.outputSchema)));
  made.append(make("h3", "Try it"), trial(path));
  return made;
}
function trial(path) {
  const made = make("div");
  const label = make("label", "POST " + path);
  const entry = make("textarea");
  entry.spellcheck = false;
  entry.value = "{}";
  label.append(entry);
  const fill = (value) => {
    entry.value = pretty(value);
    entry.rows = Math.min(24, entry.value.split("\n").length + 1);
    entry.dispatchEvent(new Event("input"));
  };
  const command = make("pre", "");
  const write = () => {
    let body = entry.value;
    try { body = JSON.stringify(JSON.parse(body)); } catch { /* as it is */ }
    const credential = key() ? ' -H "Authorization: Bearer $KEY"' : "";
    const quoted = body.replace(/'/g, "'\\''");
    command.textContent = `curl${credential} -H 'Content-Type: application/json' \\\n  -d '${quoted}' ${location.origin}${path}`;
  };
  entry.addEventListener("input", write);
  const row = make("div", undefined, "bar");
  const outcome = make("p", "", "outcome");
  outcome.setAttribute("role", "status");
  const answer = make("div");
  for (const [text, where, name] of [["Call", path, "main"], ["Validate", path + "/validate", ""]]) {
    const button = make("button", text, name);
    button.addEventListener("click", () => run(button, where, entry.value, outcome, answer));
    row.append(button);
  }
  const shell = make("details");
  shell.append(make("summary", "as a command"), command);
  made.append(label, row, shell, outcome, answer);
  fill({});
  ask(path).then((got) => {
    const examples = got.ok ? got.value.examples || [] : [];
    if (examples.length) fill(examples[0]);
    if (examples.length < 2) return;
    const choice = make("select");
    choice.setAttribute("aria-label", "Example");
    examples.forEach((_, number) => choice.append(make("option", "example " + (number + 1))));
    choice.addEventListener("change", () => fill(examples[choice.selectedIndex]));
    row.append(choice);
  }, () => {});
  return made;
}
async function run(button, where, text, outcome, answer) {
  button.disabled = true;
  outcome.textContent = "…";
  outcome.className = "outcome";
  answer.replaceChildren();
  const began = performance.now();
  try {
    const got = await ask(where, text);
    outcome.textContent = `${got.status} in ${Math.round(performance.now() - began)} ms`;
    outcome.classList.add(got.ok ? "good" : "bad");
    if (!got.ok) {
      answer.append(make("p", (got.value.field ? got.value.field + ": " : "") + (got.value.reason || ""), "told bad"));
      const hints = make("ul", undefined, "hint");
      for (const one of got.value.suggestions || []) hints.append(make("li", one));
      answer.append(hints);
    }
    const structured = got.ok ? got.value.structuredContent : undefined;
    if (structured === undefined) answer.append(make("pre", pretty(got.value)));
    else answer.append(make("pre", pretty(structured)), folded("the whole answer", pretty(got.value)));
  } catch (problem) {
    outcome.textContent = String(problem);
    outcome.classList.add("bad");
  }
  button.disabled = false;
}

// All of them, by the server they are from.
let tools = [];
function list() {
  const words = at("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (tool) => [tool.name, tool.title, tool.description, about(tool).category, ...(about(tool).tags || [])].join(" ").toLowerCase();
  const found = tools.filter((tool) => words.every((word) => text(tool).includes(word)));
  const groups = new Map();
  for (const tool of found.slice(0, 500)) {
    const server = tool.name.includes("__") ? tool.name.split("__")[0] : "the hub";
    if (!groups.has(server)) groups.set(server, []);
    groups.get(server).push(show(tool));
  }
  at("tools").replaceChildren(...[...groups].flatMap(([server, boxes]) => [make("h2", server), ...boxes]));
  const more = found.length > 500 ? ", the first 500 shown" : "";
  at("count").textContent = found.length + (found.length === 1 ? " tool" : " tools") + more;
}
async function read() {
  try {
    const got = await ask("/tools");
    tools = got.ok ? got.value.tools : [];
    list();
    if (!got.ok) at("count").textContent = [got.value.reason, ...(got.value.suggestions || [])].join("; ");
  } catch (problem) {
    at("count").textContent = String(problem);
  }
  const wanted = at(decodeURIComponent(location.hash.slice(1)));
  if (wanted && wanted.className === "tool") {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}
at("find").addEventListener("input", list);
at("key").addEventListener("change", read);
read();
