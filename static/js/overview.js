// The overview's message to a job's owner: one dialog for all its buttons, so that no live update touches what is typed.
(function () {
  "use strict";
  const dialog = document.getElementById("ask-dialog");
  const text = document.getElementById("ask-text");
  let asked = null;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-ask]");
    if (button) {
      if (asked !== button.dataset.ask) { text.value = button.dataset.askText; }
      asked = button.dataset.ask;
      dialog.querySelector("[data-ask-name]").textContent = button.dataset.askTo;
      dialog.querySelector("form").action = button.dataset.askUrl;
      dialog.showModal();
      text.focus();
    } else if (event.target === dialog || event.target.closest("[data-ask-close]")) { dialog.close(); }
  });
  dialog.addEventListener("close", () => document.querySelector(`[data-ask="${CSS.escape(asked)}"]`)?.focus({ preventScroll: true }));
})();
