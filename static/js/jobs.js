// The job list: selection with the bulk bar, and arrays that open on demand.
(function () {
  "use strict";
  const Berth = window.Berth;
  const form = document.querySelector("[data-bulk]");
  const bar = document.querySelector("[data-bulk-bar]");
  const WORDS = { PENDING: "waiting", HELD: "held", STARTING: "starting", RUNNING: "running", PREEMPTED: "stopped for another job" };
  const boxes = () => [...form.querySelectorAll(".b-row-check")];

  function words(selected) {
    const counts = new Map();
    selected.forEach((box) => { const word = WORDS[box.dataset.state] || "ended"; counts.set(word, (counts.get(word) || 0) + 1); });
    return [...counts].map(([word, count]) => `${count} ${word}`).join(", ");
  }
  function update() {
    const all = boxes();
    const selected = all.filter((box) => box.checked);
    const master = form.querySelector("[data-check-all]");
    if (master) { master.checked = selected.length > 0 && selected.length === all.length; master.indeterminate = selected.length > 0 && selected.length < all.length; }
    bar.hidden = selected.length === 0;
    bar.querySelector("[data-bulk-count]").textContent = `${selected.length} selected`;
    bar.querySelector("[data-bulk-words]").textContent = words(selected);
    const compare = bar.querySelector("[data-bulk-compare]");
    const fits = selected.length >= 2 && selected.length <= 4;
    if (fits) { compare.href = `${compare.dataset.bulkCompare}?${new URLSearchParams(selected.map((box) => ["job", box.value]))}`; } else { compare.removeAttribute("href"); }
    compare.setAttribute("aria-disabled", String(!fits));
    compare.title = fits ? "" : compare.dataset.none;
    bar.querySelectorAll("[data-bulk-action]").forEach((button) => {
      const count = selected.filter((box) => box.dataset.actions.split(" ").includes(button.dataset.bulkAction)).length;
      button.querySelector(".b-count").textContent = count;
      button.disabled = count === 0;
      button.title = count === 0 ? button.dataset.none : "";
    });
  }
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-check-all]")) { boxes().forEach((box) => { box.checked = event.target.checked; }); }
    update();
  });
  bar.querySelector("[data-bulk-clear]").addEventListener("click", () => { boxes().forEach((box) => { box.checked = false; }); update(); });

  // ---- arrays ------------------------------------------------------------------------------------------------
  const opened = new Set(); // ids of opened arrays: live updates bring their tasks along
  async function tasksOf(button) {
    const answer = await fetch(button.dataset.tasksUrl, { credentials: "same-origin", headers: { "HX-Request": "true" } });
    if (!answer.ok) { throw new Error(`status ${answer.status}`); }
    const holder = document.createElement("template");
    holder.innerHTML = await answer.text();
    holder.content.querySelectorAll("tr").forEach((task) => { task.dataset.parent = button.closest("tr").dataset.job; });
    return holder.content;
  }
  async function open(button) {
    const row = button.closest("tr");
    button.setAttribute("aria-expanded", "true");
    try {
      const tasks = await tasksOf(button);
      if (!opened.has(row.dataset.job) || form.querySelector(`tr[data-parent="${CSS.escape(row.dataset.job)}"]`)) { return; } // closed again, or a live update was faster
      row.after(tasks);
      Berth.enhance(row.parentElement);
    } catch (fault) {
      button.setAttribute("aria-expanded", "false");
      closed(row.dataset.job, fault);
    }
  }
  function closed(id, fault) {
    opened.delete(id);
    Berth.toast(`The tasks of #${id} could not be loaded (${fault.message}).`);
  }
  Berth.fillers.push(async (element, content) => {
    const folds = [...content.querySelectorAll("[data-tasks-url]")].filter((button) => opened.has(button.closest("tr").dataset.job));
    await Promise.all(folds.map(async (button) => {
      const row = button.closest("tr");
      const tasks = await tasksOf(button).catch((fault) => closed(row.dataset.job, fault));
      if (!tasks || !opened.has(row.dataset.job)) { return; }
      button.setAttribute("aria-expanded", "true");
      row.after(tasks);
    }));
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-tasks-url]");
    if (!button) { return; }
    const id = button.closest("tr").dataset.job;
    if (button.getAttribute("aria-expanded") === "true") {
      opened.delete(id);
      button.setAttribute("aria-expanded", "false");
      form.querySelectorAll("tr[data-parent]").forEach((task) => { if (task.dataset.parent === id) { task.remove(); } });
      update();
    } else { opened.add(id); open(button); }
  });
  document.addEventListener("berth:enhance", update);
  update();

  // ---- j and k go to the next job and back; Enter opens it as it does any link -----------------------------------
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    const step = { j: 1, k: -1 }[event.key];
    if (!step || typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) { return; }
    const rows = [...form.querySelectorAll("tr[data-job]")];
    const at = rows.indexOf(document.activeElement.closest("tr"));
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
    next?.querySelector(".b-jobname a").focus();
    next?.scrollIntoView({ block: "nearest" });
  });
})();

// The column picker: which columns, in which order; the form sends them as they stand.
(function () {
  "use strict";
  const form = document.querySelector("[data-columns]");
  if (!form) { return; }
  form.querySelectorAll("[data-always]").forEach((box) => {
    box.addEventListener("click", (event) => { event.preventDefault(); });
    box.title = "This column always stands";
  });
  form.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    if (!button) { return; }
    const item = button.closest("li");
    const beside = button.dataset.move === "-1" ? item.previousElementSibling : item.nextElementSibling;
    if (!beside) { return; }
    if (button.dataset.move === "-1") { beside.before(item); } else { beside.after(item); }
    button.focus();
  });
})();
