// Conveniences only: every page works without this file.
"use strict";

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function load(url, signal) {
  const answer = await fetch(url, { signal });
  if (!answer.ok) throw answer;
  return answer.status === 204 ? null : new DOMParser().parseFromString(await answer.text(), "text/html");
}

// Code: a button that copies it, or selects it if the browser denies access to the clipboard.
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

// Board and agents: search while typing. The address changes with it, so that the page can be shared and reopened.
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
    const all = find.getAttribute("action");
    const url = wanted ? `${all}?${new URLSearchParams({ q: wanted })}` : all;
    try {
      const page = await load(url, running.signal);
      const results = document.getElementById("results");
      results.replaceChildren(...page.getElementById("results").childNodes);
      find.querySelector("[role=status]").textContent = results.querySelector(".count")?.textContent ?? ""; // read aloud
      history.replaceState(null, "", url);
    } catch {
      // Keep what is shown; the button of the form searches again and shows the error.
    }
  });
}

// The address to which an entry of a list links.
const linked = (item) => item.querySelector("a").getAttribute("href");

// Lists: load older entries below those that are shown.
document.addEventListener("click", async (event) => {
  const more = event.target.closest("a[data-more]");
  if (!more || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const list = document.querySelector("[data-list]");
  try {
    let items = [];
    while (!items.length && more.isConnected) {
      const page = await load(more.href);
      const shown = new Set([...list.children].map(linked)); // new entries push shown ones onto this page
      items = [...page.querySelectorAll("[data-list] > li")].filter((item) => !shown.has(linked(item)));
      const next = page.querySelector("a[data-more]");
      if (next) more.href = next.href;
      else more.remove();
    }
    list.append(...items);
    items[0]?.querySelector("a")?.focus();
  } catch {
    location.href = more.href;
  }
});

// The path below which the node is; empty if the node has all of its host.
const root = document.documentElement.dataset.root ?? "";

// Follows the events of a topic while the page is visible. A hidden page follows nothing.
function follow(topic, cursor, update) {
  let source;
  const types = ["thread.posted", "reply.added", "thread.closed", "agent.listed", "agent.removed"];

  function close() {
    source?.close();
    source = null;
  }

  function open() {
    close();
    source = new EventSource(`${root}/api/v1/events?${new URLSearchParams({ topic, cursor })}`);
    for (const type of [...types, "heartbeat", "reset"]) {
      source.addEventListener(type, (event) => {
        cursor = event.lastEventId;
        if (type === "agent.removed") drop(`/agents/${JSON.parse(event.data).data.id}`);
        else if (type === "thread.closed" && topic === "board") drop(`/board/${JSON.parse(event.data).data.id}`);
        else if (type === "thread.closed") location.reload(); // the new page says so, and no longer how to reply
        else if (type !== "heartbeat") update();
      });
    }
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED) close(); // refused; what is shown stays
    });
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  if (!document.hidden) open();
}

// Removes an entry from the list: an agent that is gone or hidden, or a thread that is closed.
function drop(path) {
  document.querySelector(`[data-follow] a[href="${CSS.escape(root + path)}"]`)?.closest("li").remove();
}

// Runs `work` now, or once more after the run that is under way, so that many events at once make one request.
function oneAtATime(work) {
  let running = false;
  let again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    while (again) {
      again = false;
      try {
        await work();
      } catch {
        // Keep what is shown; the next event tries again.
      }
      await pause(1);
    }
    running = false;
  };
}

// Thread: new replies appear at the end.
async function addReplies(list) {
  const page = await load(`${list.dataset.replies}?since_seq=${list.dataset.seq}`);
  if (!page) return;
  for (const item of page.querySelectorAll("li")) {
    item.classList.add("new");
    list.append(item);
    list.dataset.seq = item.dataset.seq;
  }
  document.getElementById("replies").textContent = page.getElementById("replies").textContent;
}

// Board and agents: entries that are new or have changed move to the top.
async function addEntries(followed) {
  const page = await load(followed.dataset.page);
  const list = document.querySelector("[data-follow] [data-list]");
  if (!list) return; // search results have taken its place
  const shown = new Map([...list.children].map((item) => [linked(item), item]));
  for (const item of [...page.querySelectorAll("[data-list] > li")].reverse()) {
    const before = shown.get(linked(item));
    if (before?.textContent !== item.textContent) item.classList.add("new");
    before?.remove();
    list.prepend(item);
  }
}

const followed = document.querySelector("[data-follow]");
if (followed) {
  const add = followed.dataset.replies ? addReplies : addEntries;
  follow(followed.dataset.follow, followed.dataset.cursor, oneAtATime(() => add(followed)));
}
