// The log viewer: reads on from a cursor whenever the job's stream says that there is more; follow, wrap, find, stream, run, part.
// Lines are text only: what a job prints never becomes markup.
(function () {
  "use strict";
  const Berth = window.Berth;
  const KEPT_LINES = 5000;
  let viewer = null;
  document.addEventListener("berth:enhance", begin); // a job that starts gets its log without a reload
  begin();
  function begin() {
    if (viewer && viewer.isConnected) { return; }
    viewer = document.querySelector("[data-log]");
    if (viewer) { view(viewer); }
  }
  function view(viewer) {
  const box = viewer.querySelector("[data-log-lines]");
  const find = (name) => viewer.querySelector(`[data-log-${name}]`);
  let cursor = ""; // opaque; "" is the tail's beginning as the server chooses it
  let stream = "";
  let reading = null; // the read under way; another attempt, rank or stream replaces it, and its answers are dropped
  let again = false;
  let follow = true;
  let reads = ""; // the attempt and rank whose output is shown

  // ---- reading -----------------------------------------------------------------------------------------------
  function address() {
    const url = new URL(viewer.dataset.url, window.location.href);
    const given = { attempt: find("attempt") && find("attempt").value, rank: find("rank") && find("rank").value, stream, offset: cursor };
    Object.entries(given).forEach(([name, value]) => { if (value) { url.searchParams.set(name, value); } });
    return url;
  }
  async function read() {
    if (reading) { again = true; return; }
    const mine = {};
    reading = mine;
    try {
      let more = true;
      while (more && reading === mine) {
        const answer = await fetch(address(), { credentials: "same-origin", headers: { Accept: "application/json" } });
        if (!answer.ok) { throw new Error(`status ${answer.status}`); }
        const page = await answer.json();
        if (reading !== mine) { return; }
        more = page.next !== "" && page.next !== cursor;
        cursor = page.next;
        append(page);
      }
    } catch (fault) {
      if (reading === mine) { note(`The log could not be read (${fault.message}). It is tried again with the next event.`); }
    } finally {
      if (reading === mine) {
        reading = null;
        if (again) { again = false; read(); }
      }
    }
  }
  function restart() {
    reading = null;
    again = false;
    cursor = "";
    reads = shown();
    box.replaceChildren();
    const download = new URL(find("download").href);
    if (find("attempt")) { download.searchParams.set("attempt", find("attempt").value); find("download").href = download; }
    read();
  }

  // ---- showing -----------------------------------------------------------------------------------------------
  function part(className, text) {
    const element = document.createElement("span");
    element.className = className;
    element.textContent = text;
    return element;
  }
  function lineElement(line) {
    const element = document.createElement("div");
    element.className = "b-line";
    element.dataset.stream = line.stream;
    const at = line.at ? new Date(line.at) : null;
    const time = at ? `${Berth.clock(at)}.${Math.floor(at.getMilliseconds() / 100)}` : "";
    element.append(part("b-line-time", time), part("b-line-text", line.text));
    return element;
  }
  function note(text) {
    const old = box.querySelector(".b-log-note:not(.b-log-begin)");
    if (old) { old.remove(); }
    if (!text) { return; }
    box.append(part("b-line b-log-note", text));
  }
  function append(page) {
    const lines = document.createDocumentFragment();
    page.lines.forEach((line) => lines.append(lineElement(line)));
    note("");
    if (page.cut && !box.childElementCount) { box.append(part("b-line b-log-note b-log-begin", "Earlier lines are in the download.")); }
    box.querySelectorAll("[data-open]").forEach((line) => line.remove()); // they come again, as they are now
    page.open.forEach((line) => { const element = lineElement(line); element.dataset.open = ""; lines.append(element); });
    box.append(lines);
    const all = box.querySelectorAll(".b-line:not(.b-log-note)");
    for (let place = 0; place < all.length - KEPT_LINES; place += 1) { all[place].remove(); }
    if (all.length === 0) { note(page.ended ? "It printed nothing." : find("empty").dataset.logEmpty); }
    if (page.size_bytes !== null && page.size_bytes !== undefined) { find("size").textContent = size(page.size_bytes); }
    if (page.lines.length + page.open.length && query) { search(false); }
    if (follow) { box.scrollTop = box.scrollHeight; }
  }
  function size(bytes) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    const place = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
    return `${(bytes / 1000 ** place).toFixed(place ? 1 : 0)}\u00a0${units[place]}`;
  }

  // ---- follow and wrap -----------------------------------------------------------------------------------------
  function setFollow(value) {
    follow = value;
    if (find("follow")) { find("follow").setAttribute("aria-pressed", String(value)); } // one that has ended has no such button
    box.classList.toggle("b-log-read", !value); // who reads back has more room
    if (value) { box.scrollTop = box.scrollHeight; }
  }
  if (find("follow")) { find("follow").addEventListener("click", () => setFollow(!follow)); }
  box.addEventListener("wheel", (event) => { if (event.deltaY < 0 && follow) { setFollow(false); } }, { passive: true });
  box.addEventListener("keydown", (event) => { if (["ArrowUp", "PageUp", "Home"].includes(event.key)) { setFollow(false); } });
  find("wrap").addEventListener("click", (event) => {
    const wrapped = box.classList.toggle("b-log-wrap");
    event.currentTarget.setAttribute("aria-pressed", String(wrapped));
  });

  // ---- find --------------------------------------------------------------------------------------------------
  let query = "";
  let marks = [];
  let current = -1;
  function unmark() {
    box.querySelectorAll(".b-line-text mark").forEach((mark) => { const parent = mark.parentNode; mark.replaceWith(mark.textContent); parent.normalize(); });
  }
  function markLine(text) {
    const value = text.textContent;
    const lower = value.toLowerCase();
    let from = 0;
    const parts = [];
    for (let at = lower.indexOf(query); at !== -1; at = lower.indexOf(query, from)) {
      parts.push(value.slice(from, at));
      const mark = document.createElement("mark");
      mark.textContent = value.slice(at, at + query.length);
      parts.push(mark);
      from = at + query.length;
    }
    if (parts.length) { text.replaceChildren(...parts, value.slice(from)); }
  }
  function search(jump) {
    unmark();
    if (query) { box.querySelectorAll(".b-line-text").forEach(markLine); }
    marks = [...box.querySelectorAll("mark")];
    if (jump) { go(marks.length - 1); } else { current = Math.min(current, marks.length - 1); count(); }
  }
  function count() { find("matches").textContent = query ? (marks.length ? `${current + 1} of ${marks.length}` : "none") : ""; }
  function go(place) {
    if (marks[current]) { delete marks[current].dataset.current; }
    current = marks.length ? (place + marks.length) % marks.length : -1;
    if (marks[current]) { setFollow(false); marks[current].dataset.current = ""; marks[current].scrollIntoView({ block: "nearest", inline: "nearest" }); }
    count();
  }
  document.addEventListener("click", (event) => { // on a phone these stand in the head's menu
    const act = event.target.closest("[data-log-act]");
    if (!act) { return; }
    viewer.classList.toggle(`b-log-with-${act.dataset.logAct}`);
    act.closest("details").open = false;
    if (act.dataset.logAct === "find") { viewer.scrollIntoView({ block: "start" }); find("search").focus(); }
  });
  find("search").addEventListener("input", (event) => { query = event.target.value.toLowerCase(); search(true); });
  find("search").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); go(current + (event.shiftKey ? -1 : 1)); } });
  find("previous").addEventListener("click", () => go(current - 1));
  find("next").addEventListener("click", () => go(current + 1));

  // ---- choice of stream, attempt, rank --------------------------------------------------------------------------
  viewer.addEventListener("click", (event) => {
    const button = event.target.closest("[data-log-stream]");
    if (!button) { return; }
    viewer.querySelectorAll("[data-log-stream]").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    stream = button.dataset.logStream;
    restart();
  });
  const shown = () => ["attempt", "rank"].map((name) => (find(name) ? find(name).value : "")).join("/");
  viewer.addEventListener("change", (event) => { if (event.target.matches("[data-log-attempt], [data-log-rank]")) { restart(); } });
  document.addEventListener("berth:enhance", (event) => { // a new attempt is shown, unless the reader chose one
    if (event.detail.root.id === "log-choices" && shown() !== reads) { restart(); }
  });

  document.addEventListener("berth:event", (event) => { if (event.detail.stream === viewer.dataset.stream && event.detail.topic === "log") { read(); } });
  document.addEventListener("berth:resync", read);
  restart();
  }
})();
