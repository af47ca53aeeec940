// The page of `beam view` for a run that has not finished. Every text becomes a text node.
"use strict";

const EVERY_MS = 2000;
const byId = id => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const whole = value => Math.round(value || 0).toLocaleString("en");
const line = (...parts) => parts.filter(Boolean).join(" · ");

function about(state) {
  if (state.is_finished) return "The run has finished: reload this page to see its rows.";
  const has = state.calls.some(each => each.replies);
  const seen = state.idle_s === null ? has ? "The replies are in another cache (--cache), which the page does not read." : "There is no reply yet." : `The last reply came ${whole(state.idle_s)} s ago; ${whole(state.per_minute)} in the last minute.`;
  const ended = state.is_failed ? "The run ended with an error, which failed.html in its folder states." : "The run has not finished.";
  return [ended, seen, ...state.waiting].join(" ");
}

function calls(rows) {
  if (!rows.length) return element("p", { class: "muted" }, "none");
  const cells = (tag, values) => element("tr", {}, ...values.map(each => element(tag, { class: "t" }, each)));
  return element("table", {}, element("thead", {}, cells("th", ["stage", "role", "requests", "replies", "tokens in", "tokens out", "cost"])),
    element("tbody", {}, ...rows.map(each => cells("td", [each.stage, each.role, whole(each.requests), whole(each.replies), whole(each.tokens_in), whole(each.tokens_out), `$${(each.cost_usd || 0).toFixed(4)}`]))));
}

function reply(each) {
  return element("details", {}, element("summary", { class: "t" }, line(each.created || "unknown time", each.taken_from ? `taken over from ${each.taken_from} at ${each.taken_at}` : "", each.role, each.prompt, each.model, `${whole(each.tokens_out)} tokens`, each.finish_reason === "stop" ? "" : each.finish_reason)),
    element("pre", { class: "t" }, each.text || "(empty)"), element("p", { class: "muted" }, each.is_shortened ? "The text is shortened." : ""));
}

let first = "";

async function refresh() {
  try {
    const response = await fetch("/api/live");
    if (!response.ok) throw new Error(await response.text());
    const state = await response.json();
    byId("trouble").hidden = true;
    byId("name").textContent = state.name;
    byId("about").textContent = about(state);
    byId("calls").replaceChildren(calls(state.calls));
    byId("failures").replaceChildren(...(state.failures.length ? state.failures.map(each => element("li", { class: "t" }, line(`${whole(each.count)} ×`, each.endpoint, each.status ? `status ${each.status}` : "", each.message))) : [element("li", { class: "muted" }, "none")]));
    const newest = state.replies.length ? state.replies[0].key : "";
    const isRead = document.querySelector("#replies details[open]") !== null;  // the list stays while a reply is open
    if (newest !== first && !isRead) {
      byId("replies").replaceChildren(...state.replies.map(reply));
      first = newest;
    }
  } catch (error) {
    byId("trouble").textContent = `The view does not answer: ${error.message}`;
    byId("trouble").hidden = false;
  }
  setTimeout(refresh, EVERY_MS);
}

refresh();
