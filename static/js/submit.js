// The submit form: which way GPUs are asked for, and Ctrl+Enter.
(function () {
  "use strict";
  const form = document.querySelector("[data-submit-form]");
  function showMode() {
    const chosen = form.querySelector('input[name="gpu_mode"]:checked');
    form.querySelectorAll("[data-gpu-mode]").forEach((part) => { part.hidden = !chosen || part.dataset.gpuMode !== chosen.value; });
  }
  form.addEventListener("change", showMode);
  form.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); } });
  showMode();
  const wrong = form.querySelector('[aria-invalid="true"]');
  if (wrong) { wrong.focus(); }
})();
