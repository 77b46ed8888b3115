// The job list: selection with the bulk bar, and arrays that open on demand.
(function () {
  "use strict";
  const Berth = window.Berth;
  const form = document.querySelector("[data-bulk]");
  const bar = document.querySelector("[data-bulk-bar]");
  const WORDS = { PENDING: "waiting", HELD: "held", STARTING: "starting", RUNNING: "running", PREEMPTED: "preempted" };
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
  const opened = new Set(); // ids of opened arrays, kept over refetches
  async function open(button) {
    const row = button.closest("tr");
    button.setAttribute("aria-expanded", "true");
    try {
      const answer = await fetch(button.dataset.tasksUrl, { credentials: "same-origin", headers: { "HX-Request": "true" } });
      if (!answer.ok) { throw new Error(`status ${answer.status}`); }
      const holder = document.createElement("template");
      holder.innerHTML = await answer.text();
      holder.content.querySelectorAll("tr").forEach((task) => { task.dataset.parent = row.dataset.job; });
      row.after(holder.content);
      Berth.enhance(row.parentElement);
    } catch (fault) {
      button.setAttribute("aria-expanded", "false");
      opened.delete(row.dataset.job);
      Berth.toast(`The tasks could not be loaded (${fault.message}).`, "error");
    }
  }
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
  document.addEventListener("berth:enhance", (event) => {
    if (event.detail.root.id === "job-table") {
      event.detail.root.querySelectorAll("[data-tasks-url]").forEach((button) => { if (opened.has(button.closest("tr").dataset.job)) { open(button); } });
    }
    update();
  });
  update();
})();
