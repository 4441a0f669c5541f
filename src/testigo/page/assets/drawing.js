// Draws the pictures of curves: the same specifications as the dossier's, with a reading line, zoom and a click.
// The expressions of a specification are interpreted, never evaluated: the page's policy allows no eval.

const place = document.querySelector("script[data-drawing]").dataset;
const drawn = new WeakMap(); // figure -> its picture
const DOUBLE_CLICK_MS = 300;
let library = null;

function script(address) {
  return new Promise((done, failed) => {
    const tag = document.createElement("script");
    tag.src = address;
    tag.addEventListener("load", done);
    tag.addEventListener("error", failed);
    document.head.append(tag);
  });
}

async function load() {
  await script(place.vega);
  const [interpreter] = await Promise.all([import(place.interpreter), script(place.vegaLite)]);
  return { vega: globalThis.vega, vegaLite: globalThis.vegaLite, interpreter: interpreter.expressionInterpreter };
}

const variable = /var\((--[\w-]+)\)/g;

// A canvas knows no variables of a style sheet: they are read as they are now, in light or in dark.
function inColours(text) {
  const style = getComputedStyle(document.documentElement);
  return text.replace(variable, (_, name) => style.getPropertyValue(name).trim());
}

function linesOf(told) {
  const { data, datasets } = told.specification; // a specification names its rows, and holds them once
  const values = datasets[data.name];
  const lines = new Map(told.lines.map((line) => [line.name, { ...line, x: [], y: [] }]));
  for (const row of values) {
    const line = lines.get(row.run);
    if (line && row.value !== null) { line.x.push(row.update); line.y.push(row.value); }
  }
  return [...lines.values()];
}

function nearest(places, x) {
  let low = 0, high = places.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (places[middle] < x) low = middle; else high = middle; }
  return Math.abs(places[low] - x) <= Math.abs(places[high] - x) ? low : high;
}

const locally = (value, digits) => value.toLocaleString(document.documentElement.lang, digits);
const number = (value) => (value === 0 || (Math.abs(value) >= 0.001 && Math.abs(value) < 1e5))
  ? locally(value, { maximumSignificantDigits: 4 }) : value.toExponential(2);
const placed = (value) => locally(value, { maximumFractionDigits: value < 100 ? 1 : 0 }); // an update is never rounded

class Picture {
  constructor(figure) {
    this.figure = figure;
    this.box = figure.querySelector(".drawn");
    this.zoom = null;
  }

  async draw(state) {
    this.state = state;
    const answer = await fetch(this.figure.dataset.curves, { cache: "no-store" });
    if (!answer.ok) return;
    this.text = await answer.text();
    await this.show();
  }

