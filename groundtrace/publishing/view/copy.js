// Answers the requests of view.js in a copy that `beam view --export` wrote: its rows and records are in data.js, and no
// server runs. A copy cannot be changed.
"use strict";

function copied(path) {
  const address = new URL(path, "http://copy");
  const query = address.searchParams;
  const filters = filtersOf(query);
  if (address.pathname === "/api/run") return COPY.run;
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

const copiedText = row => [...["id", "question", "answer", "detail", "tags"].map(name => row[name] || ""), COPY.records[row.id].mark.note].join("\n").toLowerCase();
const copiedClass = value => value === null || value === undefined ? "" : String(value);

function copiedRows(filters, without = "") {
  const dimensions = new Map(COPY.run.dimensions.map(each => [each.name, each]));
  let found = COPY.rows;
  for (const name of new Set([...filters.keys()])) {
    const values = filters.getAll(name);
    if (name === "sort" || name === without) continue;
    if (name === "q") {
      const text = values[0].trim().toLowerCase();
      found = found.filter(row => copiedText(row).includes(text));
    } else if (!dimensions.has(name)) {
      throw new Error(`the copy has no column ${name} to filter by`);
    } else if (dimensions.get(name).is_number) {
      const [low, high] = values[values.length - 1].split("..").map(each => each.trim() === "" ? null : Number(each));
      found = found.filter(row => typeof row[name] === "number" && (low === null || row[name] >= low) && (high === null || high === undefined || row[name] <= high));
    } else {
      found = found.filter(row => values.includes(copiedClass(row[name])));
    }
  }
  const sort = filters.get("sort");
  if (!sort) return found;
  const name = sort.replace(/^-/, "");
  const sign = sort.startsWith("-") ? -1 : 1;
  const isMissing = value => value === null || value === undefined;
  return [...found].sort((a, b) => {
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
  const { low, high } = dimension;
  const bins = { low, high, rows: Array(20).fill(0), missing: 0 };
  for (const row of rows) {
    const value = row[dimension.name];
    if (typeof value === "number") bins.rows[Math.min(Math.max(Math.floor((value - low) / ((high - low) / 20 || 1)), 0), 19)] += 1;
    else bins.missing += 1;
  }
  return bins;
}
