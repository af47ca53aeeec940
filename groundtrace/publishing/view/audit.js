// The audit of `beam view RUN --audit N`: a person judges traces without seeing what the machine found.
"use strict";

const WHOLE = "whole trace";
const CHOICES = [["right", "1"], ["wrong", "2"], ["unclear", "3"]];
const CHOICE_NAMES = { right: "right", wrong: "wrong", unclear: "cannot tell" };
let audit = null;
let judged = null;
let lastJudged = null;  // the id of the trace with the last judgement as a whole, for undoing
let arePartsOpen = false;

async function showAudit(now, isCurrent) {
  audit = await fetched("/api/audit");
  if (!isCurrent()) return;
  const dialog = byId("record");
  if (dialog.open) dialog.close();
  const showCount = () => {
    const done = audit.rows.filter(([, choice]) => choice).length;
    byId("count").textContent = `${done} of ${audit.rows.length} traces judged`;
    byId("chips").replaceChildren(...(audit.reviewer ? [`reviewer: ${audit.reviewer}`] : []));
    byId("pages").replaceChildren();
  };
  const isDone = audit.rows.length && audit.rows.every(([, choice]) => choice);
  if (now.get("id") === "result" || (isDone && !now.has("id"))) {
    const result = await fetched("/api/audit/result");
    if (isCurrent()) byId("rows").replaceChildren(auditBar(null), isDone ? element("p", { id: "done" }, `All ${audit.rows.length} traces are judged.${lastJudged ? " u undoes the last judgement." : ""}`) : "", resultOf(result));
    showCount();
    return;
  }
  const id = now.get("id") ?? (audit.rows.find(([, choice]) => !choice) || audit.rows[0] || [null])[0];
  if (id === null) {
    byId("rows").replaceChildren("The sample has no row.");
    showCount();
    return;
  }
  const record = await fetched(`/api/audit/record?${new URLSearchParams({ id })}`);
  if (!isCurrent()) return;
  judged = record;
  showCount();
  byId("rows").replaceChildren(auditBar(record), element("div", { class: "two" }, new Viewer(record).box, judging(record)));
}

const auditTo = id => go(new URLSearchParams(id === null ? { view: "audit" } : { view: "audit", id }));

function auditStep(step) {
  const at = audit.rows.findIndex(([id]) => judged && id === judged.id);
  const next = audit.rows[Math.min(Math.max(at + step, 0), audit.rows.length - 1)];
  if (next) auditTo(next[0]);
}

function auditBar(record) {
  const at = record ? audit.rows.findIndex(([id]) => id === record.id) + 1 : 0;
  return element("div", { class: "row" },
    record ? `${at} of ${audit.rows.length}` : "",
    element("button", { type: "button", onclick: () => auditStep(-1), title: "k" }, "previous"),
    element("button", { type: "button", onclick: () => auditStep(1), title: "j" }, "next"),
    element("button", { type: "button", onclick: () => auditTo(null) }, "next not judged"),
    element("button", { type: "button", id: "result", onclick: () => auditTo("result") }, "result"));
}

function judging(record) {
  const asked = [element("p", { class: "question t" }, record.question || "")];
  if (record.choices.length) asked.push(element("ol", { type: "A" }, ...record.choices.map(each => element("li", { class: "t" }, each))));
  asked.push(element("p", {}, element("span", { class: "muted" }, "gold answer "), element("b", { class: "t" }, record.answer ?? "–")));
  const trace = record.turns.length ? turnsOf(record) : element("section", {}, element("h3", {}, "trace"), text(record.traces[0], "trace"));
  return element("div", {}, element("section", {}, ...asked), trace, element("section", {},
    element("h3", {}, "your judgement"),
    element("p", { class: "muted" }, "Right: the answer is right, each point and box lies on what it names, and the reasoning holds for this image."),
    choicesOf(record, WHOLE, true),
    element("details", { open: arePartsOpen, ontoggle: event => { arePartsOpen = event.target.open; } }, element("summary", { class: "muted" }, "single verdicts"),
      element("p", { class: "muted" }, "Judge one part of the trace: outcome is its answer, spatial its points and boxes, counting its counts, reasoning its words. Wrong means that this part of the trace is wrong."),
      ...record.names.map(name => element("div", {}, element("p", { class: "muted t" }, name), choicesOf(record, name, false))))));
}

