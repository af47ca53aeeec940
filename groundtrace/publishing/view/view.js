// The keys and buttons of the page, and its start.
"use strict";

async function copyLink() {
  const runs = [run.path, ...(run.other ? [run.other.path] : [])].map(quoted).join(" ");
  const command = `beam view ${runs} --at ${quoted(state().toString())}`;
  try {
    await navigator.clipboard.writeText(command);
    byId("copy").textContent = "copied";
    setTimeout(() => { byId("copy").textContent = "copy link"; }, 1500);
  } catch {
    prompt("This command opens the same page:", command);
  }
}

const TYPING_PAUSE_MS = 500;  // after this pause, the typed text is searched for
const quoted = word => `'${word.replaceAll("'", "'\\''")}'`;

function choose(step) {
  chosen = Math.min(Math.max(chosen + step, 0), shown.rows.length - 1);
  focusChosen();
}

function onKey(event) {
  const isTyping = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "checkbox";
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  const key = event.key;
  if (document.body.classList.contains("is-audit")) onAuditKey(key);
  else if (key === "/") { event.preventDefault(); if (!current) byId("q").focus(); }
  else if (key === "j" || key === "ArrowRight" && current) current ? current.after !== null && open(current.after) : choose(1);
  else if (key === "k" || key === "ArrowLeft" && current) current ? current.before !== null && open(current.before) : choose(-1);
  else if (key === "m" && current && viewer) viewer.toggleMarks();
  else if (key === "f") {
    const row = shown.rows[chosen];
    if (current) flag();
    else if (row) mark([row], { flagged: !row.flagged });
  } else if (key === "Enter" && event.target.tagName === "TR") open(shown.rows[event.target.dataset.index].id);
}

// The result of the comparison, as `beam diff` counts it. Each number of changed records is a link to them.
function comparedWords(other) {
  if (!other.both) return ["no id is in both runs"];
  const link = (changes, words) => {
    const to = new URLSearchParams(changes.map(each => ["change of set", each]));
    return changes.length ? element("a", { href: `?${to}`, onclick: event => { event.preventDefault(); go(to); } }, words) : words;
  };
  const ids = count => `${count.toLocaleString("en")} id${count === 1 ? "" : "s"}`;
  const moved = Object.values(other.moved).reduce((sum, each) => sum + each, 0);
  const parts = [link(Object.keys(other.moved), `${moved.toLocaleString("en")} of ${ids(other.both)} ended elsewhere`)];
  if (other.retraced) parts.push("; ", link(["other trace"], `${ids(other.retraced)} ended alike with another trace`));
  return parts;
}

// The settings that differ, each with its value in this run and its value in the second run.
function settingsText(other) {
  const parts = other.settings.map(([name, here, there]) => `${name}: ${here} → ${there}`);
  if (other.more_settings) parts.push(`and ${other.more_settings.toLocaleString("en")} more (beam diff lists them)`);
  return parts.length ? `settings that differ, ${run.name} → ${other.name}: ${parts.join(", ")}` : "no setting differs";
}

const LOOK_EVERY_MS = 5000;

// Asks the server whether the run was changed, while the page is seen. If it was, the page shows the error.
async function look() {
  if (document.hidden || ended) return;
  try {
    await answered("/api/changed");
  } catch {
    // a changed run is shown already; other errors, such as those of an ended server, appear with the next request
  }
}

async function start() {
  try {
    run = await fetched("/api/run");
  } catch (error) {
    trouble(error);
    return;
  }
  document.title = `${run.name} · beam view · Groundtrace`;
  byId("name").textContent = run.name;
  const since = run.other ? `; beside ${run.other.name}` + (run.other.only_there ? ` (${run.other.only_there.toLocaleString("en")} records only there)` : "") : "";
  byId("about").textContent = `${run.recipe}, ${run.finished.replace("T", " ").slice(0, 16)}${since}`;
  byId("settings").hidden = !run.other;
  byId("compared").hidden = !run.other;
  if (run.other) {
    byId("compared").replaceChildren(...comparedWords(run.other));
    byId("settings").textContent = settingsText(run.other);
  }
  byId("sort").append(element("option", { value: "" }, "the run's order"), ...run.dimensions.map(each => element("option", { value: each.name }, titleOf(each.name))));
  byId("home").addEventListener("click", event => { event.preventDefault(); go(new URLSearchParams()); });
  byId("search").addEventListener("submit", event => { event.preventDefault(); changed(next => byId("q").value.trim() ? next.set("q", byId("q").value.trim()) : next.delete("q")); });
  byId("q").addEventListener("input", () => {
    clearTimeout(pendingSearch);
    pendingSearch = setTimeout(() => byId("search").requestSubmit(), TYPING_PAUSE_MS);
  });
  byId("sort").addEventListener("change", () => sortBy(byId("sort").value, sortOf(state()).isDown));
  byId("descends").addEventListener("click", () => sortBy(byId("sort").value, !sortOf(state()).isDown));
  byId("layout").addEventListener("click", () => changed(next => next.get("view") === "table" ? next.delete("view") : next.set("view", "table"), true));
  byId("flag-all").addEventListener("click", flagAll);
  byId("ids").addEventListener("click", () => { location.href = addressed(`/api/ids?${filtersOf(state())}`); });
  byId("copy").addEventListener("click", copyLink);
  byId("facets-open").addEventListener("click", event => event.target.setAttribute("aria-expanded", String(byId("facets").classList.toggle("open"))));
  byId("record").addEventListener("cancel", event => { event.preventDefault(); close(); });
  for (const name of ["flag-all", "ids", "copy"]) byId(name).hidden = Boolean(COPY);
  byId("audit").hidden = !run.has_audit;
  byId("audit").addEventListener("click", () => go(new URLSearchParams("view=audit")));
  document.addEventListener("keydown", onKey);
  window.addEventListener(COPY ? "hashchange" : "popstate", show);
  await show();
  if (COPY) return;
  setInterval(look, LOOK_EVERY_MS);
  document.addEventListener("visibilitychange", look);
}

window.addEventListener("DOMContentLoaded", start);
