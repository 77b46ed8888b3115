// The overview's own parts: what the cells' fill shows, and the countdown to the next planning.
(function () {
  "use strict";
  const WORDS = { use: "Use now", memory: "Memory now" };

  const control = document.querySelector("[data-show-switch]"); // absent where strips are drawn: they have a switch of their own
  const grid = control && document.getElementById(control.dataset.showSwitch);
  function show(value) {
    grid.dataset.show = value;
    control.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === value)));
    document.querySelector("[data-show-word]").textContent = WORDS[value] || control.dataset.activeWord;
    try { localStorage.setItem("berth-cells", value); } catch (blocked) { /* then it holds for this page only */ }
  }
  if (control) {
    control.addEventListener("click", (event) => { const button = event.target.closest("button"); if (button) { show(button.dataset.value); } });
    let stored = null;
    try { stored = localStorage.getItem("berth-cells"); } catch (blocked) { /* the default stands */ }
    if (stored && control.querySelector(`[data-value="${CSS.escape(stored)}"]`)) { show(stored); }
  }

  function countDown() {
    const element = document.querySelector("[data-countdown]");
    if (!element) { return; }
    const left = (new Date(element.dataset.next) - Date.now()) / 1000;
    const words = left > 0 ? `, next in ${Math.floor(left / 60)}:${String(Math.floor(left % 60)).padStart(2, "0")}` : ", the next is due";
    element.querySelector("[data-countdown-words]").textContent = document.documentElement.dataset.live === "stale" ? "" : words;
    const done = 100 * (1 - Math.max(0, left) / Number(element.dataset.period));
    element.querySelector("[data-countdown-fill]").setAttribute("width", `${Math.min(100, Math.max(0, done))}%`);
  }
  countDown();
  setInterval(countDown, 1000);
})();
