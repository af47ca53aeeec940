// The page of `beam view`. The address holds the whole state: filters, order, layout, page and open record.
// Every text of a row becomes a text node: nothing that a model or a file wrote is read as HTML.
"use strict";

const OWN = new Set(["offset", "limit", "id", "view"]);
const PAGE_ROWS = 48;
const TABLE_COLUMNS = 10;
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

const state = () => new URLSearchParams(COPY ? location.hash.slice(1) : location.search);
const filtersOf = given => new URLSearchParams([...given].filter(([name]) => !OWN.has(name)));
const numbered = value => value === null || value === undefined ? "" : typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(3) : String(value);
const named = value => value === "" ? "(no value)" : value;

async function fetched(path, options) {
  if (COPY) return copied(path);
  const response = await fetch(path, options);
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

function trouble(error) {
  byId("trouble").textContent = error ? (error.message || String(error)) : "";
  byId("trouble").hidden = !error;
}

function go(next, replaces = false) {
  const text = next.toString();
  if (COPY) {
    location.hash = text;  // the event shows the new state
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

// Requests of an earlier state that arrive late are dropped.
let turn = 0;
let listed = null;

async function show() {
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
    const key = `${filters}&offset=${now.get("offset") || 0}`;
    if (key !== listed) {
      const query = new URLSearchParams(filters);
      query.set("offset", now.get("offset") || 0);
      query.set("limit", PAGE_ROWS);
      const [rows, counts] = await Promise.all([fetched(`/api/rows?${query}`), fetched(`/api/counts?${filters}`)]);
      if (mine !== turn) return;
      shown = rows;
      chosen = -1;
      listed = key;
      for (const [name, count] of Object.entries(counts)) if (Array.isArray(count) ? count.length > 1 : count.low < count.high) varied.add(name);
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
  byId("q").value = now.get("q") || "";
  const sort = now.get("sort") || "";
  byId("sort").value = sort.replace(/^-/, "");
  byId("descends").textContent = sort.startsWith("-") ? "↓" : "↑";
  const isTable = now.get("view") === "table";
  byId("layout").textContent = isTable ? "grid" : "table";
  byId("count").textContent = `${shown.total.toLocaleString("en")} of ${run.rows.toLocaleString("en")} records`;
  showChips(now);
  byId("rows").replaceChildren(isTable ? table() : grid());
  showPages(now);
}

function showChips(now) {
  const chips = [];
  for (const [name, value] of filtersOf(now)) {
    if (name === "sort") continue;
    const remove = () => changed(next => {
      const kept = [...next].filter(([n, v]) => !(n === name && v === value));
      for (const key of [...next.keys()]) next.delete(key);
      for (const [n, v] of kept) next.append(n, v);
    });
    chips.push(element("button", { type: "button", onclick: remove, title: "remove this filter" }, `${name === "q" ? "text" : name}: ${named(value)} ×`));
  }
  byId("chips").replaceChildren(...chips);
}

function thumbnail(row) {
  if (row.missing) return "no image";
  const image = element("img", { src: COPY ? `images/${row.n}.jpg` : `/thumbnail/${row.n}`, alt: "", loading: "lazy" });
  image.addEventListener("error", () => image.replaceWith("no image"));
  return image;
}

function summaryOf(row) {
  const parts = [element("span", { class: `set ${row.set}` }, row.set)];
  if (row.reason) parts.push(` ${row.reason}`);
  const final = row["score final"];
  if (final !== null && final !== undefined) parts.push(` · ${numbered(final)}`);
  if (row.pass_rate !== null && row.pass_rate !== undefined) parts.push(` · pass rate ${numbered(row.pass_rate)}`);
  return parts;
}

function grid() {
  return element("div", { class: "grid" }, ...shown.rows.map((row, index) => element(
    "button", { type: "button", class: `card${row.flagged === true || row.flagged === "true" ? " is-flagged" : ""}`, onclick: () => open(row.id), "data-index": index },
    element("span", { class: "pic" }, thumbnail(row)),
    element("span", { class: "words" }, element("span", { class: "muted" }, ...summaryOf(row)), element("span", { class: "q t" }, row.question || row.detail || row.id)),
  )));
}

function table() {
  const names = run.dimensions.map(each => each.name).filter(name => varied.has(name) && shown.rows.some(row => row[name] !== null && row[name] !== "" && row[name] !== false)).slice(0, TABLE_COLUMNS);
  const head = element("tr", {}, ...["id", "question", "answer", ...names].map(name => element("th", { scope: "col" }, name)));
  const rows = shown.rows.map((row, index) => element(
    "tr", { tabindex: 0, onclick: () => open(row.id), "data-index": index, class: row.flagged ? "is-flagged" : "" },
    element("td", {}, element("code", { class: "t" }, row.id)), element("td", { class: "t words" }, (row.question || "").slice(0, 300)), element("td", { class: "t" }, (row.answer || "").slice(0, 100)),
    ...names.map(name => element("td", { class: "short t" }, typeof row[name] === "string" ? row[name].slice(0, 60) : numbered(row[name]))),
  ));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function showPages(now) {
  const offset = Number(now.get("offset") || 0);
  const to = step => changed(next => {
    const at = Math.max(Number(next.get("offset") || 0) + step, 0);
    at ? next.set("offset", at) : next.delete("offset");
  }, true);
  const last = Math.min(offset + PAGE_ROWS, shown.total);
  byId("pages").replaceChildren(
    element("button", { type: "button", disabled: offset === 0, onclick: () => to(-PAGE_ROWS) }, "previous page"),
    shown.total ? `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")}` : "no rows",
    element("button", { type: "button", disabled: last >= shown.total, onclick: () => to(PAGE_ROWS) }, "next page"),
  );
}

function showFacets(counts, now) {
  const parts = [];
  for (const dimension of run.dimensions) {
    const count = counts[dimension.name];
    const isOn = now.has(dimension.name);
    if (dimension.is_number) {
      if (isOn || count.low < count.high && count.rows.some(each => each)) parts.push(element("h2", { title: run.meanings[dimension.name] }, dimension.name), ...histogram(dimension.name, count, now));
    } else if (isOn || count.length > 1 || dimension.name === "set") {
      parts.push(element("h2", { title: run.meanings[dimension.name] }, dimension.name), ...classes(dimension.name, count, now));
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

function histogram(name, bins, now) {
  const most = Math.max(1, ...bins.rows);
  const width = (bins.high - bins.low) / bins.rows.length;
  const [low, high] = (now.get(name) || "..").split("..");
  const set = (from, to) => changed(next => from === "" && to === "" ? next.delete(name) : next.set(name, `${from}..${to}`));
  const edge = index => String(Number((bins.low + index * width).toPrecision(6)));
  const bars = bins.rows.map((rows, index) => {
    const bar = element("i");
    bar.style.height = `${100 * rows / most}%`;
    const isOn = now.has(name) && Number(low || -Infinity) <= Number(edge(index)) + 1e-9 && Number(edge(index + 1)) - 1e-9 <= Number(high || Infinity);
    return element("button", { type: "button", "aria-pressed": String(isOn), title: `${edge(index)} to ${edge(index + 1)}: ${rows}`, "aria-label": `${name} ${edge(index)} to ${edge(index + 1)}: ${rows} rows`, onclick: () => isOn ? set("", "") : set(edge(index), edge(index + 1)) }, bar);
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

// One record ------------------------------------------------------------------------------------------------------

const open = id => changed(next => next.set("id", id), true);
const close = () => changed(next => next.delete("id"), true);

async function showRecord(now, mine) {
  const dialog = byId("record");
  const id = now.get("id");
  endReplay();
  if (id === null) {
    current = null;
    if (dialog.open) dialog.close();
    return;
  }
  const query = filtersOf(now);
  query.set("id", id);
  const record = await fetched(`/api/record?${query}`);
  if (mine !== turn) return;
  current = record;
  const viewer = new Viewer(record);
  byId("record-body").replaceChildren(bar(record), element("div", { class: "two" }, left(viewer), element("div", {}, right(record), facts(record, viewer))));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

function bar(record) {
  const where = record.position === null ? "not among the filtered rows" : `${record.position.toLocaleString("en")} of ${record.total.toLocaleString("en")}`;
  return element("div", { class: "bar-top" },
    element("span", { class: `set ${record.set}` }, record.set),
    element("code", { class: "t" }, record.id),
    element("span", { class: "muted" }, where),
    element("span", { class: "push row" },
      element("button", { type: "button", disabled: record.before === null, onclick: () => open(record.before), title: "k" }, "previous"),
      element("button", { type: "button", disabled: record.after === null, onclick: () => open(record.after), title: "j" }, "next"),
      COPY ? null : element("button", { type: "button", id: "flag", "aria-pressed": String(record.mark.flagged), onclick: flag, title: "f" }, record.mark.flagged ? "flagged" : "flag"),
      element("button", { type: "button", onclick: close, title: "Esc" }, "close")));
}

function left(viewer) {
  return element("div", {}, viewer.record.images.length ? viewer.box : element("p", { class: "muted" }, "This record has no image."));
}

async function problemOf(address) {
  const response = await fetch(address);
  return response.ok ? "this browser cannot show it" : response.text();
}

const addressOf = (record, image) => image.address ? image.address : COPY ? image.file || "" : `/image/${record.n}/${image.column}/${image.index}`;

// Shows one image at a time with its layers of marks; wheel and drag zoom and pan.
class Viewer {
  constructor(record) {
    this.record = record;
    this.layers = [];
    const best = record.traces[0];
    if (best && best.marks.length) this.layers.push({ name: "trace", marks: best.marks, on: true });
    if (record.gold.length) this.layers.push({ name: "gold", marks: record.gold, on: !best || !best.marks.length });
    if (record.pointed.length) this.layers.push({ name: "pointer", marks: record.pointed, on: !best || !best.marks.length });
    const other = record.other && record.other.traces[0];
    if (other && other.marks.length) this.layers.push({ name: "other", marks: other.marks, on: false });
    const tried = record.attempts.flatMap(each => each.marks);
    if (tried.length) this.layers.push({ name: "attempt", marks: tried, on: false });
    this.stage = element("div", { class: "stage", tabindex: 0, role: "img", "aria-label": "image with marks; + and - zoom, 0 fits" });
    this.moved = element("div", { class: "moved" });
    this.stage.append(this.moved);
    this.strip = element("div", { class: "strip" }, ...record.images.map((each, index) => this.choice(each, index)));
    this.switches = element("div", { class: "layers" });
    this.showSwitches();
    this.box = element("div", {}, this.stage, this.switches, record.images.length > 1 ? this.strip : null);
    const frames = record.images.findIndex(each => each.frame !== null && this.layers.some(layer => layer.on && layer.marks.some(mark => mark.frame === each.frame && mark.media_index === each.media_index)));
    if (record.images.length) this.choose(Math.max(frames, 0));
    this.listen();
  }

  choice(image, index) {
    const button = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.choose(index) });
    if (this.record.images.length > 1) button.append(element("img", { src: this.address(image), alt: "", loading: "lazy" }), element("span", { class: "t" }, image.caption));
    return button;
  }

  address(image) {
    return addressOf(this.record, image);
  }

  // Further layers: each has a name (its class), a title of its switch, its marks, and whether it is on.
  add(layers) {
    this.layers.push(...layers);
    this.showSwitches();
    this.draw();
  }

  showSwitches() {
    const made = this.layers.map(layer => {
      const box = element("input", { type: "checkbox", checked: layer.on, onchange: event => { layer.on = event.target.checked; this.draw(); } });
      return element("label", {}, box, " ", element("i", { class: `colour ${layer.name}` }), ` ${layer.title || layer.name} (${layer.marks.length})`);
    });
    const zoom = by => this.zoom(by, this.stage.clientWidth / 2, this.stage.clientHeight / 2);
    this.switches.replaceChildren(...made, element("button", { type: "button", onclick: () => zoom(1.4), "aria-label": "zoom in" }, "+"), element("button", { type: "button", onclick: () => zoom(1 / 1.4), "aria-label": "zoom out" }, "−"), element("button", { type: "button", onclick: () => this.fit() }, "fit"));
  }

  choose(index) {
    const shown = this.record.images[index];
    this.shown = shown;
    [...this.strip.children].forEach((each, at) => each.setAttribute("aria-pressed", String(at === index)));
    const image = element("img", { alt: shown.caption });
    image.addEventListener("load", () => {
      if (this.shown !== shown || !this.stage.clientWidth) return;  // another one was chosen, or the record was closed
      this.image = image;
      this.moved.replaceChildren(image);
      this.stage.replaceChildren(this.moved);
      this.fit();
      this.draw();
    });
    image.addEventListener("error", async () => {
      const why = COPY ? shown.missing || "this browser cannot show it" : await problemOf(image.src);
      if (this.shown !== shown) return;
      this.image = null;
      this.stage.replaceChildren(element("p", { class: "muted" }, `${shown.caption}: ${why}`));
    });
    image.src = this.address(shown);
  }

  fit() {
    if (!this.image) return;
    this.scale = Math.min(this.stage.clientWidth / this.image.naturalWidth, this.stage.clientHeight / this.image.naturalHeight);
    this.left = (this.stage.clientWidth - this.image.naturalWidth * this.scale) / 2;
    this.top = (this.stage.clientHeight - this.image.naturalHeight * this.scale) / 2;
    this.place();
  }

  zoom(by, x, y) {
    if (!this.image) return;
    const next = Math.min(Math.max(this.scale * by, .02), 60);
    this.left = x - (x - this.left) * next / this.scale;
    this.top = y - (y - this.top) * next / this.scale;
    this.scale = next;
    this.place();
  }

  place() {
    this.moved.style.setProperty("--scale", this.scale);  // by which the style divides the widths of lines
    this.moved.style.transform = `translate(${this.left}px, ${this.top}px) scale(${this.scale})`;
    this.image.classList.toggle("pixels", this.scale > 3);
    this.resize();
  }

  listen() {
    let from = null;
    this.stage.addEventListener("wheel", event => {
      event.preventDefault();
      const box = this.stage.getBoundingClientRect();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    this.stage.addEventListener("pointerdown", event => { from = [event.clientX - this.left, event.clientY - this.top]; this.stage.setPointerCapture(event.pointerId); });
    this.stage.addEventListener("pointermove", event => {
      if (!from || !this.image) return;
      [this.left, this.top] = [event.clientX - from[0], event.clientY - from[1]];
      this.place();
    });
    for (const end of ["pointerup", "pointercancel"]) this.stage.addEventListener(end, () => { from = null; });
    this.stage.addEventListener("keydown", event => {
      const by = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 }[event.key];
      if (by) this.zoom(by, this.stage.clientWidth / 2, this.stage.clientHeight / 2);
      if (event.key === "0") this.fit();
    });
    this.stage.addEventListener("pointerover", event => event.target.dataset && light(event.target.dataset.mark, true));
    this.stage.addEventListener("pointerout", event => event.target.dataset && light(event.target.dataset.mark, false));
  }

  // Draws the marks of the layers that are on; an overlay has its marks drawn in.
  draw() {
    this.moved.querySelector("svg")?.remove();
    if (!this.image || this.shown.kind === "overlay" || this.shown.kind === "code") return;
    const svg = drawn("svg", { width: this.image.naturalWidth, height: this.image.naturalHeight });
    const kinds = ["mask", "box", "point"];  // points are above boxes, whose inner parts let the pointer through
    for (const kind of kinds) for (const layer of this.layers.filter(each => each.on)) {
      for (const mark of layer.marks.filter(each => each.kind === kind)) {
        if (mark.media_index !== this.shown.media_index || (mark.frame ?? null) !== this.shown.frame) continue;
        const about = { class: `mark ${layer.name}${mark.off ? " off" : ""}`, "data-mark": `${layer.name}-${mark.kind}-${mark.n}`, "pointer-events": kind === "box" ? "stroke" : "all" };
        const title = drawn("title", {}, `${mark.n} ${mark.label || ""}${mark.off ? ": off its object" : ""}${mark.step_px > 1 ? `: drawn in steps of ${mark.step_px} px` : ""}`);
        svg.append(...SHAPES[kind](mark, about, title));
      }
    }
    this.moved.append(svg);
    this.resize();
  }

  // Marks keep their size on the screen at every zoom.
  resize() {
    for (const point of this.moved.querySelectorAll("circle")) point.setAttribute("r", point.dataset.r / this.scale);
    for (const text of this.moved.querySelectorAll("text")) {
      text.setAttribute("font-size", 12 / this.scale);
      text.style.fontSize = `${12 / this.scale}px`;
      text.style.strokeWidth = `${3 / this.scale}px`;
      text.setAttribute("x", Number(text.dataset.x) + 8 / this.scale);
      text.setAttribute("y", Number(text.dataset.y) - 6 / this.scale);
    }
  }
}

const SHAPES = {
  point: (mark, about, title) => [drawn("circle", { ...about, cx: mark.x, cy: mark.y, r: 7, "data-r": 7 }, title), drawn("text", { class: "number", x: mark.x, y: mark.y, "data-x": mark.x, "data-y": mark.y }, String(mark.n))],
  box: (mark, about, title) => [drawn("rect", { ...about, x: Math.min(mark.x1, mark.x2), y: Math.min(mark.y1, mark.y2), width: Math.abs(mark.x2 - mark.x1), height: Math.abs(mark.y2 - mark.y1) }, title)],
  mask: (mark, about, title) => [drawn("path", { ...about, "fill-rule": "evenodd", d: mark.rings.map(ring => `M${ring.join(" ")}Z`).join("") }, title)],
};

function light(name, isOn) {
  if (!name) return;
  for (const each of document.querySelectorAll(`[data-mark="${CSS.escape(name)}"]`)) each.classList.toggle("lit", isOn);
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
  const numbers = marks.map(mark => element("sup", { title: mark.at, "data-mark": mark.name, onpointerenter: () => light(mark.name, true), onpointerleave: () => light(mark.name, false) }, String(mark.n)));
  const all = isOn => marks.forEach(mark => light(mark.name, isOn));
  return element("span", { class: `tag ${kind}`, tabindex: 0, onpointerenter: () => all(true), onpointerleave: () => all(false), onfocus: () => all(true), onblur: () => all(false) }, words, ...numbers);
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
  const parts = [];
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
  const texts = there.turns.length ? there.turns.map(each => text(each, "other")) : there.traces.map((trace, index) => text(trace, index ? `there${index}` : "other"));
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
  return element("section", { class: "facts" }, element("h3", {}, "facts"), element("dl", {}, ...pairs), COPY ? null : repliesOf(record), run.has_replay ? replayOf(record, viewer) : null);
}

// The replies of models that made the record; they are read from the run's cache when the list is opened.
function repliesOf(record) {
  const list = element("div", { class: "replies" });
  const box = element("details", {}, element("summary", {}, "replies of models"), list);
  box.addEventListener("toggle", async () => {
    if (!box.open || list.childElementCount) return;
    try {
      const found = await fetched(`/api/replies?${new URLSearchParams({ id: record.id })}`);
      const missing = found.keys - found.replies.length;
      list.replaceChildren(...found.replies.map(reply), element("p", { class: "muted" }, missing ? `${missing} of ${found.keys} replies are not in the run's cache.` : `All ${found.keys} replies are shown.`));
    } catch (error) {
      list.replaceChildren(element("p", { class: "muted t" }, error.message));
    }
  });
  return box;
}

function reply(each) {
  const taken = each.taken_from ? ` · taken over from ${each.taken_from} at ${each.taken_at}` : "";
  const about = `${each.role} · ${each.prompt} · ${each.model} · ${each.tokens_in} tokens in, ${each.tokens_out} out · made ${each.created || "at an unknown time"}${taken}${each.finish_reason === "stop" ? "" : ` · ${each.finish_reason}`}`;
  return element("div", {}, element("p", { class: "muted t" }, about), element("p", { class: "muted" }, element("code", {}, each.key)),
    each.reasoning ? element("details", {}, element("summary", { class: "muted" }, "reasoning"), element("pre", { class: "t" }, each.reasoning)) : null,
    element("pre", { class: "t" }, each.text || "(empty)"), each.is_shortened ? element("p", { class: "muted" }, "The text is shortened.") : null);
}

// Marks of the reviewer -------------------------------------------------------------------------------------------

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

const quoted = word => `'${word.replaceAll("'", "'\\''")}'`;

// Keys ------------------------------------------------------------------------------------------------------------

function choose(step) {
  const rows = [...byId("rows").querySelectorAll("[data-index]")];
  if (!rows.length) return;
  chosen = Math.min(Math.max(chosen + step, 0), rows.length - 1);
  rows[chosen].focus();
}

function onKey(event) {
  const isTyping = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "checkbox";
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
  const key = event.key;
  if (document.body.classList.contains("is-audit")) onAuditKey(key);
  else if (key === "/") { event.preventDefault(); if (!current) byId("q").focus(); }
  else if (key === "j" || key === "ArrowRight" && current) current ? current.after !== null && open(current.after) : choose(1);
  else if (key === "k" || key === "ArrowLeft" && current) current ? current.before !== null && open(current.before) : choose(-1);
  else if (key === "f") {
    const row = shown.rows[chosen];
    if (current) flag();
    else if (row) mark([row], { flagged: !row.flagged });
  } else if (key === "Enter" && event.target.tagName === "TR") open(shown.rows[event.target.dataset.index].id);
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
  byId("sort").append(element("option", { value: "" }, "the run's order"), ...run.dimensions.map(each => element("option", { value: each.name }, each.name)));
  byId("home").addEventListener("click", event => { event.preventDefault(); go(new URLSearchParams()); });
  byId("search").addEventListener("submit", event => { event.preventDefault(); changed(next => byId("q").value.trim() ? next.set("q", byId("q").value.trim()) : next.delete("q")); });
  const sort = isDown => changed(next => byId("sort").value ? next.set("sort", (isDown ? "-" : "") + byId("sort").value) : next.delete("sort"));
  byId("sort").addEventListener("change", () => sort((state().get("sort") || "").startsWith("-")));
  byId("descends").addEventListener("click", () => sort(!(state().get("sort") || "").startsWith("-")));
  byId("layout").addEventListener("click", () => changed(next => next.get("view") === "table" ? next.delete("view") : next.set("view", "table"), true));
  byId("flag-all").addEventListener("click", flagAll);
  byId("ids").addEventListener("click", () => { location.href = `/api/ids?${filtersOf(state())}`; });
  byId("copy").addEventListener("click", copyLink);
  byId("facets-open").addEventListener("click", event => event.target.setAttribute("aria-expanded", String(byId("facets").classList.toggle("open"))));
  byId("record").addEventListener("cancel", event => { event.preventDefault(); close(); });
  for (const name of ["flag-all", "ids", "copy"]) byId(name).hidden = Boolean(COPY);
  byId("audit").hidden = !run.has_audit;
  byId("audit").addEventListener("click", () => go(new URLSearchParams("view=audit")));
  document.addEventListener("keydown", onKey);
  window.addEventListener(COPY ? "hashchange" : "popstate", show);
  await show();
}

window.addEventListener("DOMContentLoaded", start);
