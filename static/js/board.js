// The cluster as numbers: fetched whole once, then kept true by numbered differences that the socket brings once a second. A gap,
// another shape, a return from hiding or a new connection fetch it whole again. Others hear "berth:board" with what changed.
(function () {
  "use strict";
  const Berth = window.Berth;
  const holder = document.querySelector("[data-board-url]");
  if (!holder) { return; }
  const COLUMNS = ["active", "use", "memory", "state", "health", "heard"];
  let board = null;
  let fetching = null;
  let again = false;
  let missed = false;

  function tell(change) { document.dispatchEvent(new CustomEvent("berth:board", { detail: { board, change } })); }
  async function whole() {
    if (document.hidden) { missed = true; return; }
    if (fetching) { again = true; return; }
    try {
      fetching = fetch(holder.dataset.boardUrl, { headers: { Accept: "application/json" }, credentials: "same-origin" });
      const answer = await fetching;
      if (answer.redirected || answer.status === 401 || answer.status === 403) { window.location.reload(); return; } // the sign-in ran out
      if (answer.ok) { board = await answer.json(); tell(null); }
    } catch (unreachable) {
      // The socket notices the same fault and says so; its reconnection fetches everything.
    } finally {
      fetching = null;
    }
    if (again) { again = false; setTimeout(whole, 1000); }
  }
  function apply(change) {
    COLUMNS.forEach((name) => {
      const pairs = change[name] || [];
      for (let at = 0; at < pairs.length; at += 2) { board[name][pairs[at]] = pairs[at + 1]; }
    });
    if (change.groups) { board.groups = change.groups; }
  }
  document.addEventListener("berth:event", (event) => {
    const message = event.detail;
    if (message.topic !== "board") { return; }
    if (board && message.to <= board.version) { return; }
    if (document.hidden) { missed = true; return; }
    if (!board || fetching || message.from !== board.version || message.change === null) { whole(); return; }
    apply(message.change);
    board.version = message.to;
    tell(message.change);
  });
  document.addEventListener("berth:resync", whole);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) { missed = false; whole(); } });
  Berth.board = () => board;

  // ---- a small cluster's cells: the same numbers, written into the elements that name jobs --------------------------
  const UNKNOWN = 255;
  const IDLE = new Set([1, 2]), SHARING = 4, FOR_SHARING = "for jobs that share a GPU";
  const step = (value) => (value === UNKNOWN ? 1 : Math.min(5, Math.floor(value / 20) + 1));
  const percent = (value) => `${value}\u00a0%`;
  function set(element, name, value) { if (element.getAttribute(name) !== value) { element.setAttribute(name, value); } }
  function write(element, text, unit) {
    if (!element || element.textContent === text + (unit ? ` ${unit}` : "")) { return; }
    element.textContent = unit ? `${text} ` : text;
    if (unit) { const small = document.createElement("small"); small.textContent = unit; element.append(small); }
  }
  function cellShown(cell, at) {
    const [active, use, memory, idle] = [board.active[at], board.use[at], board.memory[at], IDLE.has(board.state[at])];
    set(cell, "data-active", String(step(active))); set(cell, "data-use", String(step(use))); set(cell, "data-memory", String(step(memory)));
    const sharing = board.state[at] === SHARING, free = idle ? "idle" : sharing ? "shared" : "";
    const words = [`GPU ${cell.dataset.gpu}`, idle ? "idle now" : sharing ? FOR_SHARING : `use ${use === UNKNOWN ? "\u2013" : percent(use)}`];
    if (active !== UNKNOWN) { words.push(`allocated ${percent(active)} of the time shown`); }
    if (memory !== UNKNOWN) { words.push(`memory ${percent(memory)}`); }
    set(cell, "title", words.join(", ")); set(cell, "aria-label", words.join(", "));
    if (cell.classList.contains("b-cell-mini")) { write(cell, free || use === UNKNOWN ? "" : String(use)); return; }
    write(cell.children[1], active === UNKNOWN ? "" : percent(active));
    write(cell.querySelector(".b-cell-use"), free || (use === UNKNOWN ? "" : String(use)), free || use === UNKNOWN ? "" : "%");
    write(cell.querySelector(".b-cell-memory"), memory === UNKNOWN ? free : String(memory), memory === UNKNOWN ? "" : "%");
  }
  function nodesShown(root) {
    if (!board) { return; }
    const elements = root.querySelectorAll("[data-node]");
    if (!elements.length) { return; }
    const starts = new Map();
    let start = 0;
    board.nodes.forEach((name, place) => { starts.set(name, [start, place]); start += board.gpus[place]; });
    elements.forEach((element) => {
      const [first, place] = starts.get(element.dataset.node) || [0, -1];
      if (place < 0) { return; }
      const cells = element.querySelectorAll(".b-cell");
      if (cells.length === board.gpus[place]) { cells.forEach((cell, index) => cellShown(cell, first + index)); }
      const heard = element.querySelector('time[data-format="age"]');
      if (heard && board.heard[place]) { set(heard, "datetime", new Date(board.heard[place] * 1000).toISOString()); }
    });
  }
  document.addEventListener("berth:board", () => nodesShown(holder));
  document.addEventListener("berth:enhance", (event) => { if (holder.contains(event.detail.root) || event.detail.root.contains(holder)) { nodesShown(holder); } });
  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", whole); } else { whole(); }
})();
