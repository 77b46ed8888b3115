// Draws Plotly figures from JSON. The one place that knows how a plot looks: fonts, margins, grid and colours come from the
// stylesheet's variables, so it is called again when the theme changes.
(function () {
  "use strict";
  const Plotly = window.Plotly;
  const shown = new WeakMap(); // element -> figure as the server gave it

  // ---- colours -----------------------------------------------------------------------------------------------
  function token(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--b-${name}`).trim(); }
  function colour(value) {
    const match = /^([a-z]+(?:-[a-z0-9]+)*)(?:\/(0?\.\d+|1))?$/.exec(value);
    const hex = match && token(match[1]);
    if (!hex) { return value; }
    if (!match[2]) { return hex; }
    return hex + Math.round(Number(match[2]) * 255).toString(16).padStart(2, "0");
  }
  function resolve(node, key) {
    if (Array.isArray(node)) { return node.map((item) => resolve(item, key)); }
    if (node && typeof node === "object") { return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, resolve(value, name)])); }
    return typeof node === "string" && /color$/i.test(key) ? colour(node) : node;
  }

  // ---- times: UTC from the server, the reader's zone on the axis -----------------------------------------------
  function local(value) {
    if (typeof value !== "string" || !/^\d{4}-\d\d-\d\dT/.test(value)) { return value; }
    return window.Berth.wallClock(new Date(value));
  }
  function localise(figure) {
    figure.data.forEach((trace) => { if (trace.x) { trace.x = trace.x.map(local); } });
    const layout = figure.layout;
    if (layout.xaxis.range) { layout.xaxis.range = layout.xaxis.range.map(local); }
    (layout.annotations || []).forEach((note) => { note.x = local(note.x); });
    (layout.shapes || []).forEach((shape) => { shape.x0 = local(shape.x0); shape.x1 = local(shape.x1); });
    return figure;
  }

  // ---- layout ------------------------------------------------------------------------------------------------
  function axis(extra) {
    return { gridcolor: token("line"), gridwidth: 1, linecolor: token("line-2"), showline: true, zeroline: false, fixedrange: true, ticks: "", automargin: false,
      tickfont: { size: 11, color: token("text-2") }, ...extra,
      ...(extra.title ? { title: { standoff: 8, font: { size: 11, color: token("text-2") }, ...extra.title } } : {}) };
  }
  function layoutFor(element, layout) {
    const meta = layout.meta || {};
    const bare = meta.strip && !("axis" in element.dataset);
    const narrow = element.clientWidth < 480;
    const height = Number(element.dataset.height) + (meta.strip && !bare ? 20 : 0);
    return { ...layout, height, width: element.clientWidth,
      margin: meta.titled ? { l: 56, r: 16, t: 8, b: 44 } : meta.strip ? { l: 52, r: 20, t: 9, b: bare ? 7 : 24 } : { l: 36, r: meta.right_px || 16, t: 8, b: 24 },
      font: { family: token("sans"), size: 11, color: token("text-2") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, separators: ".\u202f", hovermode: "x unified",
      hoverlabel: { bgcolor: token("surface"), bordercolor: token("line-2"), font: { size: 11, color: token("text") } },
      xaxis: axis({ showgrid: Boolean(meta.strip), nticks: narrow ? 4 : 8, tickformatstops: TIME_FORMATS, hoverformat: "%H:%M:%S", showticklabels: !bare, ...layout.xaxis }),
      yaxis: axis({ nticks: 4, ...layout.yaxis }) };
  }
  const TIME_FORMATS = [
    { dtickrange: [null, 60000], value: "%H:%M:%S" },
    { dtickrange: [60000, 43200000], value: "%H:%M" },
    { dtickrange: [43200001, null], value: "%e %b" },
  ];
  function draw(element) {
    const figure = localise(structuredClone(shown.get(element)));
    const empty = figure.data.every((trace) => !(trace.y || []).some((value) => value !== null));
    let note = element.querySelector(".b-plot-empty");
    const carries = empty && "axis" in element.dataset && Boolean(figure.layout.xaxis.range); // the times of all strips
    if (empty && !carries) {
      Plotly.purge(element);
      if (!note) { note = document.createElement("div"); note.className = "b-plot-empty"; element.append(note); }
      note.textContent = "No figures.";
      return;
    }
    if (note) { note.remove(); }
    const layout = layoutFor(element, resolve(figure.layout, ""));
    if (carries) { layout.annotations = [{ text: "No figures.", showarrow: false, xref: "paper", yref: "paper", x: 0, y: 0.5, xanchor: "left" }]; }
    Plotly.react(element, resolve(figure.data, ""), layout, { displayModeBar: false, responsive: false, doubleClick: false });
  }
  async function load(element) {
    try {
      const answer = await fetch(element.dataset.figureUrl, { credentials: "same-origin", headers: { Accept: "application/json" } });
      if (!answer.ok) { throw new Error(`status ${answer.status}`); }
      shown.set(element, await answer.json());
      draw(element);
    } catch (fault) {
      if (!shown.has(element)) { element.textContent = `This plot could not be loaded (${fault.message}). It is tried again with the next event.`; element.classList.add("b-plot-empty"); }
    }
  }
  const plots = () => [...document.querySelectorAll("[data-figure-url]")];
  const redraw = () => plots().filter((element) => shown.has(element)).forEach(draw);

  document.addEventListener("berth:figure", (event) => load(event.detail.element));
  document.addEventListener("berth:theme", redraw);
  document.addEventListener("berth:enhance", (event) => [...event.detail.root.querySelectorAll("[data-figure-url]")].filter((element) => !shown.has(element)).forEach(load));
  let timer = 0;
  window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 150); });
  plots().forEach(load);
})();
