// A terminal inside a job: xterm.js on a WebSocket. Binary messages are what is typed and shown; text is JSON about the session.
(function () {
  "use strict";
  const box = document.querySelector("[data-terminal]");
  const said = document.querySelector("[data-terminal-said]");
  const again = document.querySelector("[data-terminal-again]");
  const TYPED_AT_ONCE = 16 * 1024; // the portal takes messages of 64 KiB at most
  const WAITING = 256 * 1024; // so much is typed ahead at most while the job does not read
  const terminal = new window.Terminal({ cursorBlink: true, fontFamily: "JetBrains Mono, monospace", fontSize: 13, scrollback: 5000, screenReaderMode: true, theme: { background: "#10151c", foreground: "#e6e9ee" } });
  const fit = new window.FitAddon.FitAddon();
  const encoder = new TextEncoder();
  let socket = null;

  function tell(words, state) { said.textContent = words; said.dataset.state = state; again.hidden = state !== "ended"; }
  function size() {
    fit.fit();
    if (socket && socket.readyState === WebSocket.OPEN) { socket.send(JSON.stringify({ columns: terminal.cols, rows: terminal.rows })); }
  }
  function type(bytes) {
    if (!socket || socket.readyState !== WebSocket.OPEN) { return; }
    if (socket.bufferedAmount > WAITING) { tell("The job does not read what is typed. Some of it was left out.", "open"); return; }
    for (let at = 0; at < bytes.length; at += TYPED_AT_ONCE) { socket.send(bytes.subarray(at, at + TYPED_AT_ONCE)); }
  }
  function hear(heard) {
    if (heard.state === "opening") { tell("Opening a shell inside the job …", "opening"); }
    if (heard.state === "open") { tell("Connected.", "open"); size(); terminal.focus(); }
    if (heard.state === "ended") { tell(heard.detail || "The terminal has ended.", "ended"); }
  }
  function connect() {
    const url = new URL(box.dataset.terminal, window.location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const mine = socket = new WebSocket(url);
    mine.binaryType = "arraybuffer";
    tell("Opening a shell inside the job …", "opening");
    mine.addEventListener("message", (event) => {
      if (socket !== mine) { return; }
      if (typeof event.data === "string") { hear(JSON.parse(event.data)); } else { terminal.write(new Uint8Array(event.data)); }
    });
    mine.addEventListener("close", () => {
      if (socket !== mine) { return; }
      socket = null;
      if (said.dataset.state !== "ended") { tell("The connection was lost, and the shell with it. The job runs on.", "ended"); }
    });
  }

  terminal.loadAddon(fit);
  terminal.open(box);
  terminal.onData((text) => type(encoder.encode(text)));
  terminal.onBinary((text) => type(Uint8Array.from(text, (each) => each.charCodeAt(0))));
  new ResizeObserver(size).observe(box);
  again.addEventListener("click", () => { terminal.reset(); connect(); });
  connect();
})();
