// Makes the page quicker to use: keys, live changes, parts instead of whole pages. All that decides
// is a form that works without it.
"use strict";

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const part = { "x-helve-part": "1" };
const detail = $("#detail");
const inbox = $("main.inbox");

// ---- The place of this sign-in ----------------------------------------------------------------

// What every address begins with: the cookie is sent and counts only below it.
const place = location.pathname.match(/^\/~[0-9a-f]{64}(?=\/)/)?.[0] ?? "";
const here = (path) => place + path;
const only = document.body.dataset.only;
// A link's sign-in is for one question, and must not take the place of another that is for all.
const slot = only ? `helve-place-${only}` : "helve-place";
const slotsMax = 20;

// The sign-in page goes on to this place when somebody follows a link to `/approvals/ID`. No other origin can
// read it, nor can another port of this machine.
function remember() {
  if (!place) return;
  try {
    localStorage.setItem(slot, place);
    // Ids begin with their time, so the last ones are the newest.
    const slots = Object.keys(localStorage).filter((name) => name.startsWith("helve-place-")).sort();
    slots.slice(0, -slotsMax).forEach((name) => localStorage.removeItem(name));
  } catch {
    // Without storage, links from elsewhere lead to the sign-in.
  }
}

function forget() {
  try {
    if (localStorage.getItem(slot) === place) localStorage.removeItem(slot);
  } catch {
    // Then there is nothing to forget.
  }
}

remember();
$("#sign-out").addEventListener("submit", forget);

// ---- Times that go on -------------------------------------------------------------------------

function span(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

function tick() {
  const now = Date.now();
  for (const time of $$("time[data-age]")) {
    const seconds = Math.floor((now - Date.parse(time.dateTime)) / 1000);
    time.textContent = seconds < 45 ? "just now" : `${span(seconds)} ago`;
  }
  for (const time of $$("time[data-until]")) {
    const seconds = Math.floor((Date.parse(time.dateTime) - now) / 1000);
    time.textContent = seconds <= 0 ? "expired" : `${span(seconds)} left`;
    time.classList.toggle("soon", seconds < 300);
  }
}
setInterval(tick, 1000);

// ---- Small things -----------------------------------------------------------------------------

function toast(text, sort = "") {
  const note = document.createElement("p");
  note.className = `toast ${sort}`;
  note.textContent = text;
  $("#toasts").append(note);
  setTimeout(() => note.remove(), 6000);
}

function parsed(text) {
  // What the server wrote: values in it are escaped there, and scripts in it would not run.
  return [...new DOMParser().parseFromString(text, "text/html").body.childNodes];
}

async function fetched(address, options = {}) {
  const answer = await fetch(address, { ...options, headers: { ...part, ...options.headers } });
  if (answer.redirected && new URL(answer.url).pathname === "/sign-in") {
    location.assign("/sign-in");
    // This page is about to go: nobody needs an answer, and there is no error to tell of.
    return new Promise(() => {});
  }
  return answer;
}

const themeButton = $("#theme");
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("helve-theme", root.dataset.theme);
  } catch {
    // Then it holds until the next page.
  }
});

const keys = $("#keys");
$("#keys-open").hidden = false;
$("#keys-open").addEventListener("click", () => keys.showModal());

// ---- The inbox --------------------------------------------------------------------------------

const rows = () => $$("#rows .row");
const current = () => $("article", detail)?.dataset.id;
const isPending = () => $("article", detail)?.dataset.state === "pending";
// Keys that decide do nothing for a moment after another question came up: whoever pressed twice
// meant the first.
let shownAt = 0;
let asked = 0;

function mark(id) {
  for (const row of rows()) {
    const is = row.dataset.id === id;
    row.setAttribute("aria-current", is ? "true" : "false");
    if (is) row.scrollIntoView({ block: "nearest" });
  }
}

function fill(text) {
  detail.replaceChildren(...parsed(text));
  detail.scrollTop = 0;
  shownAt = Date.now();
  tick();
}

