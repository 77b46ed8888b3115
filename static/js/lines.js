// Draws lines, steps and bands with uPlot from the JSON of portal/pages/dashboard/parts/lines.py. Colours come from the
// stylesheet's variables. A press sets one crosshair in all plots of the page that share an axis; arrows move it, Escape removes it.
(function () {
  "use strict";
  const uPlot = window.uPlot;
  const Berth = window.Berth;
  const TABLE_ROWS = 60;
  const given = new WeakMap(); // element -> figure as the server gave it
  const drawn = new Map(); // element -> its uPlot
  let cross = null; // { axis, x, held }
  let lit = null; // the task of a sweep whose line and row stand out, or null
  const zooms = document.querySelector("[data-zoom]") !== null; // a drag along one plot of time zooms all, a double press shows all again
  let zoom = readZoom(); // [from, to] in Unix seconds, kept in the address; null: all
  let drag = null; // { from, to } while the pointer is down

  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--b-${name}`).trim();
  const faint = (name, opacity) => token(name) + Math.round(255 * opacity).toString(16).padStart(2, "0");
  const plots = () => [...document.querySelectorAll("[data-figure-url]")];

  // ---- words -------------------------------------------------------------------------------------------------
  function number(value, digits) {
    if (digits !== undefined && digits !== null) { return value.toFixed(digits); }
    const size = Math.abs(value);
    return size !== 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  }
  const withUnit = (value, y) => number(value, y.digits) + (y.unit ? `\u202f${y.unit}` : "");
  function place(x, axis, step) { // a place on the axis, in words
    const at = new Date(1000 * x);
    if (axis.kind !== "time" || Number.isNaN(at.getTime())) { return number(x) + (axis.unit ? `\u202f${axis.unit}` : ""); } // a job writes any time
    return step >= 86400 ? Berth.dayOf(at) : step < 60 ? Berth.clock(at) : Berth.minuteOf(at);
  }

  // ---- one plot ----------------------------------------------------------------------------------------------
  const inSteps = (line) => line.look === "steps" || line.look === "area";
  const across = (x) => (zooms && zoom && x.kind === "time" ? zoom : x.range) || undefined;
  function series(line) {
    const opacity = line.look === "pale" ? 0.3 : 1;
    return { label: line.name, stroke: () => (line.task !== undefined && line.task === lit ? token("accent") : faint(line.token, opacity)), width: line.look === "edge" ? 0 : line.look === "steps" ? 1.3 : 1.6, spanGaps: false,
      dash: line.look === "steps" ? [4, 3] : undefined, paths: inSteps(line) ? uPlot.paths.stepped({ align: 1 }) : undefined, fill: line.look === "area" ? faint(line.token, 0.12) : undefined,
      points: { show: line.x.length < 3 && !line.mark, size: 5, fill: token(line.token) } };
  }
  function high(figure) { // of the values, with room above the line
    const known = figure.lines.flatMap((line) => line.y).filter((value) => value !== null);
    return Math.max(...known, figure.limit ? figure.limit.y : -Infinity);
  }
  function scales(figure) {
    const { x, y } = figure;
    if (x.log) { return { x: { time: false, distr: 3 }, y: {} }; }
    if (y.log) { return { x: { time: false, range: across(x) }, y: { distr: 3 } }; }
    const top = high(figure);
    if (top === -Infinity) { return { x: { time: false, range: across(x) }, y: { range: [0, y.high || 1] } }; } // its axis is that of all strips
    const low = y.low ?? Math.min(...figure.lines.flatMap((line) => line.y).filter((value) => value !== null));
    const range = y.high !== null && y.high !== undefined ? [y.low || 0, 1.04 * y.high] : top > low ? [low, low + 1.08 * (top - low)] : [low - (y.low === 0 ? 0 : 0.5), low + 1];
    return { x: { time: false, range: across(x) }, y: { range } };
  }
  function axes(figure, element) {
    const { x, y } = figure;
    const text = token("text-2");
    const font = `11px ${token("sans")}`;
    const ticks = { show: false };
    const across = { show: !("bare" in element.dataset), stroke: text, font, ticks, grid: { show: false }, size: 22, gap: 4, space: 70,
      ...(x.kind === "time" ? { incrs: [1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600], splits: (u, i, low, top, step) => onTheClock(low, top, step) } : {}),
      values: (u, splits, i, space, step) => splits.map((at, n) => place(at, x.kind === "time" ? x : {}, step) + (x.kind !== "time" && x.unit && n === splits.length - 1 ? `\u202f${x.unit}` : "")) };
    const up = { stroke: text, font, ticks, grid: { stroke: token("line"), width: 1 }, size: 52, gap: 6, space: 26,
      ...(y.ticks ? { splits: () => y.ticks } : {}),
      values: (u, splits) => splits.map((value, n) => (value === null ? "" : n === splits.length - 1 && y.unit ? `${number(value)}\u202f${y.unit}` : number(value))) };
    return [across, up];
  }
  function onTheClock(low, top, step) { // round times of the reader's zone
    const shift = (at) => (Date.parse(`${Berth.wallClock(new Date(1000 * at))}Z`) / 1000) - at;
    const found = [];
    for (let at = Math.ceil((low + shift(low)) / step) * step - shift(low); at <= top; at += step) { found.push(at); }
    return found;
  }
  function say(u, text, x, y) {
    const ctx = u.ctx;
    ctx.font = `500 ${11 * (devicePixelRatio || 1)}px ${token("sans")}`;
    ctx.textBaseline = "middle";
    ctx.textAlign = "left";
    ctx.fillStyle = token("text");
    ctx.fillText(text, x, y);
  }
  function endLabels(u, figure) { // the last value beside each line's end, one below the other where they would overlap
    const ratio = devicePixelRatio || 1;
    const ends = figure.lines.flatMap((line) => {
      const last = line.y.findLastIndex((value) => value !== null);
      if (!line.end || last < 0 || line.x[last] > (u.scales.x.max ?? Infinity)) { return []; }
      return [{ x: Math.min(u.valToPos(line.x[last], "x", true), u.bbox.left + u.bbox.width), y: u.valToPos(line.y[last], "y", true), text: line.end === true ? withUnit(line.y[last], figure.y) : line.end }];
    }).sort((one, other) => one.y - other.y);
    let lowest = -Infinity;
    const places = ends.map(({ y }) => { lowest = Math.max(y, lowest + 13 * ratio); return lowest; });
    const over = Math.max(0, lowest - (u.bbox.top + u.bbox.height)); // below the plot there is no room
    ends.forEach(({ x, text }, n) => say(u, text, x + 6 * ratio, places[n] - Math.min(over, Math.max(0, places[0] - u.bbox.top))));
  }
  function upright(u, x, colour, dash) {
    const at = u.valToPos(x, "x", true);
    if (at < u.bbox.left || at > u.bbox.left + u.bbox.width) { return; }
    u.ctx.strokeStyle = colour;
    u.ctx.setLineDash(dash);
    u.ctx.beginPath();
    u.ctx.moveTo(at, u.bbox.top);
    u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.setLineDash([]);
  }
  function endMark(u, line) { // a dot or a cross at the line's end
    const last = line.y.findLastIndex((value) => value !== null);
    if (!line.mark || last < 0) { return; }
    const [ctx, size] = [u.ctx, 3.5 * (devicePixelRatio || 1)];
    const [x, y] = [u.valToPos(line.x[last], "x", true), u.valToPos(line.y[last], "y", true)];
    ctx.fillStyle = ctx.strokeStyle = token(line.task === lit ? "accent" : line.token);
    ctx.beginPath();
    if (line.mark === "dot") { ctx.arc(x, y, size, 0, 2 * Math.PI); ctx.fill(); return; }
    ctx.moveTo(x - size, y - size); ctx.lineTo(x + size, y + size); ctx.moveTo(x - size, y + size); ctx.lineTo(x + size, y - size);
    ctx.stroke();
  }
  function light(task) {
    if (task === lit) { return; }
    lit = task;
    drawn.forEach((u, element) => { if (given.get(element).lines.some((line) => line.task !== undefined)) { u.redraw(false, false); } });
    document.dispatchEvent(new CustomEvent("berth:lit", { detail: { task } }));
  }
  function under(u, figure, event) { // the task whose line is nearest to the pointer, within 12 pixels
    const box = u.over.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const near = nearest(figure, u.posToVal(left, "x")).filter(({ line }) => line.task !== undefined)
      .map(({ line, x, y }) => ({ task: line.task, far: Math.abs(u.valToPos(y, "y") - top) + (line.x.length === 1 ? Math.abs(u.valToPos(x, "x") - left) : 0) }))
      .reduce((one, other) => (one && one.far <= other.far ? one : other), null);
    light(near && near.far <= 12 ? near.task : null);
  }
  function over(u, figure, element) { // what stands above the lines
    const ctx = u.ctx;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.lineWidth = ratio;
    if (figure.now) { upright(u, figure.now, token("text-2"), [3 * ratio, 3 * ratio]); }
    if (figure.limit) {
      const y = u.valToPos(figure.limit.y, "y", true);
      ctx.strokeStyle = token(figure.limit.token);
      ctx.setLineDash([1.5 * ratio, 2 * ratio]);
      ctx.beginPath(); ctx.moveTo(u.bbox.left, y); ctx.lineTo(u.bbox.left + u.bbox.width, y); ctx.stroke();
      ctx.setLineDash([]);
    }
    if (drag && figure.x.kind === "time") {
      const [from, to] = [drag.from, drag.to].map((x) => u.valToPos(x, "x", true));
      ctx.fillStyle = faint("accent", 0.12);
      ctx.fillRect(Math.min(from, to), u.bbox.top, Math.abs(to - from), u.bbox.height);
    }
    endLabels(u, figure);
    figure.lines.forEach((line) => endMark(u, line));
    if (!figure.lines.some((line) => line.y.some((value) => value !== null))) { say(u, "No figures.", u.bbox.left + 6 * ratio, u.bbox.top + u.bbox.height / 2); }
    const here = cross && cross.axis === figure.x.kind ? nearest(figure, cross.x) : null;
    if (here) {
      upright(u, cross.x, token("text-2"), [2 * ratio, 2 * ratio]);
      here.filter(({ line }) => line.look !== "edge" && line.look !== "pale").forEach(({ line, x, y }) => {
        ctx.fillStyle = token(line.token);
        ctx.beginPath(); ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), 3.5 * ratio, 0, 2 * Math.PI); ctx.fill();
      });
    }
    ctx.restore();
    read(element, figure, here);
  }
  function nearest(figure, x) { // each line's point at a place: the last one up to it for steps, else the nearest
    return figure.lines.flatMap((line) => {
      const after = line.x.findIndex((at) => at > x);
      const before = (after < 0 ? line.x.length : after) - 1;
      const taken = before < 0 ? 0 : after < 0 || inSteps(line) || x - line.x[before] <= line.x[after] - x ? before : after;
      return line.y[taken] === null || line.y[taken] === undefined ? [] : [{ line, x: line.x[taken], y: line.y[taken] }];
    });
  }
  function read(element, figure, here) { // the values at the crosshair, in the plot's head
    const head = document.getElementById(element.getAttribute("aria-labelledby"))?.querySelector("[data-read]");
    if (!head) { return; }
    const known = (here || []).filter(({ line }) => line.look !== "edge" && line.look !== "pale");
    const several = known.length > 1;
    const words = known.map(({ line, y }) => (several ? `${line.name} ` : "") + withUnit(y, figure.y));
    const text = here ? `${place(cross.x, figure.x, 60)}\u2002${words.join(", ") || "no figure"}` : "";
    if (head.textContent === text) { return; }
    head.textContent = several ? `${place(cross.x, figure.x, 60)}\u2002` : text;
    if (several) { head.append(...known.flatMap(({ line }, n) => [dot(line.token), `${words[n]}${n < words.length - 1 ? ", " : ""}`])); }
  }
  function dot(name) { // of a line's colour, before its value
    const mark = document.createElement("i");
    mark.className = "b-plot-dot";
    mark.dataset.token = name;
    return mark;
  }
  function draw(element) {
    if (!element.clientWidth) { return; } // in a closed row: it is drawn when that opens
    const figure = given.get(element);
    drawn.get(element)?.destroy();
    drawn.delete(element);
    element.replaceChildren();
    const empty = !figure.lines.some((line) => line.y.some((value) => value !== null));
    if (empty && !figure.x.range) {
      element.classList.add("b-plot-empty");
      element.textContent = "No figures yet.";
      return;
    }
    element.classList.remove("b-plot-empty");
    const data = empty ? [figure.x.range, [null, null]] : uPlot.join(figure.lines.map((line) => [line.x, line.y]), figure.lines.map(() => [1, 2]));
    const band = (figure.bands || []).map(({ high: upper, low, token: name }) => ({ series: [upper + 1, low + 1], fill: faint(name, 0.18) }));
    const options = { width: element.clientWidth, height: Number(element.dataset.height) + ("bare" in element.dataset ? 0 : 22), padding: [6, figure.right_px ?? 56, "bare" in element.dataset ? 6 : 0, 0],
      legend: { show: false }, cursor: { show: false }, select: { show: false }, scales: scales(figure), series: [{}, ...(empty ? [{}] : figure.lines.map(series))], axes: axes(figure, element), bands: empty ? [] : band,
      hooks: { draw: [(u) => over(u, figure, element)] } };
    const made = new uPlot(options, data, element);
    made.over.addEventListener("pointermove", (event) => { under(made, figure, event); if (!cross || !cross.held) { point(made, figure, event, false); } });
    made.over.addEventListener("pointerleave", () => { light(null); if (cross && !cross.held) { move(null); } });
    made.over.addEventListener("click", (event) => point(made, figure, event, true));
    if (zooms && figure.x.kind === "time") { dragged(made); }
    drawn.set(element, made);
  }
  const placed = (u, event) => u.posToVal(event.clientX - u.over.getBoundingClientRect().left, "x");
  function dragged(u) {
    u.over.addEventListener("pointerdown", (event) => { drag = { from: placed(u, event), to: placed(u, event), x: event.clientX }; });
    u.over.addEventListener("pointermove", (event) => { if (drag) { drag.to = placed(u, event); drawn.forEach((each) => each.redraw(false, false)); } });
    u.over.addEventListener("pointerup", (event) => {
      const [from, to] = drag ? [drag.from, placed(u, event)].sort((one, other) => one - other) : [0, 0];
      const far = drag && Math.abs(event.clientX - drag.x) > 6;
      drag = null;
      if (far) { zoomTo([from, to]); }
    });
    u.over.addEventListener("dblclick", () => zoomTo(null));
  }
  function zoomTo(range) {
    zoom = range;
    const url = new URL(window.location.href);
    url.hash = range ? `zoom=${range.map(Math.round).join("-")}` : "";
    window.history.replaceState(null, "", url);
    move(null);
    redraw();
  }
  function readZoom() {
    const found = /^#zoom=(\d{1,11})-(\d{1,11})$/.exec(window.location.hash);
    return found && Number(found[1]) < Number(found[2]) ? [Number(found[1]), Number(found[2])] : null;
  }
  function point(u, figure, event, held) {
    move({ axis: figure.x.kind, x: placed(u, event), held });
  }
  function move(to) {
    const kinds = [cross && cross.axis, to && to.axis];
    cross = to;
    drawn.forEach((u, element) => { if (kinds.includes(given.get(element).x.kind)) { u.redraw(false, false); } });
  }
  function step(element, by) { // to the next point of the plot's first line
    const figure = given.get(element);
    const xs = figure.lines[figure.lines.length - 1].x;
    const from = cross && cross.axis === figure.x.kind ? xs.findIndex((x) => x >= cross.x) : by > 0 ? -1 : xs.length;
    const next = Math.min(xs.length - 1, Math.max(0, (from < 0 && by < 0 ? xs.length : from) + by));
    move({ axis: figure.x.kind, x: xs[next], held: true });
  }

  // ---- the same figures as a table, made when it is opened ----------------------------------------------------
  function tabulate(details) {
    const figure = given.get(document.getElementById(details.dataset.figureTable));
    if (!figure) { return; }
    const lines = figure.lines.filter((line) => line.look !== "pale");
    const xs = [...new Set(lines.flatMap((line) => line.x))].sort((one, other) => one - other);
    const every = Math.ceil(xs.length / TABLE_ROWS) || 1;
    const cell = (kind, text) => { const made = document.createElement(kind); made.textContent = text; made.className = "b-number"; return made; };
    const row = (cells) => { const made = document.createElement("tr"); made.append(...cells); return made; };
    const table = document.createElement("table");
    table.className = "b-table";
    table.createTHead().append(row([cell("th", figure.x.kind === "time" ? "time" : figure.x.unit || figure.x.kind), ...lines.map((line) => cell("th", line.name))]));
    table.createTBody().append(...xs.filter((_, n) => n % every === 0 || n === xs.length - 1).map((x) => row([cell("td", place(x, figure.x, 1)),
      ...lines.map((line) => { const found = nearest({ lines: [line] }, x)[0]; return cell("td", found && found.x <= x ? withUnit(found.y, figure.y) : "\u2013"); })])));
    const wrap = details.querySelector("[data-table]");
    wrap.replaceChildren(table);
  }

  // ---- when ---------------------------------------------------------------------------------------------------
  async function load(element) {
    if (element.closest("details:not([open])")) { return; }
    try {
      const answer = await fetch(element.dataset.figureUrl, { credentials: "same-origin", headers: { Accept: "application/json" } });
      if (!answer.ok) { throw new Error(`status ${answer.status}`); }
      given.set(element, await answer.json());
      draw(element);
      document.querySelectorAll(`details[open][data-figure-table="${element.id}"]`).forEach(tabulate);
    } catch (fault) {
      if (!given.has(element)) { element.textContent = `This plot could not be loaded (${fault.message}). It is tried again with the next event.`; element.classList.add("b-plot-empty"); }
    }
  }
  function redraw() {
    [...drawn.keys()].filter((element) => !element.isConnected).forEach((element) => { drawn.get(element).destroy(); drawn.delete(element); });
    plots().filter((element) => given.has(element)).forEach(draw);
  }
  function onKey(event) {
    const element = event.target.closest?.("[data-figure-url]");
    if (event.key === "Escape" && (cross || (zooms && zoom))) { if (cross) { move(null); } else { zoomTo(null); } return; }
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (element && by && drawn.has(element)) { step(element, by); event.preventDefault(); }
  }
  document.addEventListener("keydown", onKey);
  document.addEventListener("berth:light", (event) => light(event.detail.task));
  document.addEventListener("toggle", (event) => {
    if (!event.target.open) { return; }
    if (event.target.dataset.figureTable) { tabulate(event.target); }
    event.target.querySelectorAll("[data-figure-url]").forEach(load);
  }, true);
  document.addEventListener("berth:figure", (event) => load(event.detail.element));
  document.addEventListener("berth:theme", redraw);
  document.addEventListener("berth:enhance", (event) => [...event.detail.root.querySelectorAll("[data-figure-url]")].filter((element) => !given.has(element)).forEach(load));
  let timer = 0;
  window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 150); });
  document.fonts.ready.then(() => plots().forEach(load));
})();
