"use strict";

// Replaces what changes and leaves the rest as it is, with the focus and the position of the reader.
const INTERVAL = 2000;

async function update() {
  try {
    const response = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!response.ok) throw new Error(response.statusText);
    const next = new DOMParser().parseFromString(await response.text(), "text/html");
    for (const section of document.querySelectorAll("[data-live]")) {
      const content = next.getElementById(section.id);
      if (content && content.innerHTML !== section.innerHTML) {
        section.replaceChildren(...content.childNodes);
      }
    }
    document.body.classList.remove("lost");
  } catch {
    document.body.classList.add("lost");
  }
  setTimeout(update, INTERVAL);
}

setTimeout(update, INTERVAL);
