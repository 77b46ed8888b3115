// Keys of every page: `?` lists them, `g` and a letter within two seconds goes to a page. Typing into a field is left alone.
(() => {
  const PATIENCE_MS = 2000;
  const dialog = document.querySelector("dialog[data-keys]");
  if (!dialog) { return; }
  let back = null;
  let goUntil = 0;

  function open() {
    if (dialog.open || document.querySelector("dialog[open]")) { return; }
    back = document.activeElement;
    dialog.showModal();
  }
  dialog.addEventListener("close", () => { if (back && back.isConnected) { back.focus({ preventScroll: true }); } back = null; });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) { dialog.close(); } });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-action=keys]");
    if (!button) { return; }
    const menu = button.closest("details[data-menu]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
    open();
  });

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) { return; }
    if (event.key === "?") { event.preventDefault(); open(); return; }
    const going = event.timeStamp < goUntil;
    goUntil = event.key === "g" && !going ? event.timeStamp + PATIENCE_MS : 0;
    const link = going && /^[a-z]$/.test(event.key) && dialog.querySelector(`a[data-key="${event.key}"]`);
    if (link) { event.preventDefault(); link.click(); }
  });
})();
