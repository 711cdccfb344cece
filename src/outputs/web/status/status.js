// Updates countdowns, adds local times and reloads the content every few seconds. The selection and the focus are
// kept. The page is complete without this script.
"use strict";
(() => {
  const REFRESH_MS = 3000;
  let skew = 0; // clock of the VM minus clock of the browser

  const now = () => Date.now() + skew;
  // The same format as on the server.
  const inWords = (ms) => {
    const seconds = Math.max(0, Math.floor(ms / 1000));
    const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
    const first = units.findIndex(([length]) => seconds >= length);
    if (first < 0) return "0s";
    let rest = seconds;
    const parts = units.slice(first, first + 2).map(([length, unit]) => {
      const number = Math.floor(rest / length);
      rest %= length;
      return number ? `${number}${unit}` : "";
    });
    return parts.join(" ").trim();
  };

  const write = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  const tick = () => {
    for (const element of document.querySelectorAll("[data-not-before]")) {
      const left = Number(element.dataset.notBefore) - now();
      write(element, left < 1000 ? "any moment" : inWords(left));
      element.closest(".timer")?.toggleAttribute("data-overdue", left < 1000);
    }
    for (const element of document.querySelectorAll("[data-since]")) {
      write(element, inWords(now() - Number(element.dataset.since)));
    }
    for (const element of document.querySelectorAll("progress[data-to]")) {
      const [from, to] = [Number(element.dataset.from), Number(element.dataset.to)];
      element.value = Math.min(1, Math.max(0, (now() - from) / (to - from)));
    }
  };

  const localForm = new Intl.DateTimeFormat(undefined, {
    weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
    timeZoneName: "short",
  });
  const localize = () => {
    if (new Date().getTimezoneOffset() === 0) return; // the UTC time is the local time
    for (const element of document.querySelectorAll("time[data-at] + .local")) {
      write(element, `${localForm.format(Number(element.previousElementSibling.dataset.at))} local`);
      element.hidden = false;
    }
  };

  const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.eventId ?? node.dataset.testid ?? "" : "");
  const isSame = (old, fresh) => old.nodeName === fresh.nodeName && key(old) === key(fresh);

  // Makes `old` equal to `fresh` and keeps the nodes that both have.
  const morph = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    let place = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      let match = place;
      while (match && !isSame(match, child)) match = match.nextSibling;
      if (match) {
        if (match !== place) old.insertBefore(match, place);
        else place = place.nextSibling;
        morph(match, child);
      } else {
        old.insertBefore(document.importNode(child, true), place);
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  };

  const setLost = (isLost) => document.documentElement.toggleAttribute("data-lost", isLost);

  const main = () => document.querySelector("main[data-now]");
  const update = () => {
    skew = Number(main().dataset.now) - Date.now();
    localize();
    tick();
  };

  let isBusy = false;
  const refresh = async () => {
    if (isBusy || document.hidden) return;
    isBusy = true;
    try {
      const response = await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (!response.ok) throw new Error(response.statusText);
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      const content = fresh.querySelector("main[data-now]");
      if (!content) throw new Error("no status page");
      document.title = fresh.title;
      const [name, freshName] = [document.querySelector("h1"), fresh.querySelector("h1")];
      write(name, freshName.textContent);
      morph(main(), content);
      update();
      setLost(false);
    } catch {
      // The VM may be paused or restarting. The content stays, with a notice that it may be out of date.
      setLost(true);
    } finally {
      isBusy = false;
    }
  };

  if (!main()) return;
  update();
  setInterval(tick, 250);
  setInterval(refresh, REFRESH_MS);
  document.addEventListener("visibilitychange", refresh);
})();
