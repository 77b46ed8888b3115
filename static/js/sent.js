// Shows a file that came with a job in a dialog, and colours it: comments, texts and keywords. Text only: nothing of it becomes markup.
(function () {
  "use strict";
  const KNOWN = { py: "#", sh: "#", yaml: "#", yml: "#", toml: "#", cfg: "#", json: "", js: "//", c: "//", cu: "//", cpp: "//", rs: "//", go: "//" };
  const WORDS = new Set("and as assert async await break case class const continue def del do done elif else esac except export false False fi finally fn for from function global if import in is lambda let local match None nonlocal not null or pass raise return set static struct then true True try var void while with yield".split(" "));
  const TOKENS = /"""|'''|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|#|\/\/|[A-Za-z_]\w*/g;

  function colour(list) {
    const comment = KNOWN[list.dataset.code.split(".").pop()];
    if (comment === undefined) { return; }
    let open = null; // the quotes of a text over several lines
    list.querySelectorAll("code").forEach((line) => {
      const text = line.textContent;
      const parts = [];
      let from = 0;
      const put = (to, kind) => {
        if (to <= from) { return; }
        const made = document.createElement("span");
        if (kind) { made.className = `b-code-${kind}`; }
        made.textContent = text.slice(from, to);
        parts.push(made);
        from = to;
      };
      TOKENS.lastIndex = 0;
      if (open) {
        const end = text.indexOf(open);
        put(end < 0 ? text.length : end + 3, "text");
        if (end >= 0) { open = null; }
        TOKENS.lastIndex = from;
      }
      for (let found = TOKENS.exec(text); found && from < text.length; found = TOKENS.exec(text)) {
        const [token] = found;
        if (token === "#" || token === "//") {
          if (token === comment) { put(found.index); put(text.length, "comment"); }
        } else if (token === '"""' || token === "'''") {
          const end = text.indexOf(token, found.index + 3);
          put(found.index); put(end < 0 ? text.length : end + 3, "text");
          if (end < 0) { open = token; }
          TOKENS.lastIndex = from;
        } else if (token.startsWith('"') || token.startsWith("'")) {
          put(found.index); put(found.index + token.length, "text");
        } else if (WORDS.has(token)) { put(found.index); put(found.index + token.length, "word"); }
      }
      put(text.length);
      line.replaceChildren(...parts);
    });
  }
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id !== "sent") { return; }
    event.target.querySelectorAll("[data-code]").forEach(colour);
    if (!event.target.open) { event.target.showModal(); }
  });
})();
