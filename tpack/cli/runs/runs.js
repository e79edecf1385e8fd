"use strict";
// Curves and tables of runs, for the page in a file and for the served one. A run is {label, number, config, versions}
// and more; its number decides its colour.
const colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
const dashes = ["", "6 3", "2 3", "7 3 2 3"];
const [W, H, LEFT, RIGHT, TOP, BOTTOM] = [420, 240, 56, 8, 8, 24];

function make(parent, name, attributes = {}, text = null) {
  const isSvg = ["svg", "path", "line", "text", "rect", "circle"].includes(name);
  const node = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}
const colourOf = number => colours[number % colours.length];
const dashOf = number => dashes[Math.floor(number / colours.length) % dashes.length];
function makeMark(parent, number) { make(parent, "span", {class: "mark"}).style.background = colourOf(number); }
const brief = value => value === null ? "not finite" : String(Number(value.toPrecision(5)));

function ticks(low, high, count, least = 0) {
  const raw = Math.max((high - low) / count, least), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(k => k >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k++) found.push(k * step);
  return found;
}
function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  if (low === high) { const pad = Math.abs(low) * 0.05 || 1; low -= pad; high += pad; }
  return [low, high];
}

// A statistic of several runs.
// view: {axis, zoom, isLog}, which all panels of a page share; curvesOf(stat): [{label, number, points: [[x, y]]}] of the
// shown runs, with null for values that are not finite; zoomed(): called when view.zoom has changed.
class Panel {
  constructor(parent, stat, view, curvesOf, zoomed) {
    [this.stat, this.view, this.fromX] = [stat, view, null];
    this.node = make(parent, "div", {class: "panel"});
    make(this.node, "b", {}, stat);
    this.svg = make(this.node, "svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": stat});
    this.value = make(this.node, "div", {class: "value"});
    this.curvesOf = () => curvesOf(stat).map(curve => ({...curve, points: curve.points.filter(([x]) => x !== null)
      .map(([x, y]) => [x, y === null || (view.isLog && y <= 0) ? null : y])}));
    let from = null;
    this.svg.addEventListener("pointerdown", event => {
      from = this.place(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", event => {
      const at = this.place(event);
      if (!this.fromX) return;
      if (from !== null) {
        this.box.setAttribute("x", Math.min(from, at));
        this.box.setAttribute("width", Math.abs(at - from));
      }
      this.tell(this.fromX(at));
    });
    this.svg.addEventListener("pointerup", event => {
      const at = this.place(event), began = from;
      from = null;
      if (began === null || Math.abs(at - began) < 4 || !this.fromX) return;
      view.zoom = [this.fromX(Math.min(at, began)), this.fromX(Math.max(at, began))];
      zoomed();
    });
    this.svg.addEventListener("dblclick", () => { view.zoom = null; zoomed(); });
  }
  place(event) {
    const box = this.svg.getBoundingClientRect();
    return Math.min(W - RIGHT, Math.max(LEFT, (event.clientX - box.left) / box.width * W));
  }
  tell(x) {
    this.value.textContent = this.curvesOf().filter(curve => curve.points.length).map(curve => {
      const near = curve.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      return `${curve.label}: ${brief(near[1])} at ${this.view.axis} ${near[0]}`;
    }).join("; ");
  }
  draw() {
    const svg = this.svg, curves = this.curvesOf(), {zoom, isLog} = this.view;
    svg.replaceChildren();
    this.fromX = null;
    const xs = curves.flatMap(curve => curve.points.map(([x]) => x));
    if (!xs.length) {
      make(svg, "text", {x: W / 2, y: H / 2, "text-anchor": "middle"}, "nothing to show");
      return;
    }
    const scaled = y => isLog ? Math.log10(y) : y, unscaled = y => isLog ? 10 ** y : y;
    const [x0, x1] = zoom || range(xs);
    const seen = curves.flatMap(curve => curve.points.filter(([x, y]) => y !== null && x >= x0 && x <= x1)
      .map(([, y]) => scaled(y)));
    const [low, high] = range(seen.length ? seen : [0]);
    const pad = (high - low) * 0.06, [y0, y1] = [low - pad, high + pad];
    const toX = x => LEFT + (x - x0) / (x1 - x0) * (W - LEFT - RIGHT);
    const toY = y => H - BOTTOM - (scaled(y) - y0) / (y1 - y0) * (H - TOP - BOTTOM);
    this.fromX = px => x0 + (px - LEFT) / (W - LEFT - RIGHT) * (x1 - x0);
    for (const y of ticks(y0, y1, 4, isLog && y1 - y0 > 1 ? 1 : 0).map(unscaled)) {
      make(svg, "line", {x1: LEFT, x2: W - RIGHT, y1: toY(y), y2: toY(y), stroke: "#ddd"});
      make(svg, "text", {x: LEFT - 5, y: toY(y) + 4, "text-anchor": "end", "font-size": 11, fill: "#555"}, brief(y));
    }
    for (const x of ticks(x0, x1, 5)) {
      // What would be cut off at the right edge ends there.
      const text = brief(x), isCut = toX(x) + 3.5 * text.length > W - 1;
      make(svg, "text", {x: isCut ? W - 1 : toX(x), y: H - 8, "text-anchor": isCut ? "end" : "middle", "font-size": 11,
        fill: "#555"}, text);
    }
    const frame = make(svg, "svg", {x: LEFT, y: 0, width: W - LEFT - RIGHT, height: H - BOTTOM,
      viewBox: `${LEFT} 0 ${W - LEFT - RIGHT} ${H - BOTTOM}`});
    for (const {number, points} of curves) {
      let path = "", isDown = false;
      for (const [x, y] of points) {
        if (y === null) { isDown = false; continue; }
        path += `${isDown ? "L" : "M"}${toX(x).toFixed(2)} ${toY(y).toFixed(2)}`;
        isDown = true;
      }
      const stroke = colourOf(number);
      const width = points.length <= 100 ? 1.8 : 1.1;
      make(frame, "path", {d: path, fill: "none", stroke, "stroke-width": width, "stroke-dasharray": dashOf(number)});
      if (points.length <= 40) for (const [x, y] of points) if (y !== null && x >= x0 && x <= x1)
        make(svg, "circle", {cx: toX(x), cy: toY(y), r: 2.4, fill: stroke});
    }
    this.box = make(svg, "rect", {y: TOP, height: H - TOP - BOTTOM, width: 0, fill: "#0072B2", opacity: 0.15});
  }
}

