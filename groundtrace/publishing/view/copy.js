// Answers the requests of view.js in a copy that `beam view --export` wrote: its rows and records are in data.js, and no
// server runs. A copy cannot be changed.
"use strict";

function copied(path) {
  const address = new URL(path, "http://copy");
  const query = address.searchParams;
  if (address.pathname === "/api/run") return COPY.run;
  const filters = copiedFilters(filtersOf(stateIn(query)));
  if (address.pathname === "/api/rows") {
    const found = copiedRows(filters);
    const offset = Number(query.get("offset") || 0);
    return { total: found.length, rows: found.slice(offset, offset + Number(query.get("limit") || PAGE_ROWS)) };
  }
  if (address.pathname === "/api/counts") return Object.fromEntries(COPY.run.dimensions.map(each => [each.name, copiedCount(each, filters)]));
  if (address.pathname === "/api/record") {
    const id = query.get("id");
    const record = COPY.records[id];
    if (!record) throw new Error(`the copy has no record ${id}`);
    const ids = copiedRows(filters).map(each => each.id);
    const at = ids.indexOf(id);
    return { ...record, position: at < 0 ? null : at + 1, total: ids.length, before: at > 0 ? ids[at - 1] : null, after: at >= 0 && at + 1 < ids.length ? ids[at + 1] : null };
  }
  throw new Error("a copy of a view holds no such data");
}

// The filters of an address, as filters.py reads them: the same addresses are refused, with the same messages.
function copiedFilters(given) {
  const known = new Map(COPY.run.dimensions.map(each => [each.name, each]));
  const column = name => {
    if (!known.has(name)) throw new Error(`the run has no column '${name}' to filter or sort by: use one of ${[...known.keys()].join(", ")}`);
    return known.get(name);
  };
  const filters = { text: "", classes: new Map(), ranges: new Map(), sort: null, isDown: false };
  const seen = new Set();
  for (const [name, value] of given) {
    const isClass = known.has(name) && !known.get(name).is_number;
    if (seen.has(name) && !isClass) throw new Error(`${name} is given several times: give it once`);
    seen.add(name);
    if (name === "q") {
      filters.text = [...value.trim()].slice(0, COPIED_TEXT_CHARS).join("").toLowerCase();
    } else if (name === "sort") {
      filters.isDown = value.startsWith("-");
      filters.sort = column(value.replace(/^-/, "")).name;
    } else if (isClass) {
      filters.classes.set(name, [...(filters.classes.get(name) || []), value]);
    } else {
      filters.ranges.set(column(name).name, copiedRange(name, value));
    }
  }
  return filters;
}

const COPIED_TEXT_CHARS = 400;
const COPIED_NUMBER = /^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)$/i;

// The bounds of a range such as 0.5..1; null for a bound that is left out. A number is both bounds.
function copiedRange(name, value) {
  const at = value.indexOf("..");
  const bounds = (at < 0 ? [value, value] : [value.slice(0, at), value.slice(at + 2)]).map(each => {
    const text = each.trim();
    if (!text) return null;
    return COPIED_NUMBER.test(text) ? Number(text.replace(/inf(inity)?/i, "Infinity")) : NaN;
  });
  if (!value.trim() || bounds.some(Number.isNaN)) throw new Error(`the range '${value}' of ${name} is malformed: write it as a number or as LOW..HIGH, such as 5, 0.5..1 or ..0.5`);
  return bounds;
}

const copiedText = row => [...["id", "question", "answer", "detail", "input row", "tags"].map(name => row[name] || ""), COPY.records[row.id].mark.note].join("\n").toLowerCase();
const copiedClass = value => value === null || value === undefined ? "" : String(value);
const isIn = (value, [low, high]) => low === null && high === null || typeof value === "number" && (low === null || value >= low) && (high === null || value <= high);

// The rows that pass the filters, in their order; the filter on the column `without` is left out.
function copiedRows(filters, without = "") {
  const found = COPY.rows.filter(row =>
    copiedText(row).includes(filters.text)
    && [...filters.classes].every(([name, values]) => name === without || values.includes(copiedClass(row[name])))
    && [...filters.ranges].every(([name, bounds]) => name === without || isIn(row[name], bounds)));
  const name = filters.sort;
  if (name === null) return found;
  const sign = filters.isDown ? -1 : 1;
  const isMissing = value => value === null || value === undefined;
  return found.sort((a, b) => {
    if (isMissing(a[name]) || isMissing(b[name])) return isMissing(a[name]) - isMissing(b[name]) || a.n - b.n;
    return (a[name] < b[name] ? -sign : a[name] > b[name] ? sign : 0) || a.n - b.n;
  });
}

function copiedCount(dimension, filters) {
  const rows = copiedRows(filters, dimension.name);
  if (!dimension.is_number) {
    const counts = new Map();
    for (const row of rows) counts.set(copiedClass(row[dimension.name]), (counts.get(copiedClass(row[dimension.name])) || 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 40);
  }
  const { low, high, spans } = dimension;
  const bins = { low, high, rows: Array(20).fill(0), missing: 0, spans };
  for (const row of rows) {
    const value = row[dimension.name];
    if (typeof value === "number") bins.rows[Math.min(Math.max(Math.floor((value - low) / ((high - low) / 20 || 1)), 0), 19)] += 1;
    else bins.missing += 1;
  }
  return bins;
}
