// Marks the file that is shown: the preview is fetched without the tree, which stays as the reader left it.
(function () {
  "use strict";
  function mark() {
    const path = new URLSearchParams(window.location.search).get("path");
    document.querySelectorAll("[data-artefact]").forEach((link) => {
      const shown = new URL(link.href).searchParams.get("path") === path;
      if (shown) { link.setAttribute("aria-current", "true"); } else { link.removeAttribute("aria-current"); }
    });
  }
  document.addEventListener("berth:enhance", mark);
  document.addEventListener("htmx:pushedIntoHistory", mark);
  window.addEventListener("popstate", () => window.location.reload()); // the pane belongs to the address
})();
