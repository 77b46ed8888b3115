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

  // ---- a small cluster's cells and counts: the same numbers, written into what names jobs and counts GPUs --------------
  const UNKNOWN = 255, STEPS = 5;
  const figure = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f"); // as the server writes it
  const percent = (value) => `${value}\u00a0%`;
  function set(element, name, value) { if (element.getAttribute(name) !== value) { element.setAttribute(name, value); } }
  function cellShown(cell, at) { // how busy a held one is; whose it is, and whether it is, comes with the page's fragments
    const busy = [...cell.classList].find((name) => /^b-u\d$|^b-lazy$/.test(name));
    const use = board.use[at];
    if (!busy || use === UNKNOWN) { return; }
    const step = busy === "b-lazy" && use === 0 ? busy : `b-u${Math.min(STEPS, Math.floor(use * STEPS / 100) + 1)}`;
    if (step !== busy) { cell.classList.replace(busy, step); cell.textContent = ""; }
    const words = cell.title.replace(/, busy [^,]*/, `, busy ${percent(use)}`);
    set(cell, "title", words); set(cell, "aria-label", words);
  }
  function countsShown() {
    const sum = (name) => board.groups.type.reduce((total, group) => total + group[name], 0);
    const [held, computing, unmeasured, free, sharing] = ["held", "computing", "unmeasured", "idle", "sharing"].map(sum);
    const words = (counts, otherwise) => counts.filter(([count]) => count > 0).map(([count, word]) => `${figure(count)} ${word}`).join(", ") || otherwise;
    const notes = { held: words([[free, "free"], [sharing, "for sharing"], [sum("gpus") - held - free - sharing, "out"]], "none is free"),
      computing: words([[held - computing - unmeasured, "held, but idle"], [unmeasured, "not measured"]], "all that are held") };
    const put = (selector, text) => { const element = document.querySelector(selector); if (element && element.textContent !== text) { element.textContent = text; } };
    Object.entries({ held, computing }).forEach(([name, count]) => { put(`[data-board-count="${name}"]`, figure(count)); put(`[data-board-note="${name}"]`, notes[name]); });
    put("[data-board-held]", `of ${figure(held)}`);
  }
  function nodesShown(root) {
    if (!board) { return; }
    countsShown();
    const elements = root.querySelectorAll("[data-node]");
    if (!elements.length) { return; }
    const starts = new Map();
    let start = 0;
    board.nodes.forEach((name, place) => { starts.set(name, [start, place]); start += board.gpus[place]; });
    elements.forEach((element) => {
      const [first, place] = starts.get(element.dataset.node) || [0, -1];
      if (place < 0) { return; }
      const cells = element.querySelectorAll(".b-gpu");
      if (cells.length === board.gpus[place]) { cells.forEach((cell, index) => cellShown(cell, first + index)); }
      const heard = element.querySelector('time[data-format="age"]');
      if (heard && board.heard[place]) { set(heard, "datetime", new Date(board.heard[place] * 1000).toISOString()); }
    });
  }
  document.addEventListener("berth:board", () => nodesShown(holder));
  document.addEventListener("berth:enhance", (event) => { if (holder.contains(event.detail.root) || event.detail.root.contains(holder)) { nodesShown(holder); } });
  if (document.readyState === "loading") { document.addEventListener("DOMContentLoaded", whole); } else { whole(); }
})();
