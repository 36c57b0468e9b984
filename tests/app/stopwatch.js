// Times in one browser tab, in milliseconds of performance.now() (0: its navigation began).
// A picture is a Plotly figure; it is painted once a frame has shown its last change.
(() => {
  const watch = { pressed: null, sent: null, finished: null, first: null, last: null, heard: 0 };
  window.stopwatch = watch;
  watch.start = () => {
    Object.assign(watch, { pressed: null, sent: null, finished: null, first: null, last: null });
  };
  const state = () =>
    document.querySelector("[data-testid=stApp]")?.getAttribute("data-test-script-state");
  // Nothing runs, and nothing was heard or painted for so long. A run that begins and ends between
  // two frames never shows as running: it is over with the server's last word.
  watch.isSettled = (quietMs) => {
    const isAnswered = watch.sent !== null && watch.heard > watch.sent;
    if (state() !== "notRunning" || (watch.finished === null && !isAnswered)) return false;
    const end = Math.max(watch.finished ?? 0, watch.last ?? 0, watch.heard);
    if (performance.now() - end <= quietMs) return false;
    watch.finished ??= watch.heard;
    return true;
  };

  const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;
  const isInPicture = (node) =>
    (isElement(node) ? node : node.parentElement)?.closest(".js-plotly-plot");
  const holdsPicture = (node) => isElement(node) &&
    (node.matches(".js-plotly-plot") || node.querySelector(".js-plotly-plot"));
  const changesPicture = (change) =>
    isInPicture(change.target) || [...change.addedNodes].some(holdsPicture);

  let isAwaited = false;
  const painted = new MessageChannel(); // a message after a frame's callback comes after its paint
  painted.port1.onmessage = () => {
    watch.last = performance.now();
    watch.first ??= watch.last;
  };
  const awaitPaint = () => {
    if (isAwaited) return;
    isAwaited = true;
    requestAnimationFrame(() => {
      isAwaited = false;
      painted.port2.postMessage(null);
    });
  };
  new MutationObserver((changes) => {
    if (changes.some(changesPicture)) awaitPaint();
    if (changes.some((each) => each.attributeName === "data-test-script-state")) {
      if (state() === "notRunning") watch.finished = performance.now();
    }
  }).observe(document, {
    subtree: true,
    childList: true,
    attributeFilter: ["d", "transform", "data-test-script-state"],
  });

  addEventListener("keydown", () => (watch.pressed ??= performance.now()), true);
  addEventListener("pointerup", () => (watch.pressed ??= performance.now()), true);
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", () => (watch.heard = performance.now()));
    }
    send(...given) {
      watch.sent ??= performance.now();
      return super.send(...given);
    }
  };
})();
