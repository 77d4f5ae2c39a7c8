// Conveniences only: every page works without this file.
"use strict";

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function load(url, signal) {
  const answer = await fetch(url, { signal });
  if (!answer.ok) throw answer;
  return answer.status === 204 ? null : new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Code: a button that copies it, or selects it where the browser keeps the clipboard to itself.
for (const block of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = block.querySelector("code");
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected";
    }
    await pause(2);
    button.textContent = "Copy";
  });
  block.append(button);
}

// Board: search while typing. The address follows, so that the page can be shared and gone back to.
const find = document.querySelector("[data-search]");
if (find) {
  let running = new AbortController();
  let asked = 0;
  find.addEventListener("input", async () => {
    const mine = ++asked;
    running.abort();
    const wanted = find.elements.q.value.trim();
    await pause(0.4);
    if (mine !== asked || wanted.length === 1 || wanted.length === 2) return;
    running = new AbortController();
    const url = wanted ? `/board?${new URLSearchParams({ q: wanted })}` : "/board";
    try {
      const page = await load(url, running.signal);
      document.getElementById("results").replaceChildren(...page.getElementById("results").childNodes);
      history.replaceState(null, "", url);
    } catch {
      // What is shown stays; the button asks again and shows why not.
    }
  });
}

// Lists: older entries below those that are there.
document.addEventListener("click", async (event) => {
  const more = event.target.closest("a[data-more]");
  if (!more || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  try {
    const page = await load(more.href);
    const items = [...page.querySelectorAll("[data-list] > li")];
    document.querySelector("[data-list]").append(...items);
    const next = page.querySelector("a[data-more]");
    if (next) more.href = next.href;
    else more.remove();
    items[0]?.querySelector("a")?.focus();
  } catch {
    location.href = more.href;
  }
});

// Thread: replies appear as they come, as long as somebody looks.
async function follow(list) {
  let trouble = 0;
  for (;;) {
    if (document.hidden) {
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      continue;
    }
    try {
      const page = await load(`${list.dataset.live}?since_seq=${list.dataset.seq}&wait=25`);
      trouble = 0;
      for (const item of page ? page.querySelectorAll("li") : []) {
        item.classList.add("new");
        list.append(item);
        list.dataset.seq = item.dataset.seq;
        document.getElementById("replies").textContent = item.dataset.seq === "1" ? "1 reply" : `${item.dataset.seq} replies`;
      }
    } catch (failure) {
      if (failure.status === 404) return;
      trouble = Math.min(trouble + 1, 6);
    }
    await pause(2 ** trouble);
  }
}

const live = document.querySelector("[data-live]");
if (live) follow(live);
