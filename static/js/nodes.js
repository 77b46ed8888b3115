// What an operator does to a node: one dialog for all of a page's Drain buttons, and one for its GPUs, above everything, so nothing
// clips it and no live update touches what is typed.
(function () {
  "use strict";
  let opener = null; // how to find the button again, which a live update may have made anew
  function open(dialog, selector) {
    opener = selector;
    dialog.showModal();
    dialog.querySelector("[required]").focus();
  }
  function drain(dialog, button) {
    const form = dialog.querySelector("form");
    if (dialog.dataset.node !== button.dataset.drain) { form.reset(); }
    dialog.dataset.node = button.dataset.drain;
    dialog.querySelector("[data-drain-name]").textContent = button.dataset.drain;
    form.action = button.dataset.drainUrl;
    dialog.querySelector("[data-dead-submit]").formAction = button.dataset.deadUrl;
    open(dialog, `[data-drain="${CSS.escape(button.dataset.drain)}"]`);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-drain], [data-dialog]");
    if (button && button.dataset.drain) {
      drain(document.getElementById("drain-dialog"), button);
    } else if (button) {
      open(document.getElementById(button.dataset.dialog), `[data-dialog="${button.dataset.dialog}"]`);
    } else if (event.target.matches("dialog") || event.target.closest("[data-dialog-close]")) { event.target.closest("dialog").close(); }
  });
  document.querySelectorAll("dialog").forEach((dialog) => dialog.addEventListener("close", () => {
    const button = opener && document.querySelector(opener);
    if (button) { button.focus({ preventScroll: true }); }
  }));
})();