  async show() {
    if (this.text === undefined) return; // on its way: colours or the width changed before it came
    const { vega, vegaLite, interpreter } = await (library ??= load());
    const told = JSON.parse(inColours(this.text));
    const specification = told.specification;
    const width = Math.max(220, Math.min(this.box.clientWidth || 370, 900));
    // Width is of the plot alone: what labels need is found by a first drawing.
    specification.autosize = { type: "fit", contains: "padding" };
    specification.width = width;
    specification.height += 48;
    if (this.zoom) this.zoomed(specification);
    const view = new vega.View(vega.parse(vegaLite.compile(specification).spec, null, { ast: true }), {
      expr: interpreter, renderer: "canvas", hover: false, logLevel: vega.Error,
    });
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    await view.initialize(canvas).runAsync();
    const alternative = this.box.querySelector("svg")?.getAttribute("aria-label") || this.label;
    if (alternative) { this.label = alternative; canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", alternative); }
    this.view?.finalize();
    this.view = view;
    this.lines = linesOf(told);
    this.told = told;
    this.box.replaceChildren(canvas, this.reading());
    this.listen(canvas);
    if (this.last) this.read(this.last); // the pointer still stands there
  }

  zoomed(specification) {
    const set = (layer) => {
      const x = layer.encoding?.x;
      if (x) x.scale = { ...x.scale, domain: this.zoom, nice: false };
      if (layer.mark) { layer.mark = typeof layer.mark === "string" ? { type: layer.mark } : layer.mark; layer.mark.clip = true; }
      (layer.layer || []).forEach(set);
    };
    specification.layer.forEach(set);
  }

  reading() {
    this.note = document.createElement("div");
    this.note.className = "reading";
    this.note.hidden = true;
    this.rule = document.createElement("div");
    this.rule.className = "reading-line";
    this.rule.hidden = true;
    const both = document.createDocumentFragment();
    both.append(this.rule, this.note);
    return both;
  }

  // From a place of the pointer to a value of the horizontal axis, and back.
  at(event) {
    const left = this.view.origin()[0] + this.view.padding().left;
    const bounds = this.box.getBoundingClientRect();
    const x = event.clientX - bounds.left;
    return { x, value: this.view.scale("x").invert(x - left), left, bounds };
  }

  listen(canvas) {
    let from = null, leaving = 0;
    canvas.addEventListener("pointermove", (event) => { this.last = event; this.read(event); });
    canvas.addEventListener("pointerleave", () => { this.last = null; this.note.hidden = this.rule.hidden = true; });
    canvas.addEventListener("pointerdown", (event) => { from = this.at(event); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", (event) => {
      const to = this.at(event);
      if (from && Math.abs(to.x - from.x) > 8) {
        this.zoom = [Math.min(from.value, to.value), Math.max(from.value, to.value)];
        this.show();
      } else if (this.figure.dataset.updates && this.spot !== undefined) {
        const address = `${this.figure.dataset.updates}${this.spot}`;
        clearTimeout(leaving);
        leaving = setTimeout(() => location.assign(address), DOUBLE_CLICK_MS); // it may become a double click
      }
      from = null;
    });
    canvas.addEventListener("dblclick", () => { clearTimeout(leaving); this.zoom = null; this.show(); });
  }

  read(event) {
    const { x, value, left, bounds } = this.at(event);
    const near = this.lines.filter((line) => line.x.length)
      .map((line) => { const n = nearest(line.x, value); return { line, x: line.x[n], y: line.y[n] }; });
    if (!near.length) return;
    const spot = near.reduce((best, row) => (Math.abs(row.x - value) < Math.abs(best.x - value) ? row : best)).x;
    this.spot = spot;
    const rows = near.filter(({ line }) => line.x[0] <= spot && spot <= line.x.at(-1)); // a run that ended has no value
    this.note.replaceChildren();
    const head = document.createElement("p");
    head.textContent = `${this.told.over} ${placed(spot)}`;
    this.note.append(head);
    for (const row of rows.sort((a, b) => b.y - a.y).slice(0, 14)) {
      const line = document.createElement("p");
      const dot = document.createElement("span");
      dot.className = "dot";
      dot.style.background = row.line.colour;
      const name = document.createElement("span");
      name.textContent = this.lines.length > 1 ? row.line.name : "";
      const value = document.createElement("strong");
      value.textContent = number(row.y);
      line.append(dot, name, value);
      this.note.append(line);
    }
    this.note.hidden = this.rule.hidden = false;
    const pixel = left + this.view.scale("x")(spot);
    this.rule.style.left = `${pixel}px`;
    const onRight = x < bounds.width / 2;
    this.note.style.left = onRight ? `${pixel + 10}px` : "";
    this.note.style.right = onRight ? "" : `${bounds.width - pixel + 10}px`;
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    const picture = new Picture(entry.target);
    drawn.set(entry.target, picture);
    picture.draw(entry.target.dataset.curvesState).catch(() => {});
  }
}, { rootMargin: "300px" });

// Pictures of a part that is shown for the first time.
export function draw(root) {
  for (const figure of root.querySelectorAll("[data-curves]")) if (!drawn.has(figure)) seen.observe(figure);
}

// A part is replaced: a picture that is drawn already moves over, and is drawn again where there is more to draw.
export function move(before, after) {
  const old = new Map([...before.querySelectorAll("[data-curves]")].map((one) => [one.dataset.curves, one]));
  for (const figure of after.querySelectorAll("[data-curves]")) {
    const was = old.get(figure.dataset.curves);
    const picture = was && drawn.get(was);
    if (!picture) continue;
    const box = figure.querySelector(".drawn");
    box.replaceWith(picture.box);
    picture.figure = figure;
    drawn.set(figure, picture);
    if (picture.state !== figure.dataset.curvesState) picture.draw(figure.dataset.curvesState).catch(() => {});
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const figure of document.querySelectorAll("[data-curves]")) drawn.get(figure)?.show();
});
