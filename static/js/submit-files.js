// Files of the submit form: small ones are read into a hidden field and go with the job; above 1 MiB they are uploaded at once, and the
// form keeps the upload's digest. So an error elsewhere loses nothing, and each file can be taken off again.
(function () {
  "use strict";
  const part = document.querySelector("[data-files]");
  if (!part) { return; }
  const Berth = window.Berth;
  const input = part.querySelector("input[type=file]");
  const zone = part.querySelector("[data-dropzone]");
  const list = part.querySelector("[data-filelist]");
  const rowOf = part.querySelector("[data-file-row]");
  const kept = part.querySelector("input[name=files_kept]");
  const names = part.querySelector("input[name=file_names]");
  const digest = part.querySelector("input[name=upload]");
  const folder = part.querySelector("[data-folder]");
  const progress = part.querySelector("[data-upload-progress]");
  const most = { files: Number(part.dataset.maxFiles), bytes: Number(part.dataset.maxBytes), uploaded: Number(part.dataset.maxUploaded) };
  const SHOWN = 200;
  const REQUIREMENTS = "requirements.txt";
  const files = new Map(Object.entries(JSON.parse(kept.value || "{}"))); // name -> base64
  let sent = new Map(JSON.parse(part.dataset.sent || "[]").map((each) => [each.path, each])); // name -> {path, sha256, size_bytes, executable}
  let busy = false;
  const field = (name) => part.closest("form").elements[name];

  const bytesOf = (data) => Math.floor((data.length * 3) / 4) - (data.endsWith("==") ? 2 : data.endsWith("=") ? 1 : 0);
  const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

  function show() {
    kept.value = files.size ? JSON.stringify(Object.fromEntries(files)) : "";
    names.value = files.size ? JSON.stringify([...files.keys()].sort()) : "";
    const rows = [...[...files].map(([name, data]) => [name, bytesOf(data)]), ...[...sent].map(([name, each]) => [name, each.size_bytes])];
    list.replaceChildren(...rows.sort(([one], [other]) => (one < other ? -1 : 1)).slice(0, SHOWN).map(([name, bytes]) => {
      const row = rowOf.content.firstElementChild.cloneNode(true);
      const button = row.querySelector("button");
      row.dataset.name = name;
      row.querySelector("code").textContent = name;
      row.querySelector("small").textContent = size(bytes);
      button.setAttribute("aria-label", `Remove ${name}`);
      button.addEventListener("click", () => remove(name));
      return row;
    }));
    part.querySelector("[data-drop-words]").textContent = rows.length ? "Drop more" : "Drop files here";
    if (rows.length > SHOWN) {
      const row = document.createElement("li");
      row.className = "b-file";
      row.textContent = `and ${rows.length - SHOWN} more files`;
      list.append(row);
    }
  }
  async function remove(name) {
    if (busy) { return; }
    files.delete(name);
    if (sent.has(name)) {
      const left = new Map(sent);
      left.delete(name);
      try { await upload([...left.values()], []); sent = left; } catch (fault) { Berth.fileProblem(fault.message); return; }
    }
    changed("");
    input.focus();
  }
  function changed(problem) {
    show();
    requirements();
    Berth.filesChanged([...files.keys(), ...sent.keys()]);
    Berth.fileProblem(problem);
    names.dispatchEvent(new Event("input", { bubbles: true })); // the request beside the form names the files
  }
  function read(file) {
    return new Promise((done, failed) => {
      const reader = new FileReader();
      reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
      reader.addEventListener("error", () => failed(reader.error));
      reader.readAsDataURL(file);
    });
  }
  function isSmall(found) { // found: [[name, File]]
    const others = [...files].filter(([name]) => !found.some(([added]) => added === name));
    const bytes = found.reduce((sum, [, file]) => sum + file.size, 0) + others.reduce((sum, [, data]) => sum + bytesOf(data), 0);
    return bytes <= most.bytes && found.length + others.length <= most.files;
  }
  function refusal(found) {
    const bytes = found.reduce((sum, [, file]) => sum + file.size, 0) + [...sent.values()].reduce((sum, each) => sum + each.size_bytes, 0);
    if (bytes > most.uploaded) { return `With these the job's files would be ${size(bytes)}; they may be ${most.uploaded / 1048576} MiB in all. None was added: put larger input on storage that the nodes can read.`; }
    return window.crypto && window.crypto.subtle ? "" : "More than 1 MiB is uploaded only over https. None was added: use the command line, or ask the operator for https.";
  }
  async function add(found) {
    if (!found.length || busy) { return; }
    const small = isSmall(found);
    const problem = small ? "" : refusal(found);
    if (problem) { Berth.fileProblem(problem); return; }
    try {
      if (small) {
        const contents = await Promise.all(found.map(([, file]) => read(file)));
        found.forEach(([name], place) => files.set(name, contents[place]));
      } else {
        await send(found);
      }
      changed("");
    } catch (fault) {
      Berth.fileProblem(`${fault.message || "A file could not be read"}. None was added.`);
    }
  }

  // ---- uploads: the list of hashes first, then what the portal lacks ------------------------------------------------
  async function send(found) {
    busy = true;
    try {
      const listed = [];
      for (const [name, file] of found) {
        said(`Reading ${name}`);
        const hash = await window.crypto.subtle.digest("SHA-256", await file.arrayBuffer());
        listed.push({ path: name, sha256: [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join(""), size_bytes: file.size, executable: false });
      }
      const all = new Map([...sent, ...listed.map((each) => [each.path, each])]);
      await upload([...all.values()], found.map(([, file], place) => [listed[place].sha256, file]));
      listed.forEach((each) => files.delete(each.path));
      sent = all;
    } finally {
      busy = false;
      said("");
    }
  }
  async function upload(rows, contents) {
    if (!rows.length) { digest.value = ""; return; }
    const body = JSON.stringify({ files: rows, ...(tenant() ? { tenant: tenant() } : {}) });
    const headers = { "Content-Type": "application/json" };
    let answer = await asked("/api/v1/uploads", { method: "POST", headers, body });
    const missing = new Set(answer.missing);
    const total = missing.size;
    for (const [sha256, file] of contents) {
      if (missing.delete(sha256)) {
        said(`Sending ${file.name}, ${total - missing.size} of ${total}, ${size(file.size)}`);
        const query = tenant() ? `?tenant=${encodeURIComponent(tenant())}` : "";
        await asked(`/api/v1/uploads/content/${sha256}${query}`, { method: "PUT", headers: { "Content-Type": "application/octet-stream" }, body: file });
      }
    }
    if (total) { answer = await asked("/api/v1/uploads", { method: "POST", headers, body }); }
    if (!answer.complete) { throw new Error("Some files are not on the portal any more; remove all and add them again"); }
    digest.value = answer.digest;
  }
  async function asked(path, request) {
    const token = field("csrfmiddlewaretoken").value;
    const answer = await fetch(path, { ...request, credentials: "same-origin", headers: { ...request.headers, "X-CSRFToken": token } });
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) { throw new Error(told.error ? told.error.detail.replace(/\.$/, "") : `The portal answers ${answer.status}`); }
    return told;
  }
  const tenant = () => (field("tenant") ? field("tenant").value : "");
  function said(words) { progress.textContent = words; progress.hidden = !words; }

  // ---- a requirements.txt beside the program is used, unless something else was chosen -------------------------------
  function requirements() {
    const [software, path] = [field("software"), field("software.path")];
    const found = files.has(REQUIREMENTS) || sent.has(REQUIREMENTS);
    if (!software || !path) { return; }
    if (found && software.value === "" && !part.dataset.told) {
      software.value = "requirements_file";
      path.value = REQUIREMENTS;
      part.dataset.told = "yes";
    } else if (!found && software.value === "requirements_file" && path.value === REQUIREMENTS) {
      software.value = "";
      path.value = "";
    }
  }

  folder.addEventListener("change", async (event) => {
    event.stopPropagation();
    await add([...folder.files].map((file) => [file.webkitRelativePath.split("/").slice(1).join("/") || file.name, file]));
    folder.value = "";
  });
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
      const one = entries.length === 1 && entries[0].isDirectory; // what lies in a single folder lies in the job's directory
      const found = (await Promise.all(entries.map((entry) => within(entry, "")))).flat().map(([name, file]) => [one ? name.slice(name.indexOf("/") + 1) : name, file]);
      await add(entries.length ? found : plain);
    } catch (fault) {
      Berth.fileProblem(`What was dropped could not be read (${fault.message}). None was added.`);
    }
  });
  show();
})();
