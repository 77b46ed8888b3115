// A row of a sweep and its curve light each other. An array's grid is one tab stop: arrows go from cell to cell, Home and End to its ends; the place is kept over updates.
(function () {
  "use strict";
  let place = 0;
  const grid = () => document.querySelector("[data-taskgrid]");
  const cells = () => [...grid().querySelectorAll("a")];
  function mark() {
    if (!grid()) { return; }
    const all = cells();
    place = Math.min(place, all.length - 1);
    all.forEach((cell, at) => { const index = at === place ? 0 : -1; if (cell.tabIndex !== index) { cell.tabIndex = index; } });
  }
  function go(to) {
    const all = cells();
    place = Math.max(0, Math.min(all.length - 1, to));
    mark();
    all[place].focus();
  }
  document.addEventListener("keydown", (event) => {
    const cell = event.target.closest?.("[data-taskgrid] a");
    if (!cell) { return; }
    const at = cells().indexOf(cell);
    const row = cell.parentElement.querySelectorAll("a").length;
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + row, ArrowUp: at - row, Home: 0, End: Infinity };
    if (event.key in steps) { event.preventDefault(); go(steps[event.key]); }
  });
  const rows = () => [...document.querySelectorAll("tr[data-task]")];
  const ask = (event) => {
    const row = event.target.closest?.("tr[data-task]");
    document.dispatchEvent(new CustomEvent("berth:light", { detail: { task: row ? Number(row.dataset.task) : null } }));
  };
  document.addEventListener("pointerover", (event) => { if (!event.target.closest?.("[data-sweep]")) { ask(event); } });
  document.addEventListener("focusin", ask);
  document.addEventListener("berth:lit", (event) => rows().forEach((row) => row.classList.toggle("b-lit", Number(row.dataset.task) === event.detail.task)));
  document.addEventListener("berth:enhance", mark);
  mark();
})();
