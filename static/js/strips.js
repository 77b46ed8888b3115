// Groups of nodes with a strip a node, drawn on one canvas a group from the board's numbers. Pointing or the arrow keys show a
// node, a press or Enter keeps its card open, Escape closes it. Colours come from the stylesheet's variables. Each group has its
// nodes as a table too, fetched when it is opened.
(function () {
  "use strict";
  const Berth = window.Berth;
  const root = document.querySelector("[data-strips]");
  if (!root) { return; }
  const CELL_W = 4, CELL_H = 8, ROW = 8, GAP_X = 8, GAP_Y = 3, PAD = 3;
  const PITCH_X = CELL_W * ROW + GAP_X, PITCH_Y = CELL_H + GAP_Y;
  const UNKNOWN = 255, HELD = 0, IDLE = 1, KEPT = 2, SHARING = 4;
  const HEALTH = ["up", "low on disk", "drained", "unreachable", "declared dead"];
  const SILENT = 3; // unreachable and worse are struck through
  const BY_WORDS = { type: "GPU type", rack: "Rack", label: "Label" };
  const SHOW_WORDS = { use: "Use now", memory: "Memory now" };
  const space = root.querySelector("[data-board-groups]");
  const card = root.querySelector("[data-board-card]");
  const THIN = "\u202f";
  let by = root.dataset.by, show = root.dataset.show;
  let board = null, starts = [], colours = null;
  let rows = []; // one a group: {element, canvas, places, columns, offsets}
  let pointed = null, chosen = null, cardOf = null, asked = 0;

  const number = (value) => (value === null || value === undefined ? "\u2013" : String(value).replace(/\B(?=(\d{3})+(?!\d))/g, THIN));
  const count = (value) => (value ? number(value) : "\u2013");
  const apart = (sharing) => (sharing ? `, ${number(sharing)} for jobs that share a GPU` : "");
  const tenth = (value) => (value === null || value === undefined ? "\u2013" : value.toFixed(1));
  const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--b-${name}`).trim();
  function coloursRead() {
    const ramp = document.documentElement.dataset.live === "stale" ? "grey" : "ramp";
    colours = { steps: [1, 2, 3, 4, 5].map((step) => token(`${ramp}-${step}`)), idle: token("control"), surface: token("surface"), kept: token("run-weak"),
      keptEdge: token("plot-3"), out: token("grey-2"), struck: token("fail"), accent: token("accent"), text: token("text") };
  }

  // ---- the frame: a row a group ------------------------------------------------------------------------------------
  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) { made.className = className; }
    if (text !== undefined) { made.textContent = text; }
    return made;
  }
  function frame() {
    const wanted = board.groups[by];
    root.querySelector("[data-by-word]").textContent = BY_WORDS[by];
    const loading = root.querySelector("[data-board-loading]");
    if (loading) { loading.remove(); }
    rows.forEach((row) => { row.watcher.disconnect(); row.element.remove(); });
    rows = wanted.map((group, place) => {
      const made = root.querySelector("[data-board-row]").content.firstElementChild.cloneNode(true);
      const table = element("div", "b-board-table");
      table.hidden = true;
      table.setAttribute("role", "cell");
      table.id = `board-table-${place}`;
      made.querySelector(".b-board-open").setAttribute("aria-controls", table.id);
      made.append(table);
      space.append(made);
      const row = { element: made, table, canvas: made.querySelector("canvas"), place, title: group.title };
      row.watcher = new ResizeObserver(() => layout(row));
      row.watcher.observe(made.querySelector(".b-board-strips"));
      made.querySelector(".b-board-open").addEventListener("click", () => toggle(row));
      return row;
    });
    rows.forEach(listen);
  }
  function figures() {
    board.groups[by].forEach((group, place) => {
      const part = (selector) => rows[place].element.querySelector(selector);
      part("strong").textContent = group.title;
      part("small").textContent = `${number(group.nodes)} node${group.nodes === 1 ? "" : "s"}, ${number(group.gpus)} GPUs`;
      const spans = rows[place].element.querySelectorAll(".b-board-active > span");
      spans[0].textContent = tenth(group.active); spans[1].textContent = tenth(group.cores);
      rows[place].element.querySelectorAll(".b-board-active .b-bar-fill").forEach((fill, which) => fill.setAttribute("width", `${(which ? group.cores : group.active) || 0}%`));
      part(".b-board-idle").textContent = count(group.idle);
      part(".b-board-kept").textContent = count(group.kept);
      part(".b-board-short").textContent = count(group.short);
      if (group.gpus) { part(".b-board-short").append(element("small", "", `largest block ${group.largest}`)); }
      rows[place].canvas.setAttribute("aria-label", `${group.title}: ${group.nodes} nodes, ${group.up} up, ${group.gpus} GPUs, ${group.held} held, ${group.idle} idle${apart(group.sharing)}; active ${tenth(group.active)} %. Arrow keys move from node to node, Enter opens one.`);
    });
    const all = board.groups[by].reduce((sum, group) => ({ idle: sum.idle + group.idle, sharing: sum.sharing + group.sharing, kept: sum.kept + group.kept, held: sum.held + group.held, gpus: sum.gpus + group.gpus }), { idle: 0, sharing: 0, kept: 0, held: 0, gpus: 0 });
    root.querySelector("[data-board-total]").textContent = `All ${number(board.nodes.length)} nodes: ${number(all.held)} of ${number(all.gpus)} GPUs held, ${number(all.idle)} idle${all.kept ? `, ${number(all.kept)} of them kept for jobs` : ""}${apart(all.sharing)}.`;
    const health = HEALTH.map((word, code) => [board.health.filter((each) => each === code).length, word]).filter(([many]) => many);
    root.querySelector("[data-board-note]").textContent = health.map(([many, word]) => `${number(many)} ${word}`).join(", ");
  }

  // ---- drawing -----------------------------------------------------------------------------------------------------
  // A node with more than eight GPUs takes several lines of eight.
  const lines = (place) => Math.max(1, Math.ceil(board.gpus[place] / ROW));
  function layout(row) {
    if (!board) { return; }
    row.places = board.order[by][row.place] || [];
    const width = row.canvas.parentElement.clientWidth;
    row.columns = Math.max(1, Math.floor((width - 2 * PAD + GAP_X) / PITCH_X));
    row.tall = row.places.reduce((most, place) => Math.max(most, lines(place)), 1);
    const height = Math.ceil(row.places.length / row.columns) * row.tall * PITCH_Y + 2 * PAD;
    const scale = window.devicePixelRatio || 1;
    row.canvas.width = Math.round(width * scale); row.canvas.height = Math.round(height * scale);
    row.canvas.style.width = `${width}px`; row.canvas.style.height = `${height}px`;
    draw(row);
  }
  function corner(row, at) { return [PAD + (at % row.columns) * PITCH_X, PAD + Math.floor(at / row.columns) * row.tall * PITCH_Y]; }
  function draw(row) {
    const scale = window.devicePixelRatio || 1;
    const pen = row.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, row.canvas.width, row.canvas.height);
    const values = board[show];
    row.places.forEach((place, at) => {
      const [x, y] = corner(row, at);
      const total = board.gpus[place];
      for (let gpu = 0; gpu < total; gpu += 1) {
        const left = x + (gpu % ROW) * CELL_W, top = y + Math.floor(gpu / ROW) * PITCH_Y;
        const index = starts[place] + gpu, state = board.state[index], value = values[index];
        if (state === HELD) { pen.fillStyle = value === UNKNOWN ? colours.steps[0] : colours.steps[Math.min(4, Math.floor(value / 20))]; pen.fillRect(left, top, CELL_W, CELL_H); continue; }
        if (state === SHARING) { pen.strokeStyle = colours.out; pen.lineWidth = 1; pen.strokeRect(left + 0.5, top + 0.5, CELL_W - 1, CELL_H - 1); continue; }
        if (state === IDLE || state === KEPT) {
          pen.fillStyle = state === KEPT ? colours.kept : colours.surface; pen.fillRect(left, top, CELL_W, CELL_H);
          pen.strokeStyle = state === KEPT ? colours.keptEdge : colours.idle; pen.lineWidth = 1; pen.strokeRect(left + 0.5, top + 0.5, CELL_W - 1, CELL_H - 1);
          continue;
        }
        pen.fillStyle = colours.out; pen.fillRect(left, top, CELL_W, CELL_H);
      }
      const wide = Math.min(ROW, total) * CELL_W, high = (lines(place) - 1) * PITCH_Y + CELL_H;
      if (!total) { pen.strokeStyle = colours.idle; pen.lineWidth = 1; pen.strokeRect(x + 0.5, y + CELL_H / 2, CELL_W * 2, 1); }
      if (board.health[place] >= SILENT) { pen.strokeStyle = colours.struck; pen.lineWidth = 1.5; pen.beginPath(); pen.moveTo(x, y + high); pen.lineTo(x + (wide || CELL_W * 2), y); pen.stroke(); }
      const name = board.nodes[place];
      if (name === chosen || name === pointed) {
        pen.strokeStyle = name === chosen ? colours.accent : colours.text; pen.lineWidth = name === chosen ? 2 : 1;
        pen.strokeRect(x - 2, y - 2, (wide || CELL_W * 2) + 4, high + 4);
      }
    });
  }
  function drawAll() { rows.forEach((row) => { if (row.places) { draw(row); } }); }

  // ---- pointing, keys, the card --------------------------------------------------------------------------------------
  function nodeAt(row, event) {
    const box = row.canvas.getBoundingClientRect();
    const x = event.clientX - box.left - PAD, y = event.clientY - box.top - PAD;
    const column = Math.floor((x + GAP_X / 2) / PITCH_X), line = Math.floor((y + GAP_Y / 2) / (row.tall * PITCH_Y));
    if (column < 0 || column >= row.columns || line < 0) { return -1; }
    const at = line * row.columns + column;
    return at < row.places.length ? at : -1;
  }
  function listen(row) {
    const canvas = row.canvas;
    canvas.addEventListener("pointermove", (event) => { if (event.pointerType !== "touch") { point(row, nodeAt(row, event)); } });
    canvas.addEventListener("pointerleave", () => point(row, -1));
    canvas.addEventListener("click", (event) => { const at = nodeAt(row, event); if (at >= 0) { row.at = at; choose(row, at); } });
    canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row.columns, ArrowUp: -row.columns, Home: -Infinity, End: Infinity };
      if (event.key in steps) {
        event.preventDefault();
        const from = row.at === undefined ? (steps[event.key] > 0 ? -1 : 1) : row.at;
        row.at = Math.min(row.places.length - 1, Math.max(0, from + (row.at === undefined ? Math.sign(steps[event.key]) : steps[event.key])));
        point(row, row.at);
        root.querySelector("[data-board-said]").textContent = said(row.places[row.at]);
        if (chosen) { choose(row, row.at); }
      } else if ((event.key === "Enter" || event.key === " ") && row.at !== undefined) { event.preventDefault(); choose(row, row.at, true); }
    });
    canvas.addEventListener("blur", () => { if (!chosen) { point(row, -1); } });
  }
  function said(place) {
    const total = board.gpus[place], states = board.state.slice(starts[place], starts[place] + total);
    const idle = states.filter((state) => state === IDLE || state === KEPT).length, sharing = states.filter((state) => state === SHARING).length;
    return `${board.nodes[place]}, ${HEALTH[board.health[place]]}, ${total} GPUs, ${states.filter((state) => state === HELD).length} held, ${idle} idle${apart(sharing)}`;
  }
  let resting = 0;
  function point(row, at) {
    const name = at < 0 ? null : board.nodes[row.places[at]];
    if (name === pointed) { return; }
    pointed = name;
    row.canvas.title = name ? said(row.places[at]) : "";
    draw(row);
    clearTimeout(resting);
    if (chosen) { return; }
    if (name === null) { resting = setTimeout(() => { if (!chosen && !card.matches(":hover")) { closeCard(); } }, 200); return; }
    resting = setTimeout(() => open(row, at), 150); // a pointer that only passes by fetches nothing
  }
  function choose(row, at, focus) {
    chosen = board.nodes[row.places[at]];
    drawAll();
    open(row, at, focus);
  }
  async function open(row, at, focus) {
    const name = board.nodes[row.places[at]];
    const mine = ++asked;
    cardOf = { row, at, name };
    const html = await cardHtml(name);
    if (mine !== asked || html === null) { return; }
    card.innerHTML = html;
    card.hidden = false;
    stand(row, at);
    Berth.enhance(card);
    if (focus) { const link = card.querySelector("a"); if (link) { link.focus({ preventScroll: true }); } }
  }
  async function cardHtml(name) {
    try {
      const answer = await fetch(root.dataset.cardUrl.replace("NODE", encodeURIComponent(name)), { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
      if (answer.redirected) { window.location.reload(); return null; }
      return answer.ok ? await answer.text() : element("p", "b-note b-board-loading", answer.status === 404 ? "This node is gone." : `The server answered ${answer.status}.`).outerHTML;
    } catch (unreachable) {
      return null; // the socket says that the connection is lost
    }
  }
  function stand(row, at) { // to the side with room, and never over its own strip
    const [x, y] = corner(row, at);
    const canvasBox = row.canvas.getBoundingClientRect(), rootBox = root.getBoundingClientRect();
    const width = card.offsetWidth, height = card.offsetHeight;
    const left = Math.min(Math.max(8, canvasBox.left - rootBox.left + x - width / 2), rootBox.width - width - 8);
    const below = canvasBox.top - rootBox.top + y + row.tall * PITCH_Y + 5;
    const above = canvasBox.top - rootBox.top + y - height - 7;
    const fits = canvasBox.top + y + row.tall * PITCH_Y + 5 + height <= window.innerHeight;
    card.style.left = `${Math.max(8, left)}px`;
    card.style.top = `${fits || canvasBox.top + y - height < 60 ? below : above}px`;
  }
  function closeCard() {
    asked += 1;
    chosen = null; pointed = null; cardOf = null;
    card.hidden = true;
    drawAll();
  }
  card.addEventListener("click", (event) => { if (event.target.closest("[data-card-close]")) { const back = cardOf; closeCard(); if (back) { back.row.canvas.focus({ preventScroll: true }); } } });
  card.addEventListener("pointerleave", () => { if (!chosen) { closeCard(); } });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !card.hidden && !document.querySelector("dialog[open]")) { const back = cardOf; closeCard(); if (back) { back.row.canvas.focus({ preventScroll: true }); } } });
  document.addEventListener("click", (event) => { if (chosen && !root.contains(event.target) && !event.target.closest("dialog")) { closeCard(); } });
  let renewing = false;
  async function renewCard(change) { // its figures while it is open, if they changed
    if (card.hidden || !cardOf || renewing || document.hidden) { return; }
    const place = board.nodes.indexOf(cardOf.name);
    const from = starts[place], to = from + board.gpus[place];
    const touched = ["active", "use", "memory", "state"].some((name) => (change[name] || []).some((value, at) => at % 2 === 0 && value >= from && value < to));
    if (!touched) { return; }
    renewing = true;
    const name = cardOf.name, html = await cardHtml(name);
    renewing = false;
    if (html !== null && cardOf && cardOf.name === name && !card.hidden) { await Berth.swap(card, html); }
  }

  // ---- a group as a table ------------------------------------------------------------------------------------------
  function refused(row, words) { row.table.replaceChildren(element("p", "b-note b-board-loading", `${words} Close the table and open it again.`)); }
  async function table(row, url) {
    row.table.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(url, { headers: { "X-Requested-With": "fetch" }, credentials: "same-origin" });
      if (answer.redirected) { window.location.reload(); return; }
      if (answer.ok) { row.table.innerHTML = await answer.text(); } else { refused(row, `The server answered ${answer.status}.`); }
    } catch (unreachable) {
      refused(row, "The server cannot be reached.");
    }
    row.table.removeAttribute("aria-busy");
    Berth.enhance(row.table);
  }
  function toggle(row) {
    const button = row.element.querySelector(".b-board-open");
    const opens = row.table.hidden;
    row.table.hidden = !opens;
    button.setAttribute("aria-expanded", String(opens));
    button.textContent = opens ? "Close the table" : "Show as table";
    if (opens) { table(row, `${root.dataset.rowsUrl}?${new URLSearchParams({ by, group: row.title })}`); } else { row.table.replaceChildren(); }
  }
  space.addEventListener("click", (event) => {
    const button = event.target.closest("[data-rows-page]");
    const row = button && rows.find((each) => each.table.contains(button));
    if (row && button.dataset.rowsPage) { table(row, button.dataset.rowsPage); }
  });

  // ---- switches ----------------------------------------------------------------------------------------------------
  function press(control, value) { control.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === value))); }
  const shows = root.querySelector("[data-strip-switch]"), groupings = root.querySelector("[data-by-switch]");
  function keep(name, value) { try { localStorage.setItem(name, value); } catch (blocked) { /* then it holds for this page only */ } }
  function kept(name) { try { return localStorage.getItem(name); } catch (blocked) { return null; } }
  function showAs(value) {
    show = value; root.dataset.show = value;
    press(shows, value);
    root.querySelector("[data-show-word]").textContent = SHOW_WORDS[value] || shows.dataset.activeWord;
    if (board) { drawAll(); }
  }
  function groupBy(value) {
    by = value;
    press(groupings, value);
    if (board) { closeCard(); frame(); figures(); rows.forEach(layout); }
  }
  shows.addEventListener("click", (event) => { const button = event.target.closest("button"); if (button) { showAs(button.dataset.value); keep("berth-cells", button.dataset.value); } });
  if (groupings) { groupings.addEventListener("click", (event) => { const button = event.target.closest("button"); if (button) { groupBy(button.dataset.value); keep("berth-by", button.dataset.value); } }); }
  const offered = (control, value) => control && value && control.querySelector(`[data-value="${CSS.escape(value)}"]`);
  if (offered(shows, kept("berth-cells"))) { showAs(kept("berth-cells")); }
  if (offered(groupings, kept("berth-by"))) { by = kept("berth-by"); press(groupings, by); }

  // ---- the feed ----------------------------------------------------------------------------------------------------
  let frameAsked = false;
  document.addEventListener("berth:board", (event) => {
    board = event.detail.board;
    const change = event.detail.change;
    if (!colours) { coloursRead(); }
    if (!board.groups[by]) { by = "type"; }
    if (change === null) { // another shape, or the first
      let at = 0;
      starts = board.gpus.map((total) => { const start = at; at += total; return start; });
      const titles = board.groups[by].map((group) => group.title).join("\n");
      if (titles !== rows.map((row) => row.title).join("\n")) { frame(); }
      figures();
      rows.forEach(layout);
      return;
    }
    if (change.groups || change.health) { figures(); }
    if (!frameAsked) { frameAsked = true; requestAnimationFrame(() => { frameAsked = false; drawAll(); }); }
    renewCard(change);
  });
  document.addEventListener("berth:theme", () => { coloursRead(); if (board) { drawAll(); } });
})();
