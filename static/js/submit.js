// The submit form: GPUs, what a press fills in, Ctrl+Enter, and its errors, which go as they are mended. Files: submit-files.js.
(function () {
  "use strict";
  const form = document.querySelector("[data-submit-form]");
  const summary = document.getElementById("form-errors");
  const fields = form.elements;
  const told = (element) => element.dispatchEvent(new Event("input", { bubbles: true })); // the answer beside the form follows

  // ---- GPUs: one count, others that it may also run on, or a range; and where code comes from ---------------------
  const counts = [...form.querySelectorAll("input[type=radio][name=gpus]")];
  const ends = ["gpus.min", "gpus.max"].map((name) => fields[name]).filter(Boolean);
  function showMode() {
    const chosen = counts.find((each) => each.checked);
    form.querySelectorAll("[data-also]").forEach((part) => { // it runs on the chosen count in any case
      part.hidden = Boolean(chosen) && part.dataset.also === chosen.value;
      if (part.hidden) { part.querySelector("input").checked = false; }
    });
    form.querySelectorAll("[data-shown-by]").forEach((part) => { part.hidden = !form.querySelector(`input[name="${part.dataset.shownBy}"][value="${part.dataset.shownFor}"]:checked`); });
  }
  form.addEventListener("input", (event) => {
    if (counts.includes(event.target)) { ends.forEach((end) => { end.value = ""; }); }
    if (ends.includes(event.target)) {
      const isRange = ends.some((end) => end.value.trim());
      form.querySelectorAll("input[name=gpus]").forEach((each) => { each.checked = !isRange && each.value === "1" && counts.includes(each); });
    }
    form.querySelectorAll("[data-submit]").forEach((button) => { button.disabled = false; }); // until the next answer
    showMode();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented && !document.querySelector("dialog[open]")) { event.preventDefault(); form.requestSubmit(); }
  });
  showMode();

  // ---- presses ---------------------------------------------------------------------------------------------------
  function fill(values) {
    for (const [name, value] of Object.entries(values)) {
      const count = name === "gpus" && counts.find((each) => each.value === value);
      if (count) { form.querySelectorAll("input[name=gpus]").forEach((each) => { each.checked = each === count; }); } else { fields[name].value = value; }
    }
  }
  document.addEventListener("click", (event) => {
    const use = event.target.closest("[data-use]");
    const opens = event.target.closest("[data-opens]");
    if (opens) { document.getElementById(opens.dataset.opens).showModal(); }
    if (use) { fill(JSON.parse(use.dataset.use)); (counts.find((each) => each.checked) || form).focus(); told(form); }
  });

  // ---- errors ----------------------------------------------------------------------------------------------------
  const changed = new Set(); // fields that the reader changed: only these get new errors before the form is sent
  let problems = {};
  const names = () => [...form.querySelectorAll("[data-field]")].map((part) => part.dataset.field);
  const slot = (name) => document.getElementById(`error_${name}`);
  const isWrong = (name) => { const place = slot(name); return Boolean(place) && !place.hidden; };
  const open = (part) => { const row = part.closest("details"); if (row) { row.open = true; } };

  function mark(name, detail) {
    const place = slot(name);
    const text = place.querySelector("[data-error]");
    if (text.textContent !== (detail || "")) { text.textContent = detail || ""; }
    place.hidden = !detail;
    if (detail) { open(place); }
    const control = document.getElementById(`id_${name}`);
    if (!control) { return; }
    if (detail) { control.setAttribute("aria-invalid", "true"); } else { control.removeAttribute("aria-invalid"); }
  }
  function listed(name, detail) { // the summary's line of a field follows the field
    const line = summary.querySelector(`[data-problem="${CSS.escape(name)}"]`);
    if (!line) { return; }
    if (!detail) { line.remove(); } else if (line.lastChild.nodeType === Node.TEXT_NODE) { line.lastChild.textContent = `${line.querySelector("a") ? ": " : ""}${detail}`; }
    const left = summary.querySelectorAll("li").length;
    summary.hidden = left === 0;
    summary.querySelector("[data-problem-title]").textContent = `${left} thing${left === 1 ? "" : "s"} to correct; nothing was submitted`;
  }
  function follow() {
    names().forEach((name) => {
      if (name === "files" || !slot(name)) { return; } // files are judged where they are chosen, and when the form is sent
      const detail = problems[name];
      if (isWrong(name) || (detail && changed.has(name))) { mark(name, detail); }
      listed(name, detail);
    });
    listed("", problems[""]);
  }
  form.addEventListener("change", (event) => {
    const part = event.target.closest("[data-field]");
    if (part) { changed.add(part.dataset.field); follow(); }
  });
  form.addEventListener("htmx:beforeRequest", () => { // a slow answer is no empty form
    const words = document.querySelector("#dry-run > .b-pad > .b-over + .b-sub");
    if (words && fields.command?.value.trim()) { words.textContent = "It is being worked out."; }
  });
  document.addEventListener("htmx:oobAfterSwap", (event) => {
    const answer = event.detail.target.id === "form-problems" && document.getElementById("form-problems").dataset;
    if (!answer) { return; }
    problems = JSON.parse(answer.problems);
    follow();
    form.querySelectorAll("[data-submit]").forEach((button) => {
      button.textContent = "anyway" in answer ? "Submit anyway" : "Submit";
      button.disabled = "blocks" in answer;
    });
  });
  window.Berth.fileProblem = (detail) => { mark("files", detail); listed("files", detail); };

  // ---- the summary leads to the fields ---------------------------------------------------------------------------
  summary.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const control = link && document.getElementById(link.getAttribute("href").slice(1));
    if (!control) { return; }
    event.preventDefault();
    open(control);
    control.focus();
    control.scrollIntoView({ block: "center" });
  });
  form.querySelectorAll(".b-error:not([hidden])").forEach(open); // rows are as the reader left them, but for those
  if (!summary.hidden) { summary.focus(); }
})();