function choicesOf(record, about, hasKeys) {
  const buttons = CHOICES.map(([choice, key]) => element("button", { type: "button", "data-choice": choice, "aria-pressed": String(record.judgements[about] === choice), onclick: () => judge(about, choice) }, `${CHOICE_NAMES[choice]}${hasKeys ? ` (${key})` : ""}`));
  const undo = element("button", { type: "button", disabled: !record.judgements[about], onclick: () => judge(about, "") }, hasKeys ? "undo (u)" : "undo");  // the key also undoes the judgement of the trace before
  return element("div", { class: "row choices" }, ...buttons, undo);
}

async function judge(about, choice, of = judged.id) {
  try {
    await fetched("/api/audit/judge", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ id: of, about, choice }) });
    if (about === WHOLE) lastJudged = choice ? of : null;
    const at = audit.rows.findIndex(([id]) => id === of);
    const isDone = audit.rows.every(([id, each]) => each || id === of);
    if (about !== WHOLE || !choice) await auditTo(of);
    else if (isDone) await auditTo("result");
    else await auditTo(at + 1 < audit.rows.length ? audit.rows[at + 1][0] : null);
  } catch (error) {
    trouble(error);
  }
}

// After a judgement the page shows the next trace, so the judgement to undo is usually that of the trace before.
function undoLast() {
  const id = judged.judgements[WHOLE] ? judged.id : lastJudged;
  if (id) judge(WHOLE, "", id);
}

function onAuditKey(key) {
  const choice = CHOICES.find(([, each]) => each === key);
  if (choice && judged && state().get("id") !== "result") judge(WHOLE, choice[0]);
  else if (key === "u" && judged) undoLast();
  else if (key === "m" && viewer) viewer.toggleMarks();
  else if (key === "j") auditStep(1);
  else if (key === "k") auditStep(-1);
}

function resultOf(result) {
  const percent = value => `${(100 * value).toFixed(1)} %`;
  const judgeAgain = result.changed ? `not yet: ${result.changed} judged traces have changed since, so judge them again` : "";
  const lacking = judgeAgain ? judgeAgain : result.strata.length > 1 ? "not yet: judge at least one row of each line below" : "not measured: the verification rejected no record of this run";
  const range = (share, else_) => share ? `${percent(share.value)} (${percent(share.low)} to ${percent(share.high)})` : else_;
  // One line on the rows that the interval of a figure is about, and on the reason if it has no width.
  const about = (name, words) => result[name] ? element("p", { class: "muted", id: `about-${name}` }, result.exact[name] ? `${words} ${result.exact[name]}` : words) : "";
  const rows = result.strata.map(each => element("tr", {},
    ...[each.stratum, each.rows.toLocaleString("en"), each.right, each.wrong, each.unclear, each.open, each.interval ? `${percent(each.interval[0])} to ${percent(each.interval[1])}` : "–"].map(value => element("td", { class: "t" }, String(value)))));
  const head = ["rows", "in the run", "right", "wrong", "cannot tell", "not judged", "right, 95 % interval"].map(each => element("th", { scope: "col" }, each));
  return element("section", {},
    element("h3", {}, "how often \"verified\" is right"),
    element("p", {}, "precision: of the kept rows, right are ", element("b", { id: "precision" }, range(result.precision, judgeAgain || "not yet: judge at least one kept row"))),
    about("precision", "This interval is about the kept rows of this run: the judged ones are known, and only the others are estimated."),
    element("p", {}, "recall: of all right rows, kept are ", element("b", { id: "recall" }, range(result.recall, lacking))),
    about("recall", "This interval is about all right rows of this run, the kept ones and those that the verification rejected."),
    ...Object.entries(result.kappa).map(([name, [value, rows]]) => element("p", { class: "t" }, `agreement with ${name || "the reviewer without a name"} on ${rows} rows: kappa ${value.toFixed(2)}`)),
    result.precision ? element("p", { class: "t" }, "To put both figures on the data card: ", element("code", { id: "publish" }, `beam publish ${quoted(run.path)} --repo ORG/NAME --with audit --dry-run`), " (without --dry-run, the command publishes the run)") : "",
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))),
    element("p", { class: "muted", id: "about-table" }, "An interval of the table is about any rows of this kind, also of other runs, and so wider than that of the precision."));
}