function makeAxisChoice(parent, view, changed) {
  const choice = make(make(parent, "label", {}, "over "), "select");
  for (const name of ["epoch", "step"]) make(choice, "option", {value: name}, name);
  choice.value = view.axis;
  choice.addEventListener("change", () => { view.axis = choice.value; view.zoom = null; changed(); });
  const label = make(parent, "label"), box = make(label, "input", {type: "checkbox"});
  label.append(" log scale");
  box.addEventListener("change", () => { view.isLog = box.checked; changed(); });
}

// rows: [name, value of a run] beside settings and versions, which are marked where they differ.
function makeSettings(parent, runs, rows) {
  make(parent, "h2", {}, "How they were set up");
  const table = make(make(parent, "div", {class: "wide"}), "table"), head = make(table, "tr");
  make(head, "th");
  runs.forEach(run => make(head, "th", {}, run.label));
  const namesIn = group => [...new Set(runs.flatMap(run => Object.keys(run[group])))];
  rows = rows.map(([name, get]) => [name, get, false]);
  for (const name of namesIn("config")) rows.push([name.replaceAll("_", " "), run => run.config[name], true]);
  for (const name of namesIn("versions")) rows.push([name, run => run.versions[name], true]);
  for (const [name, get, isCompared] of rows) {
    const row = make(table, "tr"), values = runs.map(run => get(run) ?? "");
    if (isCompared && new Set(values).size > 1) row.className = "differs";
    make(row, "th", {}, name);
    values.forEach(value => make(make(row, "td"), "span", {}, value));
  }
  if (runs.length > 1) make(parent, "p", {}, "Settings and versions that differ are in colour.");
  for (const run of runs) if (run.warnings.length) {
    make(parent, "h2", {}, `Warnings of ${run.label}`);
    make(parent, "pre", {}, run.warnings.join("\n"));
  }
}
