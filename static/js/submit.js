// The submit form: which way GPUs are asked for, Ctrl+Enter, and its errors, which go as they are mended. Files: submit-files.js.
(function () {
  "use strict";
  const form = document.querySelector("[data-submit-form]");
  const summary = document.getElementById("form-errors");

  // ---- ways to ask for GPUs, and where code comes from ------------------------------------------------------------------------------------
  function showMode() {
    const chosen = form.querySelector('input[name="gpu_mode"]:checked');
    form.querySelectorAll("[data-gpu-mode]").forEach((part) => { part.hidden = !chosen || !part.dataset.gpuMode.split(" ").includes(chosen.value); });
    form.querySelectorAll("[data-shown-by]").forEach((part) => { part.hidden = !form.querySelector(`input[name="${part.dataset.shownBy}"][value="${part.dataset.shownFor}"]:checked`); });
  }
  form.addEventListener("change", showMode);
  form.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); } });
  showMode();
  form.addEventListener("click", (event) => { // what earlier jobs needed, taken by one press
    const take = event.target.closest("[data-take]");
    if (!take) { return; }
    const field = document.getElementById("id_cores_per_gpu");
    field.value = take.dataset.take;
    field.focus();
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // ---- errors --------------------------------------------------------------------------------------------------
  const changed = new Set(); // fields that the reader changed: only these get new errors before the form is sent
  const partOf = (name) => form.querySelector(`[data-field="${CSS.escape(name)}"]`);
  const names = () => [...form.querySelectorAll("[data-field]")].map((part) => part.dataset.field);
  const slot = (name) => document.getElementById(`error_${name}`);
  const isWrong = (name) => { const place = slot(name); return Boolean(place) && !place.hidden; };

  function mark(name, detail) {
    const place = slot(name);
    const text = place.querySelector("[data-error]");
    if (text.textContent !== (detail || "")) { text.textContent = detail || ""; }
    place.hidden = !detail;
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
  function follow(problems) {
    names().forEach((name) => {
      if (name === "files" || !slot(name)) { return; } // files are judged where they are chosen, and when the form is sent
      const detail = problems[name];
      if (isWrong(name) || (detail && changed.has(name))) { mark(name, detail); }
      listed(name, detail);
    });
    listed("", problems[""]);
  }
  form.addEventListener("change", (event) => { const part = event.target.closest("[data-field]"); if (part) { changed.add(part.dataset.field); } });
  document.addEventListener("htmx:oobAfterSwap", (event) => { if (event.detail.target.id === "form-problems") { follow(JSON.parse(document.getElementById("form-problems").dataset.problems)); } });
  window.Berth.fileProblem = (detail) => { mark("files", detail); listed("files", detail); };

  // ---- the summary leads to the fields ---------------------------------------------------------------------------
  function show(control) {
    const folded = control.closest("details");
    if (folded) { folded.open = true; }
    control.focus();
    control.scrollIntoView({ block: "center" });
  }
  summary.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const control = link && document.getElementById(link.getAttribute("href").slice(1));
    if (control) { event.preventDefault(); show(control); }
  });
  if (!summary.hidden) { summary.focus(); }
})();