const field = "input:not([type=checkbox]), textarea, select";
const isWriting = (within = document) => within.contains(document.activeElement) && document.activeElement.matches(field);

function stopWriting(within) {
  if (isWriting(within)) document.activeElement.blur();
}

// Whoever writes goes on writing: else their next letters are keys, and decide.
function focusOn(element) {
  if (!isWriting()) element?.focus({ preventScroll: true });
}

async function open(id, { push = true, view = "detail", focus = true } = {}) {
  const turn = ++asked;
  const answer = await fetched(here(`/approvals/${encodeURIComponent(id)}`));
  const text = await answer.text();
  // Somebody may have gone on meanwhile, or begun to write an answer to what is shown.
  if (turn !== asked || isWriting(detail)) return;
  if (!answer.ok) return toast("This question cannot be shown", "bad");
  fill(text);
  mark(id);
  inbox.dataset.view = view;
  if (push) history.pushState({ id }, "", here(`/approvals/${id}${before ? `?before=${before}` : ""}`));
  if (focus) focusOn($("h2", detail));
}

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.dataset.id === current());
  const older = $("#rows .pager a[rel=next]");
  if (by > 0 && at === all.length - 1 && older) return location.assign(older.href);
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
  if (next && next.dataset.id !== current()) open(next.dataset.id);
}

// Which page of the list this is: the address changes with every question that is opened.
const before = new URLSearchParams(location.search).get("before");
// What the list is filtered by, which is not yet what is being typed.
let listed = "";
const typed = () => $("#filter").value.trim();
const isListed = () => rows().some((row) => row.dataset.id === current());

// Shows one of those that are listed, once another filter holds: whoever then decides by a key means that.
let followed = 0;
function followFilter() {
  // What the filter before this was about to show is not wanted any more.
  if (asked === followed) asked++;
  const isAnswering = $(".acts details[open]", detail);
  if (isListed() || isAnswering || (current() && !listed)) return;
  const first = rows()[0];
  if (first) {
    open(first.dataset.id, { push: false, view: inbox.dataset.view, focus: false });
    followed = asked;
  } else {
    asked++;
    detail.replaceChildren();
  }
}

