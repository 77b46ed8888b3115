// A command and a name from the program among the files that a person brings. What was typed is never touched.
(function () {
  "use strict";
  const { command, name } = document.querySelector("[data-submit-form]").elements;
  const note = document.querySelector("[data-suggested]");
  const suggested = new Map([[command, ""], [name, ""]]);

  function program(names) {
    const python = names.filter((each) => each.endsWith(".py"));
    if (names.includes("train.py")) { return "train.py"; }
    return python.length === 1 ? python[0] : ["main.py", "run.sh"].find((each) => names.includes(each)) || "";
  }
  function put(field, text) {
    if (field.value.trim() && field.value !== suggested.get(field)) { return; }
    field.value = text;
    suggested.set(field, text);
  }
  const isSuggested = () => suggested.get(command) !== "" && command.value === suggested.get(command);

  window.Berth.filesChanged = (names) => {
    const found = program(names);
    const safe = /^[\w./][\w./-]*$/.test(found) ? found : `'./${found.replaceAll("'", "'\\''")}'`;
    put(command, found && `${found.endsWith(".py") ? "python3" : "bash"} ${safe}`);
    put(name, found && found.split("/").pop().replace(/\.\w+$/, ""));
    note.hidden = !isSuggested();
    note.querySelector("[data-words]").textContent = note.hidden ? "" : `Suggested from ${found}`;
  };
  command.addEventListener("input", () => { note.hidden = !isSuggested(); });
})();
