// Draws the laboratory's answers with Plotly from the JSON of portal/pages/laboratory/output/answer_plots.py. Colours are names
// of the stylesheet's variables, so it draws again when the theme changes. All other pages draw with lines.js.
(function () {
  "use strict";
  const given = new Map(); // element -> figure as the server gave it
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--b-${name}`).trim();

  function coloured(node, key) {
    if (Array.isArray(node)) { return node.map((item) => coloured(item, key)); }
    if (node && typeof node === "object") { return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, coloured(value, name)])); }
    return typeof node === "string" && /color$/i.test(key) ? token(node) || node : node;
  }
  function axis(extra) {
    return { gridcolor: token("line"), gridwidth: 1, linecolor: token("line-2"), showline: true, zeroline: false, fixedrange: true, ticks: "", automargin: false,
      nticks: 4, tickfont: { size: 11, color: token("text-2") }, ...extra };
  }
  function draw(figure, element) {
    const layout = { ...figure.layout, height: Number(element.dataset.height), width: element.clientWidth, margin: { l: 36, r: 16, t: 8, b: 24 },
      font: { family: token("sans"), size: 11, color: token("text-2") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, separators: ".\u202f", hovermode: "x unified",
      hoverlabel: { bgcolor: token("surface"), bordercolor: token("line-2"), font: { size: 11, color: token("text") } },
      xaxis: axis({ showgrid: false, nticks: element.clientWidth < 480 ? 4 : 8, hoverformat: ".3~g", ...figure.layout.xaxis }), yaxis: axis(figure.layout.yaxis) };
    window.Plotly.react(element, coloured(figure.data, ""), layout, { displayModeBar: false, responsive: false, doubleClick: false });
  }
  async function load(element) {
    try {
      const answer = await fetch(element.dataset.figureUrl, { credentials: "same-origin", headers: { Accept: "application/json" } });
      if (!answer.ok) { throw new Error(`status ${answer.status}`); }
      given.set(element, await answer.json());
      draw(given.get(element), element);
    } catch (fault) {
      element.textContent = `This plot could not be loaded (${fault.message}). Load the page again.`;
      element.classList.add("b-plot-empty");
    }
  }
  const redraw = () => given.forEach(draw);
  document.addEventListener("berth:theme", redraw);
  let timer = 0;
  window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(redraw, 150); });
  document.querySelectorAll("[data-figure-url]").forEach(load);
})();
