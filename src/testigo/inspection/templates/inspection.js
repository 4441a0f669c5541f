"use strict";
// Arrow keys move over the tokens of a row; what a token may see stays bright, and its facts are told in words.
(() => {
  const told = document.getElementById("told");
  let marked = null, at = -1;
  const items = (group) => [...group.querySelectorAll("li")];
  const facts = (item) => {
    const own = item.closest("ol"), first = own.dataset;
    if (!item.querySelector("b")) return null;
    const [position] = item.querySelector("u").textContent.split(" ");
    return { text: item.querySelector("b").textContent, id: item.querySelector("i").textContent, position: +position,
      segment: first.s, sees: first.sees, causal: first.causal === "1", counts: item.classList.contains("c"),
      special: item.classList.contains("k"), loss: item.querySelector("s")?.textContent, place: item.place };
  };
  const number = (group) => {
    // The place of each token in its sequence: gaps count what they leave out; each padded row begins anew.
    let place = 0;
    for (const list of group.querySelectorAll("ol")) {
      if (group.dataset.padded === "1" && list.dataset.s !== "-1") place = 0;
      for (const item of list.children) { item.place = place; place += +(item.dataset.n || 1); }
    }
    group.numbered = true;
  };
  const seen = (fact) => fact.sees.split(" ").map((run) => run.split("-").map(Number))
    .map(([a, b]) => [a, fact.causal ? Math.min(b, fact.place) : b]).filter(([a, b]) => b >= a);
  const clear = () => {
    if (marked) for (const item of items(marked)) item.classList.remove("x", "h");
    marked = null; told.hidden = true;
  };
  const show = (group, item) => {
    if (!group.numbered) number(group);
    const fact = facts(item);
    if (!fact) return;
    clear();
    const folded = item.closest("details");
    if (folded) folded.open = true;
    marked = group;
    const runs = fact.segment === "-1" ? [] : seen(fact);
    const line = group.dataset.padded === "1" ? item.closest("ol") : null;
    for (const other of items(group)) {
      const n = +(other.dataset.n || 1), list = other.closest("ol");
      const inside = (!line || list === line) && runs.some(([a, b]) => other.place <= b && other.place + n - 1 >= a);
      other.classList.toggle("x", !inside && other !== item);
    }
    item.classList.add("h");
    const words = runs.map(([a, b]) => a === b ? `${a}` : `${a}–${b}`).join(" and ") || "nothing";
    told.textContent = `place ${fact.place}: “${fact.text}”, id ${fact.id}` + (fact.special ? ", a special token" : "") +
      `; ${fact.counts ? "counts in the loss" : "does not count"}; segment ${fact.segment}, position ${fact.position}; ` +
      `may see places ${words}` + (fact.loss ? `; loss under the base ${fact.loss} nats` : "");
    told.hidden = false;
  };
  for (const group of document.querySelectorAll(".tokens")) {
    group.addEventListener("pointerover", (event) => {
      const item = event.target.closest("li");
      if (item && group.contains(item)) show(group, item);
    });
    group.addEventListener("pointerleave", clear);
    group.addEventListener("focus", () => { const all = items(group); at = all.findIndex((item) => item.classList.contains("c")); at = Math.max(at, 0); show(group, all[at]); });
    group.addEventListener("blur", clear);
    group.addEventListener("keydown", (event) => {
      const all = items(group), last = all.length - 1;
      const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
      if (event.key === "Home") at = 0; else if (event.key === "End") at = last;
      else if (step) at = Math.min(Math.max(at + step, 0), last); else return;
      event.preventDefault();
      show(group, all[at]);
      all[at].scrollIntoView({ block: "nearest" });
    });
  }
})();
