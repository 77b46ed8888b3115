// Live updates change only what changed: the new fragment is morphed into the old one, so that focus, selection, scroll, opened
// details, ticked boxes and half-typed fields stay with the reader. `data-keep` marks what the page's scripts fill: it is left alone.
(function () {
  "use strict";
  const Berth = window.Berth;
  const KEY = "key:"; // ids given here, so that a thing is found again when its neighbours come and go
  const CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, form[action], [data-figure-url], tr[data-job]"; // a job's row: else a new one is made of it when many come and go at once
  const PRESS_MS = 2000; // a longer press is a selection or a mistake, and morphing keeps those

  // ---- which thing is which -----------------------------------------------------------------------------------
  function signature(element, root) {
    const form = element.closest("form[action]"); // one outside the fragment is outside the new content too
    const own = ["href", "action", "name", "value", "aria-label", "data-figure-url", "data-tasks-url", "data-job"].map((name) => (element.tagName === "INPUT" && name === "value" && !/^(checkbox|radio)$/.test(element.type) ? "" : element.getAttribute(name) || ""));
    const words = /^(BUTTON|SUMMARY)$/.test(element.tagName) ? element.textContent.trim() : "";
    return [element.tagName, form && form !== element && root.contains(form) ? form.getAttribute("action") : "", ...own, words].join("|");
  }
  function name(root) {
    root.querySelectorAll(`[id^="${KEY}"]`).forEach((element) => element.removeAttribute("id"));
    const found = new Map();
    root.querySelectorAll(CONTROLS).forEach((element) => {
      if (element.id) { return; }
      const key = KEY + signature(element, root);
      found.set(key, found.has(key) ? null : element); // two alike are told apart by their place only
    });
    found.forEach((element, key) => { if (element) { element.id = key; } });
  }

  // ---- what the reader did stays --------------------------------------------------------------------------------
  function touched(control) {
    if (control.matches("input[type=checkbox], input[type=radio]")) { return control.checked !== control.defaultChecked; }
    if (control.matches("select")) { return [...control.options].some((option) => option.selected !== option.defaultSelected); }
    return control.matches("input:not([type=hidden]), textarea") && (control.value !== control.defaultValue || control === document.activeElement);
  }
  const READERS = new Set(["value", "checked", "selected"]);
  function copyAttributes(from, to, but) {
    for (const { name: attribute, value } of [...from.attributes]) { if (!READERS.has(attribute) && attribute !== but && to.getAttribute(attribute) !== value) { to.setAttribute(attribute, value); } }
    for (const { name: attribute } of [...to.attributes]) { if (!READERS.has(attribute) && attribute !== but && !from.hasAttribute(attribute)) { to.removeAttribute(attribute); } }
  }
  const chosen = new Map(); // select -> what the reader chose, while it is morphed
  const callbacks = {
    beforeNodeMorphed(old, fresh) {
      if (old.nodeType !== Node.ELEMENT_NODE || old.tagName !== fresh.tagName) { return true; }
      if ("keep" in old.dataset) { return false; }
      if (old.dataset.figureUrl && old.dataset.figureUrl === fresh.dataset.figureUrl) { copyAttributes(fresh, old, "class"); return false; } // a plot is drawn into it
      if (old.matches("select") && touched(old)) { chosen.set(old, old.value); return true; }
      if (touched(old)) { copyAttributes(fresh, old); return false; }
      return true;
    },
    afterNodeMorphed(old) { // its choices may be new ones; the reader's choice stands while it exists
      if (!chosen.has(old)) { return; }
      const value = chosen.get(old);
      chosen.delete(old);
      if ([...old.options].some((option) => option.value === value)) { old.value = value; }
    },
    beforeAttributeUpdated(attribute, element) {
      return !(attribute === "open" && element.matches("details")); // opened or closed by the reader
    },
  };

  // ---- a press is never cut in two ------------------------------------------------------------------------------
  let pressed = null;
  let released = [];
  function release() { // after the click, which follows the release at once
    pressed = null;
    setTimeout(() => { const waiting = released; released = []; waiting.forEach((go) => go()); });
  }
  document.addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
  ["pointerup", "pointercancel", "dragend"].forEach((kind) => document.addEventListener(kind, release, true));
  window.addEventListener("blur", release);
  function unpressed(element) {
    if (!pressed || !element.contains(pressed)) { return Promise.resolve(); }
    return new Promise((go) => { released.push(go); setTimeout(go, PRESS_MS); });
  }

  // ---- the swap ---------------------------------------------------------------------------------------------------
  Berth.fillers = []; // async (element, content): adds to new content what the page had fetched by itself

  Berth.swap = async function (element, html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    await Promise.all(Berth.fillers.map((fill) => fill(element, holder.content)));
    await unpressed(element);
    if (!element.isConnected) { return; }
    Berth.prepare(holder.content); // times and durations as they are to be read: the same text changes nothing
    name(element);
    name(holder.content);
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    window.Idiomorph.morph(element, holder.content, { morphStyle: "innerHTML", restoreFocus: false, callbacks });
    if (focused && document.activeElement !== focused) { refocus(element, focused); }
    if (window.htmx) { window.htmx.process(element); }
    Berth.enhance(element);
  };
  function refocus(element, focused) {
    if (focused.isConnected) { focused.focus({ preventScroll: true }); return; }
    element.tabIndex = -1; // what had the focus is gone: Tab goes on from this part of the page, not from its top
    element.focus({ preventScroll: true });
  }
})();
