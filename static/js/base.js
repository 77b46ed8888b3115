// What every page does: times in the reader's zone, durations that tick, menus, tabs, copy, confirmation, search key.
(function () {
  "use strict";
  const Berth = (window.Berth = window.Berth || {});
  const NBSP = "\u00a0";

  // ---- times -------------------------------------------------------------------------------------------------
  function known(zone) { // a zone that is younger than this browser is not
    try { return new Intl.DateTimeFormat([], { timeZone: zone }) && zone; } catch { return undefined; }
  }
  const timeZone = known(document.documentElement.dataset.zone); // the reader's choice, else the browser's zone
  const calendar = new Intl.DateTimeFormat("en-CA", { timeZone });
  const clock = new Intl.DateTimeFormat([], { timeZone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const seconds = new Intl.DateTimeFormat([], { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat([], { timeZone, weekday: "short", day: "numeric", month: "short" });
  const weekday = new Intl.DateTimeFormat([], { timeZone, weekday: "short" });
  const full = new Intl.DateTimeFormat([], { timeZone, dateStyle: "full", timeStyle: "long" });

  Berth.duration = function (totalSeconds) {
    const whole = Math.max(0, Math.round(totalSeconds));
    if (whole < 60) { return `${whole}${NBSP}s`; }
    const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "min"]];
    const first = parts.findIndex(([count]) => count > 0);
    return parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, unit]) => `${count}${NBSP}${unit}`).join(NBSP);
  };
  Berth.preciseDuration = function (totalSeconds) {
    const whole = Math.max(0, Math.round(totalSeconds));
    return whole < 60 ? `${whole}${NBSP}s` : whole < 3600 ? `${Math.floor(whole / 60)}${NBSP}min${NBSP}${whole % 60}${NBSP}s` : Berth.duration(whole);
  };
  const zoned = new Intl.DateTimeFormat("en-CA", { timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  Berth.wallClock = function (date) { // as an ISO time without a zone: what a clock in the reader's zone shows
    const part = Object.fromEntries(zoned.formatToParts(date).map(({ type, value }) => [type, value]));
    return `${part.year}-${part.month}-${part.day}T${part.hour}:${part.minute}:${part.second}.${String(date.getMilliseconds()).padStart(3, "0")}`;
  };
  Berth.clock = (date) => seconds.format(date);
  Berth.minuteOf = (date) => clock.format(date);
  Berth.dayOf = (date) => day.format(date);
  const zone = () => new Intl.DateTimeFormat([], { timeZone, timeZoneName: "short" }).formatToParts(new Date()).find((part) => part.type === "timeZoneName").value;
  Berth.clockWithZone = (date) => `${seconds.format(date)} ${zone()}`;

  function sameDay(one, other) { return Math.abs(one - other) < 432e5 || calendar.format(one) === calendar.format(other); } // 12 h: no clock shows it twice
  function printed(at, form, now) {
    if (form === "bare-clock" || (form === "near" && sameDay(at, now))) { return clock.format(at); }
    if (form === "near") { return `${(Math.abs(at - now) < 6 * 864e5 ? weekday : day).format(at)} ${clock.format(at)}`; }
    if (form === "day") { return day.format(at); }
    if (form === "age") { return `${Berth.duration((now - at) / 1000)} ago`; }
    if (form === "clock-s") { return sameDay(at, now) ? seconds.format(at) : `${day.format(at)}, ${seconds.format(at)}`; }
    if (form === "clock") { return sameDay(at, now) ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`; }
    return `${day.format(at)}${at.getFullYear() === now.getFullYear() ? "" : " " + at.getFullYear()}, ${clock.format(at)}`;
  }
  let skewMs = 0; // the server's clock less this machine's: ages and durations are by the server's
  Berth.now = () => new Date(Date.now() + skewMs);
  Berth.serverTold = function (iso) {
    const at = Date.parse(iso);
    if (!Number.isNaN(at)) { skewMs = at - Date.now(); }
  };
  function put(element, text) { if (element.textContent !== text) { element.textContent = text; } } // no change keeps a selection
  function printDurations(root) {
    const now = Berth.now();
    root.querySelectorAll("[data-since]").forEach((element) => put(element, Berth.preciseDuration((now - Date.parse(element.dataset.since)) / 1000)));
  }
  function printTimes(root, onlyAges) {
    const now = Berth.now();
    root.querySelectorAll(onlyAges ? 'time[data-format="age"]' : "time[data-format], tspan[data-format]").forEach((element) => {
      const at = new Date(element.dateTime || element.dataset.at); // in a drawing there is no <time>
      if (Number.isNaN(at.getTime())) { return; }
      put(element, printed(at, element.dataset.format, now));
      if (element.dateTime && !onlyAges) { element.title = full.format(at); }
    });
  }

  // ---- folded rows stay as the reader left them, on every page that has a row of that name ----------------------
  let folds = {};
  try { folds = JSON.parse(localStorage.getItem("berth-folds")) || {}; } catch (blocked) { /* then they are as the page says */ }
  document.addEventListener("click", (event) => {
    const fold = event.target.closest("details[data-fold] > summary")?.parentElement;
    if (!fold) { return; }
    folds[fold.dataset.fold] = !fold.open; // it opens or closes after this
    try { localStorage.setItem("berth-folds", JSON.stringify(folds)); } catch (blocked) { /* then it holds for this page only */ }
  });

  // ---- fragments ---------------------------------------------------------------------------------------------
  Berth.prepare = function (root) {
    printTimes(root, false);
    printDurations(root);
    root.querySelectorAll("details[data-fold]").forEach((fold) => { if (fold.dataset.fold in folds) { fold.open = folds[fold.dataset.fold]; } });
  };
  Berth.enhance = function (root) {
    Berth.prepare(root);
    document.dispatchEvent(new CustomEvent("berth:enhance", { detail: { root } }));
  };

  // ---- a short word to the reader goes by itself; an error, and each toast is one, stays until it is dismissed --------
  document.querySelectorAll('.b-messages > :not([data-level="error"])').forEach((message) => setTimeout(() => message.remove(), 8000));
  Berth.toast = function (text) {
    const toast = document.createElement("div");
    toast.className = "b-message";
    toast.dataset.level = "error";
    const away = document.createElement("button");
    Object.assign(away, { className: "b-iconbutton", type: "button", textContent: "\u00d7", ariaLabel: "Dismiss" });
    away.dataset.action = "dismiss";
    toast.append(text, away);
    document.querySelector("[data-toasts]").append(toast);
  };

  // ---- actions by data attributes ----------------------------------------------------------------------------
  function copy(button) {
    const source = document.querySelector(button.dataset.copyFrom);
    const label = button.lastChild; // its word stands beside its icon
    const done = () => {
      button.dataset.word = button.dataset.word || label.data;
      button.setAttribute("aria-live", "polite");
      label.data = "Copied";
      setTimeout(() => { label.data = button.dataset.word; }, 2000);
    };
    const failed = () => Berth.toast("The browser does not allow copying here: select the text and copy it.");
    if (!navigator.clipboard) { failed(); return; }
    navigator.clipboard.writeText(source.textContent).then(done, failed);
  }
  function putAway(key) {  // for this browser, a year long; the server then leaves that line out (shell/banner.py)
    const before = (document.cookie.match(/(?:^|; )berth-dismissed=([^;]*)/) || ["", ""])[1].split(".").filter(Boolean);
    const keys = [...before.filter((each) => each !== key), key].slice(-20).join(".");
    document.cookie = `berth-dismissed=${keys}; path=/; max-age=31536000; samesite=lax`;
  }
  const ACTIONS = {
    theme: () => window.BerthTheme.toggle(),
    reload: () => window.location.reload(),
    retry: () => document.dispatchEvent(new CustomEvent("berth:retry")),
    dismiss: (button) => {
      if (button.dataset.key) { putAway(button.dataset.key); }
      button.closest(".b-message, .b-banner").remove();
    },
    copy,
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-action]");
    if (button && ACTIONS[button.dataset.action]) { ACTIONS[button.dataset.action](button); }
    document.querySelectorAll("details[data-menu][open]").forEach((menu) => { if (!menu.contains(event.target)) { menu.open = false; } });
  });
  let posted = new WeakMap(); // forms and when they were sent: a second press, before the answer is there, sends nothing
  document.addEventListener("submit", (event) => {
    const question = (event.submitter && event.submitter.dataset.confirm) || event.target.dataset.confirm;
    if (question && !window.confirm(question)) { event.preventDefault(); }
    if (event.defaultPrevented || event.target.getAttribute("method") !== "post") { return; }
    if (event.timeStamp - (posted.get(event.target) || -Infinity) < 5000) { event.preventDefault(); } else { posted.set(event.target, event.timeStamp); }
  });
  window.addEventListener("pageshow", () => { posted = new WeakMap(); }); // and after a way back

  // ---- tabs --------------------------------------------------------------------------------------------------
  function chooseTab(tab) {
    tab.closest("[role=tablist]").querySelectorAll("[role=tab]").forEach((other) => {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    });
  }
  document.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) { chooseTab(tab); Berth.tab = tab.id; }
  });
  document.addEventListener("berth:enhance", () => {
    const tab = Berth.tab && document.getElementById(Berth.tab);
    if (tab) { chooseTab(tab); }
  });

  // ---- keyboard ----------------------------------------------------------------------------------------------
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.isContentEditable;
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    }
    if (event.key === "Escape") { document.querySelectorAll("details[data-menu][open]").forEach((menu) => { menu.open = false; }); }
    if (event.target.getAttribute("role") === "tab" && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      const tabs = [...event.target.closest("[role=tablist]").querySelectorAll("[role=tab]")];
      const next = tabs[(tabs.indexOf(event.target) + (event.key === "ArrowRight" ? 1 : tabs.length - 1)) % tabs.length];
      chooseTab(next); next.focus(); Berth.tab = next.id;
    }
  });

  document.addEventListener("htmx:afterSettle", (event) => Berth.enhance(event.target));
  document.addEventListener("htmx:responseError", (event) => Berth.toast(`The server answered ${event.detail.xhr.status}. Nothing was changed.`));
  document.addEventListener("htmx:sendError", () => Berth.toast("The server cannot be reached. Try again."));
  Berth.serverTold(document.body.dataset.now);
  setInterval(() => { printTimes(document, true); printDurations(document); }, 1000);
  Berth.enhance(document);
})();
