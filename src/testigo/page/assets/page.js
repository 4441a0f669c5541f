// Keeps the page as the workspace is: the server says that something changed, and the changed parts are fetched.
"use strict";

(() => {
  const PAUSE_MS = 500;
  const FOCUSED = "a, summary, input, select, button, [tabindex]";
  const main = document.getElementById("content");
  const light = document.getElementById("live");
  const told = new Map(); // the server's own text of each part, to see what changed
  let source = null;
  let drawing = null; // the pictures' own script, loaded where there are some
  let shown = main.dataset.state;
  let wanted = shown;
  let busy = false;

  const parts = (root) => root.querySelectorAll("[data-part]");
  const say = (what) => {
    light.dataset.state = what;
    if (light.textContent !== light.dataset[what]) light.textContent = light.dataset[what];
  };

  function keyOf(details, index) {
    return details.dataset.key || `${index} ${details.firstElementChild?.textContent.replace(/\d+/g, "")}`;
  }

  // What the reader has typed or marked: forms by their actions, fields by their names, boxes by their values too.
  const fieldsOf = (part) => [...part.querySelectorAll("input:not([type=hidden]), select")];
  const nameOf = (field) => [field.form?.action, field.name, field.type === "checkbox" ? field.value : ""].join(" ");

  // What the reader has opened, scrolled, focused, typed and marked stays as it is when a part is replaced.
  function remember(part) {
    const opened = new Map();
    part.querySelectorAll("details").forEach((one, index) => opened.set(keyOf(one, index), one.open));
    const scrolled = [...part.querySelectorAll(".scroll, pre")].map((one) => [
      one.scrollLeft, one.scrollTop, one.scrollTop + one.clientHeight >= one.scrollHeight - 4,
    ]);
    const links = [...part.querySelectorAll(FOCUSED)];
    const typed = new Map(fieldsOf(part).map((one) => [nameOf(one), one.type === "checkbox" ? one.checked : one.value]));
    return { opened, scrolled, typed, focus: links.indexOf(document.activeElement) };
  }

  function restore(part, kept) {
    part.querySelectorAll("details").forEach((one, index) => {
      if (kept.opened.has(keyOf(one, index))) one.open = kept.opened.get(keyOf(one, index));
    });
    part.querySelectorAll(".scroll, pre").forEach((one, index) => {
      const [left, top, atEnd] = kept.scrolled[index] || [0, 0, true];
      one.scrollLeft = left;
      one.scrollTop = "follow" in one.dataset && atEnd ? one.scrollHeight : top;
    });
    for (const field of fieldsOf(part)) {
      const value = kept.typed.get(nameOf(field));
      if (value === undefined) continue;
      if (field.type === "checkbox") field.checked = value;
      else field.value = value;
    }
    if (kept.focus >= 0) part.querySelectorAll(FOCUSED)[kept.focus]?.focus({ preventScroll: true });
  }

  // Forms that only choose what is shown are sent when the choice changes; pictures are drawn where they come into view.
  function prepare(root) {
    for (const form of root.querySelectorAll("form[data-submit]")) {
      form.addEventListener("change", () => form.requestSubmit());
    }
    root.querySelectorAll(".hint").forEach((one) => { one.hidden = false; });
    if (drawing) drawing.draw(root);
    else if (root.querySelector("[data-curves]")) {
      import(document.querySelector("script[data-drawing]").dataset.drawing).then((script) => {
        drawing ??= script;
        drawing.draw(main);
      });
    }
  }

  function replace(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const content = fresh.getElementById("content");
    if (!content) return false;
    const old = new Map([...parts(main)].map((one) => [one.dataset.part, one]));
    const names = [...parts(content)].map((one) => one.dataset.part);
    if (names.join() !== [...old.keys()].join()) {
      main.replaceChildren(...content.childNodes);
      told.clear();
      prepare(main);
    } else {
      for (const part of [...parts(content)]) {
        const name = part.dataset.part;
        const html = part.outerHTML;
        if (told.get(name) === html) continue;
        const before = told.has(name) ? null : old.get(name).outerHTML;
        told.set(name, html);
        if (before === html) continue;
        const kept = remember(old.get(name));
        drawing?.move(old.get(name), part);
        old.get(name).replaceWith(part);
        restore(part, kept);
        prepare(part);
      }
    }
    shown = content.dataset.state;
    return true;
  }

  async function refresh() {
    if (busy || wanted === shown) return;
    busy = true;
    const began = performance.now();
    try {
      const answer = await fetch(location.href, { headers: { "testigo-fragment": "1" }, cache: "no-store" });
      if (!replace(await answer.text())) throw new Error("not a page of ours");
    } catch {
      say("lost");
    }
    // As long as the server needed for it, the page lets it rest.
    setTimeout(() => { busy = false; refresh(); }, Math.max(PAUSE_MS, performance.now() - began));
  }

  function listen() {
    if (source || document.hidden) return;
    if (!main.dataset.topics) return poll();
    source = new EventSource(`${main.dataset.live}?topics=${encodeURIComponent(main.dataset.topics)}`);
    source.addEventListener("open", () => say("live"));
    source.addEventListener("error", () => say("lost"));
    source.addEventListener("state", (event) => { wanted = event.data; refresh(); });
  }

  // A list of campaigns has no single source of changes: it is asked for from time to time.
  function poll() {
    const every = Number(main.dataset.poll);
    if (!every || document.hidden) return;
    say("live");
    setTimeout(async () => {
      if (document.hidden) return;
      wanted = `${Date.now()}`;
      await refresh();
      shown = wanted;
      poll();
    }, every);
  }

  function rest() {
    source?.close();
    source = null;
    say("idle");
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : listen()));
  window.addEventListener("pagehide", rest);
  window.addEventListener("pageshow", listen);
  prepare(main);
  main.querySelectorAll("[data-follow]").forEach((one) => { one.scrollTop = one.scrollHeight; });
  listen();
})();