let reloading = false;
let again = false;
async function reload() {
  // One at a time: a thousand new questions are not a thousand requests.
  if (reloading) return void (again = true);
  reloading = true;
  try {
    const address = new URL(here("/"), location.origin);
    const words = typed();
    if (words) address.searchParams.set("q", words);
    if (before) address.searchParams.set("before", before);
    const answer = await fetched(address);
    if (!answer.ok) return;
    const focused = document.activeElement?.dataset?.id;
    $("#rows").replaceChildren(...parsed(await answer.text()));
    if (focused) $(`#rows .row[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    mark(current());
    const isOther = words !== listed;
    listed = words;
    if (isOther) followFilter();
    const count = Number($(".tally").dataset.count);
    document.title = `${count ? `(${count > 1000 ? "1000+" : count}) ` : ""}Inbox · Helve`;
    tick();
  } finally {
    reloading = false;
    if (again) {
      again = false;
      reload();
    }
  }
}

function gone(id) {
  const all = rows();
  const at = all.findIndex((row) => row.dataset.id === id);
  const next = all[at + 1] ?? all[at - 1];
  all[at]?.closest("li").remove();
  return next?.dataset.id;
}

let sending = false;

async function send(form) {
  // Whoever presses twice decides once.
  if (sending) return;
  sending = true;
  const buttons = $$("button", form);
  buttons.forEach((button) => (button.disabled = true));
  const id = current();
  const tool = $("h2", detail).textContent;
  const turn = ++asked;
  // Before it is sent: the stream may tell of it sooner than the answer does.
  mine.add(id);
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetched(form.action, { method: "POST", body });
    const text = await answer.text();
    const decided = answer.headers.get("x-helve-decided");
    if (decided) {
      toast(`${decided === "denied" ? "Denied" : "Approved"}: ${tool}`, decided === "denied" ? "bad" : "good");
      const next = gone(id);
      reload();
      if (turn !== asked) return;
      stopWriting(form);
      // On a narrow screen the list comes next, not a question that nobody asked for.
      if (next && !narrow()) return await open(next);
    }
    if (!decided) mine.delete(id);
    if (turn !== asked) return;
    if (!$("article", new DOMParser().parseFromString(text, "text/html"))) {
      return toast("This did not work; load the page again", "bad");
    }
    fill(text);
    focusOn($("[data-first]", detail) ?? $("details[open] textarea", detail) ?? $("h2", detail));
  } catch (error) {
    mine.delete(id);
    toast(`The server does not answer: ${error.message}`, "bad");
  } finally {
    sending = false;
    buttons.forEach((button) => (button.disabled = false));
  }
}

const narrow = () => matchMedia("(max-width: 799px)").matches;
// What was decided on this page, which need not be told.
const mine = new Set();

function act(key) {
  const target = $(`.acts [data-key="${key}"]`, detail);
  if (!target || Date.now() - shownAt < 350) return;
  // A question that the filter leaves out is not the one that is meant.
  if (typed() !== listed) return toast("The list does not follow the filter yet; nothing was decided", "warn");
  if (listed && !isListed()) return toast("The filter leaves this question out; nothing was decided", "warn");
  if (target.tagName === "DETAILS") {
    $$(".acts details", detail).forEach((one) => (one.open = one === target ? !one.open : false));
    if (target.open) {
      target.scrollIntoView({ block: "nearest" });
      $("textarea, input:not([type=hidden]), button", target)?.focus();
    }
  } else {
    target.form.requestSubmit(target);
  }
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    const sent = event.target.closest?.("[data-submit]");
    if (event.key === "Enter" && sent && !event.altKey && !event.repeat) sent.form.requestSubmit();
    return;
  }
  if (keys.open) return;
  const written = event.target.closest?.(field);
  if (event.key === "Escape") {
    const opened = $(".acts details[open]", detail ?? document);
    if (opened) opened.open = false;
    if (written) written.blur();
    if (opened) $("h2", detail).focus({ preventScroll: true });
    return;
  }
  if (written) return;
  if (event.key === "?") return void keys.showModal();
  if (!inbox) return;
  const does = {
    j: () => step(1),
    ArrowDown: () => step(1),
    k: () => step(-1),
    ArrowUp: () => step(-1),
    "/": () => $("#filter").focus(),
  };
  const scrolls = event.key.startsWith("Arrow") && event.target.closest?.("pre, .acts, summary");
  if (does[event.key] && !scrolls) {
    event.preventDefault();
    return void does[event.key]();
  }
  if ("aeds".includes(event.key) && !event.repeat && isPending()) {
    event.preventDefault();
    act(event.key);
  }
}
document.addEventListener("keydown", onKey);

function startInbox() {
  shownAt = Date.now();
  history.replaceState({ id: inbox.dataset.view === "detail" ? current() : null }, "");
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const row = event.target.closest("a.row, a[data-reload]");
    const back = event.target.closest("a.back");
    if (row) {
      event.preventDefault();
      open(row.dataset.id ?? current(), { push: !row.hasAttribute("data-reload") });
    } else if (back) {
      event.preventDefault();
      inbox.dataset.view = "list";
      history.pushState({ id: null }, "", here(before ? `/?before=${before}` : "/"));
      $(`#rows .row[aria-current="true"]`)?.focus();
    }
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-part]")) return;
    event.preventDefault();
    send(event.target);
  });
  addEventListener("popstate", (event) => {
    const id = event.state?.id;
    stopWriting(detail);
    if (id) open(id, { push: false });
    else inbox.dataset.view = "list";
  });
  let typing;
  listed = $("#filter").defaultValue.trim();
  // A browser may bring back what was typed before.
  if (typed() !== listed) reload();
  $("#filter").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(reload, 150);
  });
  $("#filter").form.addEventListener("submit", (event) => {
    event.preventDefault();
    reload();
    $("#filter").blur();
  });
  follow(here("/changes"), { change: changed, missed: catchUp, ready: catchUp });
}

