// What a reviewer writes about records: flags, tags and notes.
"use strict";

function review(record) {
  const tags = element("input", { value: record.mark.tags.join(", "), "aria-label": "tags, with commas", placeholder: "tags, with commas" });
  const note = element("textarea", { "aria-label": "note", placeholder: "note" });
  note.value = record.mark.note;
  const listOf = () => tags.value.split(",").map(each => each.trim()).filter(Boolean);
  tags.addEventListener("change", () => mark([record], { tags: listOf() }));
  note.addEventListener("change", () => mark([record], { note: note.value }));
  return element("section", {}, element("h3", {}, "review"), element("div", { class: "row" }, tags), note, element("p", { class: "muted", id: "kept" }, record.mark.at ? `kept ${record.mark.at}` : ""));
}

let marking = Promise.resolve();

// Changes are sent one after another, so that the reply to an earlier one never replaces a later one on the page.
function mark(records, changes) {
  marking = marking.then(() => keepMark(records, changes));
  return marking;
}

async function keepMark(records, changes) {
  if (COPY) return;
  try {
    const traces = Object.fromEntries(records.filter(each => each.traces && each.traces[0]).map(each => [each.id, each.traces[0].sha256]));
    const kept = await fetched("/api/mark", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ids: records.map(each => each.id), traces, ...changes }) });
    for (const each of kept) {
      if (current && current.id === each.id) {
        current.mark = each;
        byId("kept").textContent = `kept ${each.at}`;
        byId("flag").textContent = each.flagged ? "flagged" : "flag";
        byId("flag").setAttribute("aria-pressed", String(each.flagged));
      }
      for (const row of shown.rows) if (row.id === each.id) row.flagged = each.flagged;
    }
    showList(state());
    trouble(null);
  } catch (error) {
    trouble(error);
  }
}

const flag = () => current && mark([current], { flagged: !current.mark.flagged });

async function flagAll() {
  const filters = filtersOf(state());
  const response = await fetch(`/api/ids?${filters}`);
  const ids = (await response.text()).split("\n").filter(Boolean).map(each => JSON.parse(each));
  if (!confirm(`Flag ${ids.length} records?`)) return;
  for (let at = 0; at < ids.length; at += 1000) await mark(ids.slice(at, at + 1000).map(id => ({ id })), { flagged: true });
  listed = null;
  await show();
}
