// The laboratory's form shows only what belongs to the chosen source and cluster; the list allows a comparison of 2 to n; a
// simulation's page, once it has ended, is loaded anew with its answer.
(function () {
  "use strict";
  const form = document.querySelector("[data-simulation-form]");
  if (form) {
    const source = form.elements.source;
    const jobs = form.elements.jobs;
    const show = () => {
      const drawn = source.value.startsWith("generator:");
      form.querySelectorAll("[data-drawn]").forEach((element) => { element.hidden = !drawn; });
      form.querySelectorAll("[data-days]").forEach((element) => { element.hidden = source.value !== "history"; });
      if (!drawn && form.elements.cluster.value === "own") { form.elements.cluster.value = "here"; }
      form.querySelector("[data-described]").hidden = form.elements.cluster.value !== "described";
    };
    const suggest = () => { jobs.value = source.selectedOptions[0]?.dataset.jobs || ""; show(); };
    source.addEventListener("change", suggest);
    form.addEventListener("change", show);
    if (jobs.value) { show(); } else { suggest(); }
    form.querySelector("[autofocus]")?.focus(); // it may have been hidden until now
  }
  function count(list) {
    const chosen = list.querySelectorAll("input[name=run]:checked").length;
    const button = list.querySelector("[data-compare-button]");
    if (button) { button.disabled = chosen < 2 || chosen > Number(list.dataset.most); }
  }
  document.addEventListener("change", (event) => { const list = event.target.closest("[data-compare]"); if (list) { count(list); } });
  document.addEventListener("berth:enhance", (event) => {
    event.detail.root.querySelectorAll("[data-compare]").forEach(count);
    if (event.detail.root.matches?.("[data-until-ended]") && event.detail.root.querySelector("[data-ended]")) { window.location.reload(); }
  });
  document.querySelectorAll("[data-compare]").forEach(count);
})();