// Nothing was told for a while: since the page was made, while it was hidden, while there was no network.
async function catchUp() {
  reload();
  const id = current();
  if (!id || !isPending() || mine.has(id)) return;
  const answer = await fetched(here(`/approvals/${encodeURIComponent(id)}`));
  if (!answer.ok) return;
  const state = $("article", new DOMParser().parseFromString(await answer.text(), "text/html"))?.dataset.state;
  // A question that still waits stays as it is: somebody may be writing an answer.
  if (state && state !== "pending") await closed(id, state, `${state} meanwhile`);
}

async function changed(event) {
  const { id, state, by } = JSON.parse(event.data);
  if (state === "pending") return reload();
  reload();
  await closed(id, state, `${state} by ${by ?? "nobody"} meanwhile`);
}

async function closed(id, state, said) {
  if (id !== current() || mine.has(id) || !isPending()) return;
  // Decided elsewhere while somebody looks at it: it is said, and nothing moves by itself. Keys decide nothing
  // from now on; an answer that is being written stays, and the server refuses it.
  toast(said, "warn");
  $("article", detail).dataset.state = state;
  await open(id, { push: false, view: inbox.dataset.view, focus: detail.contains(document.activeElement) });
}

// ---- Streams ----------------------------------------------------------------------------------

// Follows a stream while the page can be seen: a browser has only six connections for all its tabs.
function follow(address, handlers, onState = () => {}) {
  let source;
  const start = () => {
    source = new EventSource(address);
    source.onopen = () => onState("connected");
    source.onerror = () => onState("not connected");
    for (const [name, handle] of Object.entries(handlers)) source.addEventListener(name, handle);
  };
  const stop = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else if (!source) start();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && !source && start());
  start();
}

// ---- Live -------------------------------------------------------------------------------------

function startLive() {
  const most = 200;
  const table = $("#live");
  const pause = $("#live-pause");
  let held = [];
  const cell = (row, text, className) => {
    const td = row.insertCell();
    if (className) td.className = className;
    td.textContent = text;
    return td;
  };
  const took = (us) => (us === undefined ? "" : us < 1000 ? `${us} µs` : us < 1e6 ? `${(us / 1000).toFixed(1)} ms` : `${(us / 1e6).toFixed(1)} s`);
  const add = ({ at, type, payload }) => {
    $("#live-none").hidden = true;
    const row = table.insertRow(0);
    cell(row, new Date(at).toLocaleTimeString([], { hour12: false }), "num");
    const what = type.replace("tools.", "");
    const state = cell(row, "");
    const pill = document.createElement("span");
    pill.className = `st ${what}`;
    pill.textContent = payload.code ? `${what}: ${payload.code}` : what;
    state.append(pill);
    if (payload.approval_id) {
      const link = document.createElement("a");
      link.href = here(`/approvals/${encodeURIComponent(payload.approval_id)}`);
      link.textContent = payload.tool;
      cell(row, "", "tool").append(link);
    } else {
      cell(row, payload.tool ?? "", "tool");
    }
    cell(row, took(payload.duration_us), "num");
    cell(row, payload.call_id ?? "", "id");
    while (table.rows.length > most) table.deleteRow(-1);
  };
  const heard = (event) => {
    const said = JSON.parse(event.data);
    if (pause.getAttribute("aria-pressed") !== "true") return add(said);
    held.push(said);
    if (held.length > most) held.shift();
    pause.textContent = `Go on (${held.length})`;
  };
  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) return;
    held.forEach(add);
    held = [];
  });
  $("#live-clear").addEventListener("click", () => {
    table.replaceChildren();
    held = [];
  });
  const names = ["executed", "failed", "pending", "registered", "replaced", "unregistered"];
  const handlers = Object.fromEntries(names.map((name) => [`tools.${name}`, heard]));
  handlers.missed = (event) => toast(`${JSON.parse(event.data).missed} events were too fast to show`, "warn");
  follow(here("/v1/events"), handlers, (state) => ($("#live-state").textContent = state));
}

tick();
if (inbox) startInbox();
if ($("#live")) startLive();
