// The rows that pass the filters, as a grid or a table, and the filters with their counts.
"use strict";

// Requests of an earlier state that arrive late are dropped.
let turn = 0;
let counting = 0;
let listed = null;
let pendingSearch = null;  // the timer that searches for the typed text; it ends when the page shows another state

// The filters and the place in the list that determine which rows are shown.
const listOf = given => `${filtersOf(given)}&offset=${given.get("offset") || 0}`;

// Whether the page can show a state without another request: it has these rows, and the state has no open record.
const isHeld = given => listOf(given) === listed && !given.has("id") && given.get("view") !== "audit";

async function show() {
  clearTimeout(pendingSearch);
  const mine = ++turn;
  const now = state();
  const isAudit = run.has_audit && now.get("view") === "audit";
  document.body.classList.toggle("is-audit", isAudit);
  try {
    if (isAudit) {
      await showAudit(now, () => mine === turn);
      trouble(null);
      return;
    }
    const filters = filtersOf(now);
    const key = listOf(now);
    if (key !== listed) {
      const query = new URLSearchParams(filters);
      query.set("offset", now.get("offset") || 0);
      query.set("limit", PAGE_ROWS);
      const [rows, counts] = await Promise.all([fetched(`/api/rows?${query}`), fetched(`/api/counts?${filters}`)]);
      if (mine !== turn) return;
      shown = rows;
      chosen = -1;
      listed = key;
      showFacets(counts, now);
    }
    showList(now);
    await showRecord(now, mine);
    trouble(null);
  } catch (error) {
    if (mine === turn) trouble(error);
  }
}

function showList(now) {
  if (document.activeElement !== byId("q")) byId("q").value = now.get("q") || "";
  const sort = sortOf(now);
  byId("sort").value = sort.name;
  byId("descends").textContent = sort.isDown ? "↓" : "↑";
  const isTable = now.get("view") === "table";
  byId("layout").textContent = isTable ? "grid" : "table";
  byId("count").textContent = `${shown.total.toLocaleString("en")} of ${run.rows.toLocaleString("en")} records`;
  showNotKept();
  showChips(now);
  const focused = document.activeElement;
  const hadFocus = byId("rows").contains(focused);
  byId("rows").replaceChildren(isTable ? table(sort) : grid(sort));
  if (hadFocus && focused.dataset.sort) byId("rows").querySelector(`[data-sort="${CSS.escape(focused.dataset.sort)}"]`)?.focus();
  else if (hadFocus) focusChosen();
  showPages(now);
}

const focusChosen = () => byId("rows").querySelector(`[data-index="${chosen}"]`)?.focus();

function showChips(now) {
  const chips = [];
  for (const [name, value] of filtersOf(now)) {
    if (name === "sort") continue;
    const remove = () => changed(next => {
      const kept = [...next].filter(([n, v]) => !(n === name && v === value));
      for (const key of [...next.keys()]) next.delete(key);
      for (const [n, v] of kept) next.append(n, v);
    });
    chips.push(element("button", { type: "button", onclick: remove, title: "remove this filter" }, `${name === "q" ? "text" : titleOf(name)}: ${named(value)} ×`));
  }
  byId("chips").replaceChildren(...chips);
}

function thumbnail(row) {
  if (!row["has image"]) return row.set === "rejected" ? "image not opened" : "no image";
  if (row.missing) return "no image";
  const image = element("img", { src: COPY ? `images/${row.n}.jpg` : addressed(`/thumbnail/${row.n}`), alt: "", loading: "lazy" });
  image.addEventListener("error", () => image.replaceWith("no image"));
  return image;
}

const isFlagged = row => row.flagged === true || row.flagged === "true";  // a copy holds texts

function summaryOf(row) {
  const parts = [element("span", { class: `set ${row.set}` }, row.set)];
  if (isFlagged(row)) parts.unshift(element("span", { class: "flagged" }, "⚑ flagged"), " ");
  if (row.reason) parts.push(` ${row.reason}`);
  const final = row["score final"];
  if (final !== null && final !== undefined) parts.push(` · score ${numbered(final)}`);
  if (row.pass_rate !== null && row.pass_rate !== undefined) parts.push(` · pass rate ${numbered(row.pass_rate)}`);
  return parts;
}

