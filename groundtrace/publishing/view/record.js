// One record: its question, traces with their verdicts, turns, facts and replies.
"use strict";

const open = id => changed(next => next.set("id", id), true);
const close = () => changed(next => next.delete("id"), true);

async function showRecord(now, mine) {
  const dialog = byId("record");
  const id = now.get("id");
  endReplay();
  if (id === null) {
    const closed = current;
    current = null;
    if (dialog.open) dialog.close();
    if (closed) focusRowOf(closed.id);
    return;
  }
  const query = filtersOf(now);
  query.set("id", id);
  const record = await fetched(`/api/record?${query}`);
  if (mine !== turn) return;
  current = record;
  viewer = new Viewer(record);
  byId("record-bar").replaceChildren(bar(record));
  byId("record-body").replaceChildren(element("div", { class: "two" }, left(viewer), element("div", {}, right(record), facts(record, viewer))));
  showNotKept();
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

// The list was drawn anew while the record was open, so the browser cannot give the focus back by itself.
function focusRowOf(id) {
  const index = shown.rows.findIndex(row => row.id === id);
  if (index < 0) return;
  chosen = index;
  focusChosen();
}

function bar(record) {
  const where = record.position === null ? "not among the filtered rows" : `${record.position.toLocaleString("en")} of ${record.total.toLocaleString("en")}`;
  return element("div", { class: "bar-top" },
    element("span", { class: `set ${record.set}` }, record.set),
    run.other ? outcomeThere(record.other) : null,
    element("code", { class: "t" }, record.id),
    element("span", { class: "muted" }, where),
    element("span", { class: "push row" },
      element("button", { type: "button", disabled: record.before === null, onclick: () => open(record.before), title: "k" }, "previous"),
      element("button", { type: "button", disabled: record.after === null, onclick: () => open(record.after), title: "j" }, "next"),
      COPY ? null : element("button", { type: "button", id: "flag", "aria-pressed": String(record.mark.flagged), onclick: flag, title: "f" }, record.mark.flagged ? "flagged" : "flag"),
      element("button", { type: "button", onclick: close, title: "Esc" }, "close")));
}

// Where the same record ended in the second run.
function outcomeThere(there) {
  const ended = there ? element("span", { class: `set ${there.set}` }, there.reason ? `${there.set}: ${there.reason}` : there.set) : "no such record";
  return element("span", { class: "t", id: "there" }, element("span", { class: "muted" }, `in ${run.other.name}: `), ended);
}

function left(viewer) {
  const none = viewer.record.set === "rejected" ? "No image to show: the run rejected this record before it opened its images, or because it could not open them, and the view shows only files that the run has read." : "This record has no image.";
  return element("div", {}, viewer.record.images.length ? viewer.box : element("p", { class: "muted" }, none));
}

function text(response, layer) {
  const parts = response.parts.map(part => {
    if (part.kind === "text") return document.createTextNode(part.text);
    if (part.kind === "markup" || part.kind === "more") return element("span", { class: "markup" }, part.text);
    const kind = part.kind === "points" ? "point" : "box";
    return tag(part.kind, part.text || kind, part.marks.map(mark => ({ ...mark, name: `${layer}-${kind}-${mark.n}` })));
  });
  return element("div", { class: "text" }, ...(parts.length ? parts : [element("span", { class: "muted" }, "empty")]));
}

// Words about marks of the image, which light while the pointer is on them or they have the focus.
function tag(kind, words, marks) {
  const all = isOn => light(marks.map(mark => mark.name), isOn);
  const leave = mark => { light(mark.name, false); if (made.matches(":hover, :focus")) all(true); };  // still on the tag
  const numbers = marks.map(mark => element("sup", { title: mark.at, "data-mark": mark.name, onpointerenter: () => light(mark.name, true), onpointerleave: () => leave(mark) }, String(mark.n)));
  const made = element("span", { class: `tag ${kind}`, tabindex: 0, onpointerenter: () => all(true), onpointerleave: () => all(false), onfocus: () => all(true), onblur: () => all(false) }, words, ...numbers);
  return made;
}

// Evidence as words: scorers write JSON objects, of which one with a place is about a point; other texts stay.
function evidence(written) {
  let found = null;
  try { found = JSON.parse(written); } catch { return written; }
  if (found === null || typeof found !== "object" || Array.isArray(found)) return written;
  if (typeof found.chosen === "string") return `applied because ${found.chosen}`;
  const place = each => Math.round(each * 10) / 10;
  const value = each => typeof each === "number" ? numbered(each) : typeof each === "object" ? JSON.stringify(each) : String(each);
  if (typeof found.x !== "number" || typeof found.y !== "number") return Object.entries(found).filter(([, each]) => each !== null && each !== "").map(([name, each]) => `${name} ${value(each)}`).join(", ");
  const at = `${found.label || "point"}${found.number ? ` (${found.number})` : ""} at ${place(found.x)}, ${place(found.y)}${found.frame === null || found.frame === undefined ? "" : ` in frame ${found.frame}`}`;
  return [at, found.on === true ? "on its object" : found.on === false ? "off its object" : "", found.by ? `by the ${found.by}` : "", found.note].filter(Boolean).join(", ");
}

function tracesOf(traces) {
  const count = traces.reduce((sum, each) => sum + each.count, 0);
  return count === 1 ? "trace" : `${count} traces${traces.length < count ? `, ${traces.length} different` : ""}`;
}

// The verdicts on a trace, each with the floor below which its scorer rejects.
function verdicts(trace, floors = run.floors) {
  const hasFloor = (name, value) => value !== null && Object.hasOwn(floors, name);
  const isLow = (name, value) => hasFloor(name, value) && value < floors[name];
  const beside = (name, value) => hasFloor(name, value) ? ` (floor ${floors[name]})` : "";
  const made = trace.verdicts.map(each => {
    const kind = each.failed || isLow(each.name, each.value) ? "bad" : each.value === null ? "none" : each.value >= .999 ? "good" : each.value <= .001 ? "bad" : "";
    const value = each.failed ? "failed" : each.value === null ? "–" : numbered(each.value);
    return element("span", { class: `verdict ${kind}${each.rejects ? " rejects" : ""} t`, title: each.reason || "" }, `${each.rejects ? "rejected by " : ""}${each.name} ${value}${beside(each.name, each.value)}`);
  });
  const items = trace.verdicts.filter(each => each.reason || (each.evidence || []).length).map(each => element("li", { class: "t" }, `${each.name}: ${[each.reason, ...(each.evidence || []).map(evidence)].filter(Boolean).join("; ")}`));
  return [element("div", { class: "verdicts" }, trace.count > 1 ? element("span", { class: "verdict" }, `${trace.count} ×`) : null, trace.score === null ? null : element("span", { class: `verdict${isLow("final", trace.score) ? " bad" : ""}` }, `final ${numbered(trace.score)}${beside("final", trace.score)}`), ...made),
    items.length ? element("details", { open: trace.verdicts.some(each => each.failed || each.value === 0) }, element("summary", { class: "muted" }, "evidence"), element("ul", { class: "evidence" }, ...items)) : null];
}

function right(record) {
  const parts = [outdated(record)];
  const asked = [element("p", { class: "question t" }, record.question || "(no question)")];
  if (record.choices.length) asked.push(element("ol", { type: "A" }, ...record.choices.map(each => element("li", { class: "t" }, each))));
  asked.push(element("p", {}, element("span", { class: "muted" }, "gold answer "), element("b", { class: "t" }, record.answer ?? "–"), record.answer_type ? element("span", { class: "muted" }, ` (${record.answer_type})`) : null));
  if (record.reason) asked.push(element("p", { class: "t" }, element("span", { class: "set rejected" }, `${record.stage}: ${record.reason}`), record.detail ? ` ${record.detail}` : ""));
  parts.push(element("section", {}, ...asked));
  if (record.turns.length) parts.push(turnsOf(record));
  else if (record.traces.length) {
    parts.push(element("section", {}, element("h3", {}, tracesOf(record.traces)), element("div", { class: "traces" },
      ...record.traces.map((trace, index) => element("div", {}, ...verdicts(trace), text(trace, index ? `other${index}` : "trace"))))));
  }
  if (run.other) parts.push(otherRun(record));
  const prompt = record.traces[0] && record.traces[0].prompt;
  if (prompt && prompt.length) parts.push(element("section", {}, element("details", {}, element("summary", {}, "prompt of the training row"), ...prompt.map(each => element("div", {}, element("p", { class: "muted" }, each.role), text(each, "prompt"))))));
  if (record.attempts.length) {
    parts.push(element("section", {}, element("h3", {}, `${record.attempts.length} attempts`), element("div", { class: "traces" },
      ...record.attempts.map((each, index) => element("div", { class: each.correct === null ? "" : each.correct ? "right" : "wrong" }, element("p", { class: "muted" }, `${each.correct === null ? "unscored" : each.correct ? "right" : "wrong"}: `, element("b", { class: "t" }, each.answer ?? "no answer")), text(each, `attempt${index}`))))));
  }
  if (!COPY) parts.push(review(record));
  return element("div", {}, ...parts);
}

// The same record in the second run: where it ended, and its traces with their verdicts.
function otherRun(record) {
  const title = element("h3", {}, "in the other run, ", element("span", { class: "t" }, run.other.name));
  const there = record.other;
  if (!there) return element("section", { class: "other" }, title, element("p", { class: "muted" }, "The other run has no record with this id."));
  const ended = element("p", { class: "t" }, element("span", { class: `set ${there.set}` }, there.reason ? `${there.stage}: ${there.reason}` : there.set), there.detail ? ` ${there.detail}` : "");
  const parts = [ended];
  if (there.question !== record.question) parts.push(element("p", { class: "question t" }, there.question || "(no question)"));
  if (there.answer !== record.answer) parts.push(element("p", {}, element("span", { class: "muted" }, "gold answer "), element("b", { class: "t" }, there.answer ?? "–")));
  const texts = there.turns.length ? there.turns.map(each => text(each, "there0")) : there.traces.map((trace, index) => text(trace, `there${index}`));
  const scores = there.traces.map(trace => verdicts(trace, run.other.floors));
  parts.push(element("div", { class: "traces" }, ...(there.turns.length ? [element("div", {}, ...(scores[0] || []), ...texts)] : texts.map((each, index) => element("div", {}, ...scores[index], each)))));
  if (there.attempts.length) {
    const right = there.attempts.filter(each => each.correct).length;
    parts.push(element("p", { class: "muted" }, `${right} of ${there.attempts.length} attempts right`));
  }
  return element("section", { class: "other" }, title, ...parts);
}

function turnsOf(record) {
  let used = 0;
  const ofCode = record.images.filter(each => each.kind === "code");
  const turns = record.turns.map((each, index) => {
    const images = ofCode.slice(used, used + each.images);
    used += each.images;
    return element("div", { class: each.status && !["ok", "silent"].includes(each.status) ? "wrong" : "" },
      element("p", { class: "muted" }, `turn ${index + 1}${each.status ? `: ${each.status}` : ""}`), text(each, "trace"),
      each.code ? element("pre", {}, each.code) : null, each.output ? element("pre", {}, each.output) : null,
      ...images.map(image => element("img", { src: addressOf(record, image), alt: image.caption, width: 260, loading: "lazy" })));
  });
  return element("section", {}, element("h3", {}, "trajectory"), ...(record.traces[0] ? verdicts(record.traces[0]) : []), ...turns);
}

function facts(record, viewer) {
  const pairs = record.facts.flatMap(([name, value]) => [element("dt", { title: run.meanings[name] }, name), element("dd", {}, value)]);
  return element("section", { class: "facts" }, COPY ? null : repliesOf(record), run.has_replay ? replayOf(record, viewer) : null, element("h3", {}, "facts"), element("dl", {}, ...pairs));
}

// The replies of models that made the record; they are read from the run's cache when the list is opened.
function repliesOf(record) {
  const list = element("div", { class: "replies" });
  const box = element("details", {}, element("summary", {}, "replies of models"), list);
  box.addEventListener("toggle", async () => {
    if (!box.open || list.childElementCount) return;
    try {
      const found = await fetched(`/api/replies?${new URLSearchParams({ id: record.id })}`);
      list.replaceChildren(...found.replies.map(reply), element("p", { class: "muted" }, aboutReplies(record, found)));
    } catch (error) {
      list.replaceChildren(element("p", { class: "muted t" }, error.message));
    }
  });
  return box;
}

// Which replies are shown. The row of a rejected record names at most one reply, that which led to the rejection. A pass
// rate is made of all attempts, so no single reply led to a rejection by difficulty.
function aboutReplies(record, found) {
  const missing = found.keys - found.replies.length;
  if (missing) return `${missing} of ${found.keys} replies are not in the run's cache.`;
  if (record.set !== "rejected") return found.keys ? `All ${found.keys} replies are shown.` : "The row names no reply.";
  if (["too_hard", "too_easy"].includes(record.reason) && record.attempts.length) {
    return `The replies that led to the rejection are the ${record.attempts.length} attempts on this page.${run.has_replay ? " The replay below shows them with their requests." : ""}`;
  }
  const shown = found.keys ? "This is the reply that led to the rejection." : "No single reply led to the rejection, so the row names no reply.";
  return `${shown}${run.has_replay ? " The replay below shows the replies to all requests for this record." : ""}`;
}

function reply(each) {
  const taken = each.taken_from ? ` · taken over from ${each.taken_from} at ${each.taken_at}` : "";
  const about = `${each.role} · ${each.prompt} · ${each.model} · ${each.tokens_in} tokens in, ${each.tokens_out} out · made ${each.created || "at an unknown time"}${taken}${each.finish_reason === "stop" ? "" : ` · ${each.finish_reason}`}`;
  return element("div", {}, element("p", { class: "muted t" }, about), element("p", { class: "muted" }, element("code", {}, each.key)),
    each.reasoning ? element("details", {}, element("summary", { class: "muted" }, "reasoning"), element("pre", { class: "t" }, each.reasoning)) : null,
    element("pre", { class: "t" }, each.text || "(empty)"), each.is_shortened ? element("p", { class: "muted" }, "The text is shortened.") : null);
}
