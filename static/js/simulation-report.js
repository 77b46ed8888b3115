// The page of a simulation: draws its figures with colours from the stylesheet, again when the theme changes.
(function () {
  "use strict";
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const button = document.getElementById("theme");

  function token(name) { return getComputedStyle(root).getPropertyValue(`--b-${name}`).trim(); }
  function resolve(node, key) {
    if (Array.isArray(node)) { return node.map((item) => resolve(item, key)); }
    if (node && typeof node === "object") { return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, resolve(value, name)])); }
    return key === "color" && typeof node === "string" ? token(node) || node : node;
  }
  function axis(extra) {
    return { gridcolor: token("line"), linecolor: token("line-2"), showline: true, zeroline: false, automargin: true, nticks: 8,
      tickfont: { size: 11, color: token("text-2") }, ...extra };
  }
  function layoutFor(element, layout) {
    return { ...layout, autosize: true, height: element.clientHeight, margin: { l: 52, r: 12, t: 8, b: 40 }, showlegend: false, hovermode: "closest",
      font: { family: token("sans"), size: 11, color: token("text-2") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: token("surface"), bordercolor: token("line-2"), font: { color: token("text") } },
      xaxis: axis(layout.xaxis), yaxis: axis({ ...layout.yaxis, nticks: 5 }) };
  }
  function draw() {
    document.querySelectorAll("[data-plot]").forEach((element) => {
      const figure = figures[element.dataset.plot];
      window.Plotly.react(element, resolve(figure.data, ""), layoutFor(element, figure.layout), { displaylogo: false, responsive: true,
        modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] });
    });
  }
  function take(theme) {
    root.dataset.bsTheme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    draw();
  }
  const wish = window.matchMedia("(prefers-color-scheme: dark)");
  button.addEventListener("click", () => take(root.dataset.bsTheme === "dark" ? "light" : "dark"));
  wish.addEventListener("change", () => take(wish.matches ? "dark" : "light"));
  take(wish.matches ? "dark" : "light");
}());