const shortened = value => typeof value === "string" ? value.slice(0, 60) : numbered(value);

// The value by which the cards are sorted.
const sortedValue = (row, name) => element("span", { class: "sorted t" }, `${titleOf(name)}: ${shortened(row[name]) || "–"}`);

function grid(sort) {
  return element("div", { class: "grid" }, ...shown.rows.map((row, index) => element(
    "button", { type: "button", class: `card${isFlagged(row) ? " is-flagged" : ""}`, onclick: () => open(row.id), "data-index": index },
    element("span", { class: "pic" }, thumbnail(row)),
    element("span", { class: "words" }, element("span", { class: "muted" }, ...summaryOf(row)), sort.name ? sortedValue(row, sort.name) : null, element("span", { class: "q t" }, row.question || row.id), row.detail ? element("span", { class: "detail t", title: row.detail }, row.detail) : null, element("code", { class: "id t", title: row.id }, row.id)),
  )));
}

// The column by which the rows are sorted, and whether the largest value comes first; the name "" is the run's order.
function sortOf(given) {
  const sort = given.get("sort") || "";
  return { name: sort.replace(/^-/, ""), isDown: sort.startsWith("-") };
}

const sortBy = (name, isDown) => changed(next => name ? next.set("sort", `${isDown ? "-" : ""}${name}`) : next.delete("sort"));

// The head of a column in the table. A column that can be sorted by has a button: it sorts by the column, or turns the
// order if the rows are sorted by the column already.
function head(name, sort) {
  if (!run.dimensions.some(each => each.name === name)) return element("th", { scope: "col" }, name);
  const isSorted = sort.name === name;
  const direction = isSorted ? sort.isDown ? "descending" : "ascending" : null;
  const button = element("button", { type: "button", "data-sort": name, onclick: () => sortBy(name, isSorted && !sort.isDown) }, titleOf(name), isSorted ? sort.isDown ? " ↓" : " ↑" : null);
  return element("th", { scope: "col", "aria-sort": direction }, button);
}

function table(sort) {
  const isShown = name => name === sort.name || varied.has(name) && shown.rows.some(row => row[name] !== null && row[name] !== "" && row[name] !== false);
  const candidates = run.dimensions.map(each => each.name).filter(isShown);
  const data = new Set(candidates.filter(name => !MARKS.has(name)).slice(0, TABLE_COLUMNS));
  const names = candidates.filter(name => (MARKS.has(name) || data.has(name)) && name !== sort.name);
  const sorted = sort.name ? [sort.name] : [];  // beside the id, so that it is seen without scrolling
  const [places, details] = ["input row", "detail"].map(name => shown.rows.some(row => row[name]) ? [name] : []);
  const short = row => name => element("td", { class: "short t" }, shortened(row[name]));
  const rows = shown.rows.map((row, index) => element(
    "tr", { tabindex: 0, onclick: () => open(row.id), "data-index": index, class: isFlagged(row) ? "is-flagged" : "" },
    element("td", {}, element("code", { class: "id t", title: row.id }, row.id)), ...sorted.map(short(row)), ...places.map(name => element("td", { class: "short t" }, row[name] || "")), element("td", { class: "t words" }, (row.question || "").slice(0, 300)), element("td", { class: "t" }, (row.answer || "").slice(0, 100)),
    ...details.map(name => element("td", { class: "t words" }, (row[name] || "").slice(0, 300))), ...names.map(short(row)),
  ));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...["id", ...sorted, ...places, "question", "answer", ...details, ...names].map(name => head(name, sort)))), element("tbody", {}, ...rows)));
}

function showPages(now) {
  const offset = Number(now.get("offset") || 0);
  const to = step => changed(next => {
    const at = Math.max(Number(next.get("offset") || 0) + step, 0);
    at ? next.set("offset", at) : next.delete("offset");
  }, true);
  const last = Math.min(offset + PAGE_ROWS, shown.total);
  if (offset === 0 && last >= shown.total) {
    byId("pages").replaceChildren(shown.total ? "" : "no rows");
    return;
  }
  byId("pages").replaceChildren(
    element("button", { type: "button", disabled: offset === 0, onclick: () => to(-PAGE_ROWS) }, "previous page"),
    shown.total ? `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")}` : "no rows",
    element("button", { type: "button", disabled: last >= shown.total, onclick: () => to(PAGE_ROWS) }, "next page"),
  );
}

