// What a reviewer writes about records: flags, tags and notes.
"use strict";

function review(record) {
  const tags = element("input", { name: "tags", "aria-label": "tags, with commas", placeholder: "tags, with commas" });
  const note = element("textarea", { name: "note", "aria-label": "note", placeholder: "note" });
  const split = text => text.split(",").map(each => each.trim()).filter(Boolean);
  return element("section", {}, element("h3", {}, "review"),
    ...field(record, "tags", tags, () => record.mark.tags.join(", "), split),
    ...field(record, "note", note, () => record.mark.note, text => text),
    element("p", { class: "muted", id: "kept" }, record.mark.at ? `kept ${record.mark.at}` : ""));
}

// The line which says that the mark was set on another version of the row. It is hidden if the mark is about this row.
function outdated(record) {
  const keep = element("button", { type: "button", onclick: () => mark([record], {}) }, "keep for this row");
  return element("p", { class: "outdated t", id: "outdated", role: "status", hidden: !record.mark.outdated }, record.mark.outdated, " ", COPY ? null : keep);
}

const NOT_KEPT = "not kept";  // the beginning of the names under which the browser stores typed texts

// The typed texts of a field that are not kept, each with the id of its record.
const notKept = field => Object.entries(sessionStorage).filter(([key]) => key.startsWith(`["${NOT_KEPT}"`)).map(([key, typed]) => [...JSON.parse(key), typed])
  .filter(([, path, , name]) => path === run.path && name === field).map(([, , id, , typed]) => [id, typed]).sort();

// Names above the list the records with a text that is not kept: after a reload, its field is seen only in its record.
function showNotKept() {
  const link = ([id, typed]) => element("a", { href: `?${new URLSearchParams({ id })}`, title: typed, onclick: event => { event.preventDefault(); open(id); } }, id);
  const parts = Object.entries({ note: ["note is", "notes are"], tags: ["list of tags is", "lists of tags are"] }).flatMap(([name, [one, many]]) => {
    const found = COPY ? [] : notKept(name);
    return found.length ? [`${found.length} ${found.length === 1 ? one : many} not kept: `, ...found.flatMap((each, index) => [index ? ", " : "", link(each)]), " "] : [];
  });
  byId("not-kept").replaceChildren(...parts);
  showNotKeptHere();
}

// Names at the top of the open record its texts that are not kept. Their fields are below the traces and attempts.
function showNotKeptHere() {
  const isHere = name => !COPY && current && notKept(name).some(([id]) => id === current.id);
  const to = name => element("button", { type: "button", onclick: () => byId("record").querySelector(`[name=${name}]`).focus() }, "go to the field");
  const parts = [["note", "the note is not kept yet"], ["tags", "the tags are not kept yet"]].filter(([name]) => isHere(name)).flatMap(([name, words]) => [words, " ", to(name), " "]);
  byId("record-not-kept").replaceChildren(...parts);
}

// A field of the mark, and below it a line that says whether its text is kept. The browser stores a text that is not kept,
// so that the field has the text again after the page was reloaded.
function field(record, name, control, textOf, valueOf) {
  const key = JSON.stringify([NOT_KEPT, run.path, record.id, name]);
  const line = element("p", { class: "unkept t", role: "status", "data-of": name });
  const say = (...words) => { line.className = "unkept t"; line.replaceChildren(...words); };
  const sayKept = () => { line.className = "sent t"; line.replaceChildren("✓ kept"); };
  const again = () => element("button", { type: "button", onclick: keep }, "keep");
  let sending = null;  // the text whose request has no answer yet
  let isEdited = false;  // whether the user has edited the text since the page made the field
  const keep = async () => {
    if (sending === control.value) return;
    const sent = sending = control.value;
    const error = await mark([record], { [name]: valueOf(sent) });
    if (sending === sent) sending = null;
    if (error) sessionStorage.setItem(key, control.value);
    else if (control.value === sent) sessionStorage.removeItem(key);
    if (error) say(`not kept: ${error.message} `, again());
    else if (control.value === sent) sayKept();
    showNotKept();
  };
  const typed = sessionStorage.getItem(key);
  control.value = typed ?? textOf();
  if (typed !== null) say("not kept yet ", again());
  control.addEventListener("input", () => {
    isEdited = true;
    const isNew = control.value !== textOf();
    if (isNew) sessionStorage.setItem(key, control.value);
    else sessionStorage.removeItem(key);
    if (!isNew) showNotKept();
    say(...(isNew ? ["not kept yet: it is kept when you leave the field"] : []));
  });
  control.addEventListener("change", keep);
  // A browser sees no change if the user restores the text that the field had at first, which may be one that is not kept.
  // A stored text that the user did not edit is not sent: it could replace a newer text of somebody else.
  control.addEventListener("blur", () => { if (isEdited && sessionStorage.getItem(key) === control.value) keep(); });
  return [element("div", { class: "row" }, control), line];
}

let marking = Promise.resolve();

// Changes are sent one after another, so that the reply to an earlier one never replaces a later one on the page. The
// result is null, or the error because of which the changes are not kept.
function mark(records, changes) {
  marking = marking.then(() => keepMark(records, changes));
  return marking;
}

async function keepMark(records, changes) {
  if (COPY) return null;
  try {
    const kept = await fetched("/api/mark", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ ids: records.map(each => each.id), ...changes }) });
    for (const each of kept) {
      if (current && current.id === each.id) {
        current.mark = { ...each, outdated: "" };  // a change sets the whole mark on the present row
        byId("outdated").hidden = true;
        byId("kept").textContent = `kept ${each.at}`;
        byId("flag").textContent = each.flagged ? "flagged" : "flag";
        byId("flag").setAttribute("aria-pressed", String(each.flagged));
      }
      for (const row of shown.rows) if (row.id === each.id) Object.assign(row, { flagged: each.flagged, tags: each.tags.join(", "), "has a note": each.note !== "", "changed since its mark": false });
    }
    showList(state());
    trouble(null);
    showCounts().catch(trouble);
    return null;
  } catch (error) {
    trouble(error);
    return error;
  }
}

const flag = () => current && mark([current], { flagged: !current.mark.flagged });

async function flagAll() {
  let ids;
  try {
    const response = await answered(`/api/ids?${filtersOf(state())}`);
    ids = (await response.text()).split("\n").filter(Boolean).map(each => JSON.parse(each));
  } catch (error) {
    trouble(error);
    return;
  }
  if (!confirm(`Flag ${ids.length} records?`)) return;
  let failed = null;
  for (let at = 0; at < ids.length && !failed; at += 1000) failed = await mark(ids.slice(at, at + 1000).map(id => ({ id })), { flagged: true });
  listed = null;
  await show();
  if (failed) trouble(failed);
}
