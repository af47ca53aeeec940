// What all scripts of the page of `beam view` share. The address holds the whole state: filters, order, layout, page and open record.
// Every text of a row becomes a text node: nothing that a model or a file wrote is read as HTML.
"use strict";

const OWN = new Set(["offset", "limit", "id", "view"]);
const PAGE_ROWS = 48;
const TABLE_COLUMNS = 10;  // the table shows at most this number of columns to filter by, in addition to those of marks
const MARKS = new Set(["flagged", "tags", "has a note", "changed since its mark"]);  // the columns of a reviewer's marks
const byId = id => document.getElementById(id);
const COPY = typeof VIEW_COPY === "undefined" ? null : VIEW_COPY;  // the data of a copy, which has no server
let run = null;
let shown = { total: 0, rows: [] };
let current = null;
let chosen = -1;
const varied = new Set();  // the dimensions with several values in the run or among the filtered rows

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter(each => each !== null && each !== undefined));
  return made;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// The column that an address names: a name may have underscores in place of its blanks.
const columnOf = written => {
  const names = run.dimensions.map(each => each.name);
  return names.includes(written) ? written : names.find(each => each.replaceAll(" ", "_") === written) ?? written;
};
const sortOfColumn = value => value.startsWith("-") ? `-${columnOf(value.slice(1))}` : columnOf(value);
const stateIn = text => new URLSearchParams([...new URLSearchParams(text)].map(([name, value]) => [columnOf(name), name === "sort" ? sortOfColumn(value) : value]));
const state = () => stateIn(COPY ? location.hash.slice(1) : location.search);
const filtersOf = given => new URLSearchParams([...given].filter(([name]) => !OWN.has(name)));
const numbered = value => value === null || value === undefined ? "" : typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(3) : String(value);
const titleOf = name => Object.hasOwn(run.titles, name) ? run.titles[name] : name;  // of a column
const named = value => value === "" ? "(no value)" : value;

// The address of a request, with the name of the reading of the run from which this page has its rows. If another page
// had the run read again, the server refuses the requests of this one.
const addressed = path => run && run.opening ? `${path}${path.includes("?") ? "&" : "?"}opening=${run.opening}` : path;

const fetched = async (path, options) => COPY ? copied(path) : (await answered(path, options)).json();

// The response of the server. A status of an error is thrown; if the run was changed, the page also notes this.
async function answered(path, options) {
  const response = await fetch(addressed(path), options);
  if (response.ok) return response;
  const error = Object.assign(new Error(await response.text()), { status: response.status });
  if (response.status === CHANGED_RUN) {
    ended = error;
    trouble(error);
  }
  throw error;
}

const CHANGED_RUN = 410;
let ended = null;  // the error of a changed run, of which nothing more can be shown or kept before the page is reloaded

// Shows an error. Null removes the error that is shown, except that of a changed run.
function trouble(error) {
  const message = error || ended ? ((error || ended).message || String(error)) : "";
  for (const box of [byId("trouble"), byId("record-trouble")]) {
    const again = element("button", { type: "button", onclick: () => location.reload() }, "reload");
    box.replaceChildren(message, ...(ended ? [" ", again] : []));
    box.hidden = !message;
  }
}

function go(next, replaces = false) {
  const text = next.toString();
  if (COPY) {
    location.hash = text;  // the event shows the new state
    return null;
  }
  if (ended && !isHeld(next)) {
    trouble(ended);
    return null;
  }
  history[replaces ? "replaceState" : "pushState"](null, "", text ? `?${text}` : "/");
  return show();
}

function changed(change, keepsPage = false) {
  const next = state();
  if (!keepsPage) next.delete("offset");
  change(next);
  return go(next);
}
