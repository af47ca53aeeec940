// The replay of a record on the page of `beam view`.
"use strict";

// The layers of the objects in the replies of these roles: the name of each, the title of its switch, whether it is on.
const MODEL_LAYERS = { segmenter: ["segmenter", "segmenter", true], detector: ["detector", "detector", false], pointer: ["pointing", "pointer (replies)", false] };

let replaying = null;  // ends the replay in progress

// Ends the replay in progress. Its record is left, and a browser has few connections to one server.
function endReplay() {
  replaying?.abort();
  replaying = null;
}

// What the stages do with the record when they are repeated with the stored replies: prompts, all traces, the stages.
// The objects that the models found become layers of the viewer.
function replayOf(record, viewer) {
  const list = element("div", { class: "replay" });
  const box = element("details", {}, element("summary", {}, "replay: prompts, replies, all traces, stages"), list);
  box.addEventListener("toggle", async () => {
    if (!box.open || list.childElementCount) return;
    list.replaceChildren(element("p", { class: "muted" }, "The stages are repeated with the stored replies …"));
    endReplay();
    replaying = new AbortController();
    try {
      const done = await fetched("/api/replay", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ id: record.id }), signal: replaying.signal });
      list.replaceChildren(...replayed(record, done));
      viewer.add(layersOf(done.marks, done.traces));
    } catch (error) {
      list.replaceChildren(element("p", { class: "t" }, error.message));
    }
  });
  return box;
}

// The layers of the models' marks, each of which is drawn in all places of its image, and that of the traces' marks.
function layersOf(marks, traces) {
  const placed = marks.flatMap(({ places, ...mark }) => places.map(([media_index, frame]) => ({ ...mark, media_index, frame })));
  const ofModels = Object.entries(MODEL_LAYERS).map(([role, [name, title, on]]) => ({ name, title, on, marks: placed.filter(each => each.role === role) }));
  const ofTraces = traces.flatMap((each, index) => namedMarks(each.marks, `replayed${index}`));
  return [...ofModels, { name: "replayed", title: "traces of the replay", marks: ofTraces, on: false }].filter(each => each.marks.length);
}

function replayed(record, done) {
  const end = each => [each.set, each.stage, each.reason].filter(Boolean).join(": ");
  const isSame = end(done) === end(record) && (record.detail || "") === done.detail && (!record.traces.length || (done.traces[0] || {}).sha256 === record.traces[0].sha256);
  const isCut = done.requests.some(each => each.stored.length < each.keys.length);
  const why = isCut ? "a reply that it needs is not stored: the call failed in the run, or was never made" : "a stage needs the other records, or the code has changed";
  const sent = done.requests.filter(each => each.stored.length);
  const parts = [element("p", { class: "t" }, isSame ? "The replay ended as the run did." : `The replay ended differently (${end(done)}), probably because ${why}.`),
    element("p", { class: "t" }, `passed: ${done.passed.join(" → ")}`)];
  if (done.traces.some(each => each.count > 1) || done.traces.length > 1) parts.push(element("details", {}, element("summary", {}, tracesOf(done.traces)), element("div", { class: "traces" },
    ...done.traces.map((trace, index) => element("div", {}, ...verdicts(trace), text(trace, `replayed${index}`))))));
  const layers = layersOf(done.marks, done.traces);
  if (layers.length) parts.push(element("p", {}, `The image has new layers: ${layers.map(each => `${each.title} (${each.marks.length})`).join(", ")}.`));
  parts.push(...done.notes.map(each => element("p", { class: "muted t" }, each)));
  parts.push(...sent.map(each => sentPrompt(each, done.marks.filter(mark => each.keys.includes(mark.key)))));
  const left = done.requests.length - sent.length;
  return [...parts, element("p", { class: "muted" }, `Shown are ${sent.length} of ${done.requests.length} prompts: those whose cache key is that of a stored reply${left ? "; the others have no stored reply" : ""}.`)];
}

// The labels of the objects in a reply, each once; a label lights its objects in the image.
function tagsOf(marks) {
  const byLabel = new Map();
  for (const mark of marks) {
    const numbers = byLabel.get(mark.label) || new Map();
    byLabel.set(mark.label, numbers.set(mark.n, { n: mark.n, name: `${MODEL_LAYERS[mark.role][0]}-${mark.kind}-${mark.n}` }));
  }
  return [...byLabel].flatMap(([label, numbers]) => [" ", tag(marks[0].kind, label || marks[0].kind, [...numbers.values()])]);
}

function sentPrompt(each, marks) {
  const parts = each.user.map(part => part.media === undefined ? element("pre", { class: "t" }, part.text) : element("p", { class: "muted t" }, `[image ${part.media.split("/").pop()}]`));
  const score = each.continuation ? [element("p", { class: "muted" }, "the text whose probability is wanted"), element("pre", { class: "t" }, each.continuation.text)] : [];
  return element("details", {}, element("summary", { class: "t" }, `${each.stage}: ${each.role}, ${each.prompt}, ${each.stored.length} of ${each.keys.length} replies`, ...tagsOf(marks)),
    ...(each.system ? [element("p", { class: "muted" }, "system"), element("pre", { class: "t" }, each.system)] : []), element("p", { class: "muted" }, "user"), ...parts, ...score,
    element("p", { class: "muted t" }, `cache key ${each.keys.join(", ")}`),
    element("details", {}, element("summary", { class: "muted" }, each.replies.length < each.stored.length ? `texts of ${each.replies.length} of ${each.stored.length} replies` : "texts of the replies"), ...each.replies.map(reply)));
}
