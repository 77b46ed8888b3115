// The console: a range of times in the reader's zone, and the knobs' changes, which stand in a bar until they are saved.
(function () {
  "use strict";
  const Berth = window.Berth;

  document.querySelector(".b-console-side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // a strip on phones

  // ---- a range of times: the address has it in UTC, the fields in the reader's zone -------------------------------
  function instant(wall) { // the instant at which a clock in the reader's zone shows this time
    const asUtc = Date.parse(`${wall}Z`);
    let at = asUtc;
    for (let turn = 0; turn < 2; turn += 1) { at += asUtc - Date.parse(`${Berth.wallClock(new Date(at))}Z`); } // twice: the clocks may change between
    return new Date(at).toISOString();
  }
  document.querySelectorAll("[data-range]").forEach((form) => {
    const pairs = [...form.querySelectorAll("[data-for]")].map((field) => [field, form.elements[field.dataset.for]]);
    pairs.forEach(([field, sent]) => { if (sent.value) { field.value = Berth.wallClock(new Date(sent.value)).slice(0, 16); } });
    form.addEventListener("submit", () => pairs.forEach(([field, sent]) => {
      sent.value = field.value && instant(field.value);
      sent.disabled = !sent.value;
    }));
  });

  // ---- knobs ------------------------------------------------------------------------------------------------------
  const form = document.querySelector("[data-knobs]");
  if (!form) { return; }
  const rows = [...form.querySelectorAll("[data-knob]")];
  const bar = form.querySelector("[data-knobs-bar]");
  const fieldOf = (row) => form.elements[row.dataset.knob];
  const shownOf = (row) => fieldOf(row).value.trim() || "empty"; // as the server writes it
  const edited = () => rows.filter((row) => shownOf(row) !== row.dataset.was);
  const refused = !bar.hidden; // what was refused is sent again, whether it is a change or not

  function put(row, value) {
    fieldOf(row).value = value === "empty" ? "" : value;
    const box = row.querySelector("[data-switch]");
    if (box) { box.checked = value === "on"; box.parentElement.querySelector("span").textContent = value; }
  }
  function tried(changed) { // the laboratory's form with these values
    const url = new URL(form.dataset.tryUrl, window.location.href);
    changed.filter((row) => "tried" in row.dataset).forEach((row) => {
      if (row.dataset.knob === "policy") { url.searchParams.set("policies", fieldOf(row).value); return; }
      url.searchParams.set(`knob_${row.dataset.knob}`, fieldOf(row).value.trim());
    });
    const named = changed.map((row) => `${row.dataset.label} ${shownOf(row)}`).join(", ");
    url.searchParams.set("name", `Last week, ${named}`.slice(0, 100));
    return url.pathname + url.search;
  }
  function told() {
    const changed = edited();
    rows.forEach((row) => {
      const unit = row.querySelector("[data-unit]");
      const is = changed.includes(row);
      row.classList.toggle("b-edited", is);
      unit.textContent = is ? `was ${row.dataset.was}` : unit.dataset.unit;
    });
    bar.hidden = !changed.length && !refused;
    const words = changed.map((row) => `${row.dataset.label}, ${row.dataset.was} to ${shownOf(row)} ${row.querySelector("[data-unit]").dataset.unit}`.trim());
    const head = document.createElement("b");
    head.textContent = `${changed.length} change${changed.length === 1 ? "" : "s"}: `;
    bar.querySelector("[data-knobs-told]").replaceChildren(...(changed.length ? [head, words.join("; ")] : []));
    const link = bar.querySelector("[data-knobs-try]");
    link.hidden = !changed.some((row) => "tried" in row.dataset);
    link.href = tried(changed);
  }
  form.addEventListener("input", (event) => {
    if (event.target.matches("[data-switch]")) { put(event.target.closest("[data-knob]"), event.target.checked ? "on" : "off"); }
    told();
  });
  form.addEventListener("click", (event) => {
    const row = event.target.closest("[data-knob]");
    if (event.target.matches("[data-default]")) { put(row, event.target.dataset.default); told(); }
    if (event.target.matches("[data-try]")) { event.target.href = tried([row]); }
    if (event.target.closest("[data-knobs-undo]")) { rows.forEach((each) => put(each, each.dataset.was)); form.elements.reason.value = ""; told(); }
  });
  form.addEventListener("submit", (event) => { // only changes are sent: another operator may have changed the others
    const changed = edited();
    if (changed.length && !form.elements.reason.value.trim()) {
      event.preventDefault();
      form.elements.reason.setAttribute("aria-invalid", "true");
      form.elements.reason.focus();
      return;
    }
    rows.filter((row) => !changed.includes(row)).forEach((row) => { fieldOf(row).disabled = true; });
  });
  window.addEventListener("pageshow", () => { rows.forEach((row) => { fieldOf(row).disabled = false; }); told(); }); // and after a way back

  // ---- search: what fits stands open --------------------------------------------------------------------------------
  const more = form.querySelector("[data-knobs-more]");
  const search = more.querySelector("[data-knobs-search]");
  const differ = more.querySelector("[data-knobs-differ]");
  let before = null; // which rows the reader had open
  function find() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const folds = [...more.querySelectorAll("details")];
    const looks = words.length || differ.checked;
    before = before || folds.map((fold) => fold.open);
    rows.forEach((row) => {
      const text = `${row.dataset.knob} ${row.firstElementChild.textContent} ${row.querySelector("small").title}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word)) || (differ.checked && !("differs" in row.dataset));
    });
    folds.forEach((fold, place) => {
      const fits = fold.querySelector("[data-knob]:not([hidden])");
      fold.hidden = !fits;
      fold.open = looks ? Boolean(fits) : before[place];
    });
    more.querySelector("[data-knobs-none]").hidden = rows.some((row) => !row.hidden);
    if (!looks) { before = null; }
  }
  search.addEventListener("input", find);
  differ.addEventListener("input", find);
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); } });
  more.querySelectorAll("details[data-open]").forEach((fold) => { fold.open = true; }); // a refusal stands there
})();