// Counts the filtered rows again, because a mark has changed. The counts are shown if no later ones were requested and the
// filters are still the same.
async function showCounts() {
  const mine = ++counting;
  const filters = filtersOf(state()).toString();
  const counts = await fetched(`/api/counts?${filters}`);
  if (mine === counting && filters === filtersOf(state()).toString()) showFacets(counts, state());
}

function showFacets(counts, now) {
  for (const [name, count] of Object.entries(counts)) if (Array.isArray(count) ? count.length > 1 : count.low < count.high) varied.add(name);
  const parts = [];
  for (const dimension of run.dimensions) {
    const count = counts[dimension.name];
    const isOn = now.has(dimension.name);
    if (dimension.is_number) {
      if (isOn || count.low < count.high && count.rows.some(each => each)) parts.push(element("h2", { title: run.meanings[dimension.name] }, titleOf(dimension.name)), ...histogram(dimension.name, count, now));
    } else if (isOn || count.length > 1 || dimension.name === "set") {
      parts.push(element("h2", { title: run.meanings[dimension.name] }, titleOf(dimension.name)), ...classes(dimension.name, count, now));
    }
  }
  byId("facets").replaceChildren(...parts);
}

function classes(name, count, now) {
  const wanted = new Set(now.getAll(name));
  const most = Math.max(1, ...count.map(([, rows]) => rows));
  const missing = [...wanted].filter(value => !count.some(([each]) => each === value)).map(value => [value, 0]);
  return [...count, ...missing].map(([value, rows]) => {
    const bar = element("span", { class: "bar" });
    bar.style.width = `${100 * rows / most}%`;
    const toggle = () => changed(next => {
      const left = next.getAll(name).filter(each => each !== value);
      next.delete(name);
      left.forEach(each => next.append(name, each));
      if (!wanted.has(value)) next.append(name, value);
    });
    return element("button", { type: "button", class: "class", "aria-pressed": String(wanted.has(value)), onclick: toggle, title: named(value) }, bar, element("span", {}, named(value)), element("span", {}, rows.toLocaleString("en")));
  });
}

// The bars of a column of numbers. A click on a bar filters by the lowest and the highest value of its rows in the run, so
// that exactly the rows of the bar pass.
function histogram(name, bins, now) {
  const most = Math.max(1, ...bins.rows);
  const given = now.get(name) || "..";
  const [low, high] = given.includes("..") ? given.split("..") : [given, given];
  const set = (from, to) => changed(next => from === "" && to === "" ? next.delete(name) : next.set(name, `${from}..${to}`));
  const bars = bins.rows.map((rows, index) => {
    const bar = element("i");
    bar.style.height = `${100 * rows / most}%`;
    const span = bins.spans[index];
    if (!span) return element("button", { type: "button", disabled: true, "aria-label": `${name}: no rows` }, bar);
    const [first, last] = span.map(String);
    const isOn = now.has(name) && Number(low || -Infinity) <= span[0] && span[1] <= Number(high || Infinity);
    return element("button", { type: "button", "aria-pressed": String(isOn), title: `${first} to ${last}: ${rows}`, "aria-label": `${name} ${first} to ${last}: ${rows} rows`, onclick: () => isOn ? set("", "") : set(first, last) }, bar);
  });
  const from = element("input", { value: low, inputmode: "decimal", "aria-label": `${name} from`, placeholder: "from" });
  const to = element("input", { value: high || "", inputmode: "decimal", "aria-label": `${name} to`, placeholder: "to" });
  for (const input of [from, to]) input.addEventListener("change", () => set(from.value.trim(), to.value.trim()));
  return [
    element("div", { class: "bins" }, ...bars),
    element("div", { class: "ends" }, element("span", {}, numbered(bins.low)), element("span", {}, bins.missing ? `${bins.missing.toLocaleString("en")} without` : ""), element("span", {}, numbered(bins.high))),
    element("div", { class: "range" }, from, to),
  ];
}
