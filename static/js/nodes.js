// What an operator does to a node: one dialog for all of a page's Drain buttons, above everything, so nothing clips it and no
// live update touches what is typed.
(function () {
  "use strict";
  const dialog = document.getElementById("drain-dialog");
  if (!dialog) { return; }
  const form = document.getElementById("drain-form");
  let opener = null;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-drain]");
    if (button) {
      opener = button.dataset.drain;
      if (dialog.dataset.node !== opener) { form.reset(); }
      dialog.dataset.node = opener;
      dialog.querySelector("[data-drain-name]").textContent = opener;
      form.action = button.dataset.drainUrl;
      dialog.querySelector("[data-dead-submit]").formAction = button.dataset.deadUrl;
      dialog.showModal();
      document.getElementById("drain-reason").focus();
    } else if (event.target === dialog || event.target.closest("[data-drain-close]")) { dialog.close(); }
  });
  dialog.addEventListener("close", () => { // back to the button, which a live update may have made anew
    const button = opener && document.querySelector(`[data-drain="${CSS.escape(opener)}"]`);
    if (button) { button.focus({ preventScroll: true }); }
  });
})();
