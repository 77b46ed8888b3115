// An array's grid is one tab stop: arrows go from cell to cell, Home and End to its ends; the place is kept over updates.
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
  document.addEventListener("berth:enhance", mark);
  mark();
})();
