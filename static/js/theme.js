// Sets the theme before the first paint: the stored choice, else the system's. Runs in the head, so it is tiny.
(function () {
  "use strict";
  var stored = null;
  try { stored = localStorage.getItem("berth-theme"); } catch (blocked) { /* storage is off: the system's choice stands */ }
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    document.documentElement.setAttribute("data-bs-theme", stored || (dark.matches ? "dark" : "light"));
    document.dispatchEvent(new CustomEvent("berth:theme"));
  }
  window.BerthTheme = {
    toggle: function () {
      stored = document.documentElement.getAttribute("data-bs-theme") === "dark" ? "light" : "dark";
      try { localStorage.setItem("berth-theme", stored); } catch (blocked) { /* then it holds for this page only */ }
      apply();
    },
  };
  dark.addEventListener("change", function () { if (!stored) { apply(); } });
  apply();
})();
