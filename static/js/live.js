// One WebSocket for the page. An event refetches the fragments that its topic touches, at most once a second each (or once in
// `data-live-every` seconds), one at a time each, none while the page is hidden; a gap in a stream's numbers refetches them all;
// ten seconds without a heartbeat mark the page as stale until one comes again.
(function () {
  "use strict";
  const Berth = window.Berth;
  const root = document.documentElement;
  const SOONEST_MS = 50;
  const STALE_MS = 10000;
  const LONGEST_RETRY_S = 30;
  const streams = document.body.dataset.liveStreams.split(" ");
  const last = JSON.parse(document.body.dataset.liveNumbers || "{}");
  let socket = null;
  let heardAt = Date.now(); // of the last heartbeat or event, on this machine's clock
  let figuresAt = new Date(); // when what is shown was true
  let retryAt = 0;
  let attempts = 0;

  // ---- refetching --------------------------------------------------------------------------------------------
  const pending = new Map(); // element -> timer
  const running = new Map(); // element -> whether another event came meanwhile
  const nextAt = new WeakMap(); // element -> when it may be fetched again
  const refreshedAt = new WeakMap(); // element -> when it was last asked for because of its age
  const startedAt = Date.now();
  let missed = false; // something changed while nobody looked

  function fragmentUrl(element) {
    const url = new URL(element.dataset.fragmentUrl, window.location.href);
    if (element.dataset.fragmentName) { url.searchParams.set("fragment", element.dataset.fragmentName); }
    return url;
  }
  async function fragmentOf(element) { // its new HTML; null when there is none to show
    try {
      const answer = await fetch(fragmentUrl(element), { headers: { "HX-Request": "true", "X-Requested-With": "fetch" }, credentials: "same-origin" });
      if (answer.redirected || answer.status === 401 || answer.status === 403) { window.location.reload(); return null; } // the sign-in ran out
      if (answer.headers.get("Berth-Late") && running.has(element)) { running.set(element, true); } // made before the last event: ask again
      return answer.ok ? await answer.text() : null;
    } catch (unreachable) {
      return null; // The socket notices the same fault and says so; its reconnection refetches everything.
    }
  }
  async function refetch(element) {
    pending.delete(element);
    if (!element.isConnected) { return; }
    if (document.hidden) { missed = true; return; }
    const began = Date.now();
    running.set(element, false);
    nextAt.set(element, began + 1000 * Number(element.dataset.liveEvery || 1));
    if (element.dataset.figureUrl) {
      document.dispatchEvent(new CustomEvent("berth:figure", { detail: { element } }));
    } else {
      const html = await fragmentOf(element);
      nextAt.set(element, Math.max(nextAt.get(element), began + 2 * (Date.now() - began))); // a busy server is asked less often
      if (html !== null) { await Berth.swap(element, html); }
    }
    const again = running.get(element);
    running.delete(element);
    if (again) { schedule(element); }
  }
  function schedule(element) {
    if (running.has(element)) { running.set(element, true); return; }
    if (pending.has(element)) { return; }
    const wait = Math.max(SOONEST_MS, (nextAt.get(element) || 0) - Date.now());
    pending.set(element, setTimeout(refetch, wait, element));
  }
  function refetchFor(topics) { // null: all of them
    document.querySelectorAll("[data-live-topics]").forEach((element) => {
      if (topics === null || element.dataset.liveTopics.split(" ").some((topic) => topics.includes(topic))) { schedule(element); }
    });
  }
  function topicsOf(message) { // `own-job` is a change of the job that the page shows, `job` of any
    return message.stream === "cluster" ? [message.topic] : [message.topic, `own-${message.topic}`];
  }
  function refetchAll() {
    refetchFor(null);
    document.dispatchEvent(new CustomEvent("berth:resync"));
  }

  // ---- messages ----------------------------------------------------------------------------------------------
  function onEvent(message) {
    const gap = message.stream in last && message.number > last[message.stream] + 1;
    const old = message.stream in last && message.number <= last[message.stream];
    if (old) { return; }
    last[message.stream] = message.number;
    figuresAt = new Date();
    document.dispatchEvent(new CustomEvent("berth:event", { detail: message }));
    if (gap) { refetchAll(); } else { refetchFor(topicsOf(message)); }
  }
  function onHeartbeat(message) {
    let gap = false;
    for (const [stream, number] of Object.entries(message.numbers || {})) {
      if (stream in last && number !== last[stream]) { gap = true; } // also when the numbering began anew
      last[stream] = number;
    }
    figuresAt = new Date(message.at || Date.now());
    Berth.serverTold(message.at);
    if (gap) { refetchAll(); }
  }
  function onMessage(raw) {
    const message = JSON.parse(raw.data);
    heardAt = Date.now();
    if (message.type === "event") { onEvent(message); }
    if (message.type === "heartbeat") { onHeartbeat(message); }
    if (root.dataset.live === "stale") { becomeLive(); } else if (attempts > 0) { refetchAll(); }
    attempts = 0; // only a message proves that the connection works: an open that closes at once must not retry in a hurry
    showClock();
  }

  // ---- connection --------------------------------------------------------------------------------------------
  function connect() {
    retryAt = 0;
    const scheme = window.location.protocol === "https:" ? "wss:" : "ws:";
    const opened = new WebSocket(`${scheme}//${window.location.host}${document.body.dataset.liveUrl}`);
    socket = opened;
    opened.addEventListener("open", () => {
      opened.send(JSON.stringify({ type: "follow", streams }));
    });
    opened.addEventListener("message", onMessage);
    opened.addEventListener("close", () => { if (socket === opened) { retryLater(); } });
  }
  function retryLater() {
    socket = null;
    attempts += 1;
    const wait = Math.min(LONGEST_RETRY_S, 2 ** Math.min(attempts - 1, 5)) * (0.75 + Math.random() / 2); // spread, so that pages do not return all at once
    retryAt = Date.now() + wait * 1000;
  }
  function retryNow() {
    if (socket) { const old = socket; socket = null; old.close(); }
    attempts += 1;
    connect();
  }

  // ---- what the reader sees ----------------------------------------------------------------------------------
  const find = (selector) => document.querySelector(selector);
  function showClock() {
    document.querySelectorAll("[data-live-clock]").forEach((element) => { element.textContent = Berth.clockWithZone(figuresAt); });
  }
  function becomeStale() {
    root.dataset.live = "stale";
    find("[data-stale-bar]").hidden = false;
    find("[data-stale-since]").textContent = Berth.clock(figuresAt);
    document.dispatchEvent(new CustomEvent("berth:theme")); // plots fade with the rest
  }
  function becomeLive() {
    root.dataset.live = "on";
    find("[data-stale-bar]").hidden = true;
    document.dispatchEvent(new CustomEvent("berth:theme"));
    refetchAll();
  }
  function refresh() { // what measures, not events, move on: `data-live-refresh` is every so many seconds
    if (root.dataset.live === "stale" || document.hidden) { return; }
    document.querySelectorAll("[data-live-refresh]").forEach((element) => {
      const due = (refreshedAt.get(element) || startedAt) + 1000 * Number(element.dataset.liveRefresh);
      if (Date.now() >= due) { refreshedAt.set(element, Date.now()); schedule(element); }
    });
  }
  function tick() {
    refresh();
    if (retryAt && Date.now() >= retryAt) { connect(); }
    if (Date.now() - heardAt > STALE_MS && root.dataset.live !== "stale") { becomeStale(); }
    if (root.dataset.live !== "stale") { return; }
    find("[data-live-age]").textContent = Berth.preciseDuration((Date.now() - figuresAt) / 1000);
    const left = Math.ceil((retryAt - Date.now()) / 1000);
    find("[data-stale-retry]").textContent = retryAt ? `Retry in ${Math.max(0, left)}\u00a0s.` : "Trying now.";
    if (!retryAt && socket && socket.readyState === WebSocket.OPEN && Date.now() - heardAt > 2 * STALE_MS) { heardAt = Date.now() - STALE_MS - 1; retryNow(); } // open, but mute
  }

  document.addEventListener("berth:retry", retryNow);
  document.addEventListener("visibilitychange", () => { if (!document.hidden && missed) { missed = false; refetchAll(); } });
  window.addEventListener("pagehide", () => { if (socket) { const old = socket; socket = null; old.close(); } });
  window.addEventListener("pageshow", (event) => { if (event.persisted) { retryNow(); } });
  showClock();
  connect();
  setInterval(tick, 1000);
})();
