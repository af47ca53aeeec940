// The images of a record, with the marks of points, boxes and masks on them.
"use strict";

async function problemOf(address) {
  const response = await fetch(address);
  return response.ok ? "this browser cannot show it" : response.text();
}

const addressOf = (record, image) => image.address ? addressed(image.address) : COPY ? image.file || "" : addressed(`/image/${record.n}/${image.column}/${image.index}`);

let viewer = null;  // of the record that is shown

// Marks with the names by which the words of a text light them.
const namedMarks = (marks, text) => marks.map(mark => ({ ...mark, name: `${text}-${mark.kind}-${mark.n}` }));
const marksOf = (record, text) => namedMarks(record.turns.length ? record.turns.flatMap(each => each.marks) : record.traces.length ? record.traces[0].marks : [], text);
const furtherMarks = (record, text) => record.turns.length ? [] : record.traces.slice(1).flatMap((each, index) => namedMarks(each.marks, `${text}${index + 1}`));
const nameOf = (layer, mark) => mark.name || `${layer.name}-${mark.kind}-${mark.n}`;

// Shows one image at a time with its layers of marks; wheel and drag zoom and pan.
class Viewer {
  constructor(record) {
    viewer = this;
    this.record = record;
    this.layers = [];
    this.areHidden = false;
    this.revealed = new Set();  // the names of marks that are drawn although their layer is off
    const best = marksOf(record, "trace");
    if (best.length) this.layers.push({ name: "trace", marks: best, on: true });
    const rest = furtherMarks(record, "other");
    if (rest.length) this.layers.push({ name: "rest", title: "other traces", marks: rest, on: false });
    if (record.gold.length) this.layers.push({ name: "gold", marks: record.gold, on: !best.length });
    if (record.pointed.length) this.layers.push({ name: "pointer", marks: record.pointed, on: !best.length });
    const there = record.other ? [...marksOf(record.other, "there0"), ...furtherMarks(record.other, "there")] : [];
    if (there.length) this.layers.push({ name: "other", title: "other run", marks: there, on: false });
    const tried = record.attempts.flatMap((each, index) => namedMarks(each.marks, `attempt${index}`));
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
    const hide = element("button", { type: "button", "aria-pressed": String(this.areHidden), onclick: () => this.toggleMarks(), title: "m" }, "hide marks");
    this.switches.replaceChildren(...made, this.layers.length ? hide : "", element("button", { type: "button", onclick: () => zoom(1.4), "aria-label": "zoom in" }, "+"), element("button", { type: "button", onclick: () => zoom(1 / 1.4), "aria-label": "zoom out" }, "−"), element("button", { type: "button", onclick: () => this.fit() }, "fit"));
  }

  // Shows marks of layers that are off as long as the words about them are lit.
  reveal(names, isOn) {
    const isOff = name => this.layers.some(layer => !layer.on && layer.marks.some(mark => nameOf(layer, mark) === name));
    const changed = names.filter(name => this.revealed.has(name) !== isOn && (!isOn || isOff(name)));
    if (!changed.length) return;
    for (const name of changed) this.revealed[isOn ? "add" : "delete"](name);
    this.draw();
  }

  // A mark can cover a small object, so all marks can be hidden for a moment.
  toggleMarks() {
    this.areHidden = !this.areHidden;
    this.showSwitches();
    this.draw();
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
    if (!this.image || this.areHidden || this.shown.kind === "overlay" || this.shown.kind === "code") return;
    const svg = drawn("svg", { width: this.image.naturalWidth, height: this.image.naturalHeight });
    const kinds = ["mask", "box", "point"];  // points are above boxes, whose inner parts let the pointer through
    for (const kind of kinds) for (const layer of this.layers) {
      for (const mark of layer.marks.filter(each => each.kind === kind && (layer.on || this.revealed.has(nameOf(layer, each))))) {
        if (mark.media_index !== this.shown.media_index || (mark.frame ?? null) !== this.shown.frame) continue;
        const about = { class: `mark ${layer.name}${mark.off ? " off" : ""}`, "data-mark": nameOf(layer, mark), "pointer-events": kind === "box" ? "stroke" : "all" };
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
    for (const path of this.moved.querySelectorAll("path.cross")) path.setAttribute("transform", `translate(${path.dataset.x} ${path.dataset.y}) scale(${1 / this.scale})`);
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
  point: (mark, about, title) => [drawn("circle", { ...about, cx: mark.x, cy: mark.y, r: 7, "data-r": 7 }, title), ...(mark.off ? cross(mark) : []), drawn("text", { class: "number", x: mark.x, y: mark.y, "data-x": mark.x, "data-y": mark.y }, String(mark.n))],
  box: (mark, about, title) => [drawn("rect", { ...about, x: Math.min(mark.x1, mark.x2), y: Math.min(mark.y1, mark.y2), width: Math.abs(mark.x2 - mark.x1), height: Math.abs(mark.y2 - mark.y1) }, title)],
  mask: (mark, about, title) => [drawn("path", { ...about, "fill-rule": "evenodd", d: mark.rings.map(ring => `M${ring.join(" ")}Z`).join("") }, title)],
};

// The cross on a point that is off its object: white lines with black edges, which are visible on every colour.
function cross(mark) {
  return ["edge", "core"].map(part => drawn("path", { class: `cross ${part}`, d: "M-5-5L5 5M5-5L-5 5", "data-x": mark.x, "data-y": mark.y, "pointer-events": "none" }));
}

function light(names, isOn) {
  const given = [names].flat().filter(Boolean);
  viewer?.reveal(given, isOn);
  for (const name of given) for (const each of document.querySelectorAll(`[data-mark="${CSS.escape(name)}"]`)) each.classList.toggle("lit", isOn);
}
