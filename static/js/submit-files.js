// Files of the submit form: chosen or dropped ones are read into a hidden field, so that an error elsewhere loses nothing; each can be
// taken off again. What is over the limits is refused whole, with the reason, before anything is sent.
(function () {
  "use strict";
  const part = document.querySelector("[data-files]");
  if (!part) { return; }
  const Berth = window.Berth;
  const input = part.querySelector("input[type=file]");
  const zone = part.querySelector("[data-dropzone]");
  const list = part.querySelector("[data-filelist]");
  const kept = part.querySelector("input[name=files_kept]");
  const names = part.querySelector("input[name=file_names]");
  const most = { files: Number(part.dataset.maxFiles), bytes: Number(part.dataset.maxBytes) };
  let files = new Map(Object.entries(JSON.parse(kept.value || "{}"))); // name -> base64

  const bytesOf = (data) => Math.floor((data.length * 3) / 4) - (data.endsWith("==") ? 2 : data.endsWith("=") ? 1 : 0);
  const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

  function show() {
    kept.value = files.size ? JSON.stringify(Object.fromEntries(files)) : "";
    names.value = files.size ? JSON.stringify([...files.keys()].sort()) : "";
    list.replaceChildren(...[...files].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, data]) => {
      const row = document.createElement("li");
      const code = document.createElement("code");
      const amount = document.createElement("span");
      const button = document.createElement("button");
      row.dataset.name = name;
      code.textContent = name;
      amount.textContent = size(bytesOf(data));
      button.type = "button";
      button.className = "b-button b-button-small b-button-quiet";
      button.textContent = "Remove";
      button.setAttribute("aria-label", `Remove ${name}`);
      button.addEventListener("click", () => { files.delete(name); changed(""); input.focus(); });
      row.append(code, amount, button);
      return row;
    }));
  }
  function changed(problem) {
    show();
    Berth.fileProblem(problem);
    names.dispatchEvent(new Event("change", { bubbles: true })); // the request beside the form names the files
  }
  function read(file) {
    return new Promise((done, failed) => {
      const reader = new FileReader();
      reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
      reader.addEventListener("error", () => failed(reader.error));
      reader.readAsDataURL(file);
    });
  }
  function refusal(found) { // found: [[name, File]]
    const others = [...files].filter(([name]) => !found.some(([added]) => added === name));
    const bytes = found.reduce((sum, [, file]) => sum + file.size, 0) + others.reduce((sum, [, data]) => sum + bytesOf(data), 0);
    if (bytes > most.bytes) { return `With these the job's files would be ${size(bytes)}; they may be ${most.bytes / 1048576} MiB in all. None was added: put larger input on storage that the nodes can read.`; }
    const count = found.length + others.length;
    return count > most.files ? `With these there would be ${count} files; a job may have ${most.files}. None was added: pack them into one archive.` : "";
  }
  async function add(found) {
    const problem = refusal(found);
    if (problem || !found.length) { Berth.fileProblem(problem); return; }
    try {
      const contents = await Promise.all(found.map(([, file]) => read(file)));
      found.forEach(([name], place) => files.set(name, contents[place]));
      changed("");
    } catch (fault) {
      Berth.fileProblem(`A file could not be read (${fault.message}). None was added.`);
    }
  }
  input.addEventListener("change", async (event) => {
    event.stopPropagation();
    const chosen = [...input.files].map((file) => [file.name, file]);
    await add(chosen);
    input.value = ""; // they are kept in the hidden field now, or refused
  });

  // ---- drag and drop, folders with what is in them -----------------------------------------------------------------
  const fileOf = (entry) => new Promise((done, failed) => entry.file(done, failed));
  async function within(entry, path) {
    const name = path ? `${path}/${entry.name}` : entry.name;
    if (entry.isFile) { return [[name, await fileOf(entry)]]; }
    const reader = entry.createReader();
    const found = [];
    for (;;) { // a directory is listed a hundred entries at a time
      const some = await new Promise((done, failed) => reader.readEntries(done, failed));
      if (!some.length) { break; }
      for (const each of some) { found.push(...await within(each, name)); }
    }
    return found;
  }
  ["dragenter", "dragover"].forEach((kind) => zone.addEventListener(kind, (event) => { event.preventDefault(); zone.dataset.over = ""; }));
  ["dragleave", "drop"].forEach((kind) => zone.addEventListener(kind, () => { delete zone.dataset.over; }));
  zone.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
    const plain = [...event.dataTransfer.files].map((file) => [file.name, file]);
    try {
      await add(entries.length ? (await Promise.all(entries.map((entry) => within(entry, "")))).flat() : plain);
    } catch (fault) {
      Berth.fileProblem(`What was dropped could not be read (${fault.message}). None was added.`);
    }
  });
  show();
})();
