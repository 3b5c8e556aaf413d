"use strict";
// One passage at a time. On the desk answers go to the server one after another and wait here while the network is away;
// in a file they stay in this browser until they are saved as rows.
(() => {
  const AHEAD = 25;
  const WORDS_AT_MOST = 15;
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const name = ["relgrade", data.experiment, data.person, data.round, data.sheet || "desk"].join(":");
  const form = $("bar");
  let at = -1;
  let marks = [];
  let rows = new Map();
  let undoable = [];
  let asPlain = false;
  let busy = false;

  // Storage may be forbidden; then answers are kept in memory alone, and that is said.
  const memory = new Map();
  let stored = true;
  const local = {
    get(key) { try { return localStorage.getItem(key) ?? memory.get(key) ?? null; } catch { return memory.get(key) ?? null; } },
    set(key, value) { try { localStorage.setItem(key, value); memory.delete(key); } catch { stored = false; memory.set(key, value); } },
    remove(key) { memory.delete(key); try { localStorage.removeItem(key); } catch { stored = false; } },
    keys(start) {
      let all = [];
      try { all = Object.keys(localStorage); } catch { stored = false; }
      return [...new Set([...all, ...memory.keys()])].filter((k) => k.startsWith(start)).sort();
    },
  };

  function markOf(answer) {
    return !answer ? "." : answer.judge_later ? "l" : "d";
  }

  // --- answers to the server, in the order in which they were given

  function serverStore() {
    const prefix = name + ":pending:";
    let queue = local.keys(prefix).map((k) => JSON.parse(local.get(k)));
    let sending = false;
    let stopped = "";
    let wait = 1000;
    let timer = 0;

    function tell() {
      const n = queue.length;
      const kept = stored ? "" : " This browser keeps nothing: leave the page open.";
      const what = n === 1 ? "1 answer waits" : n + " answers wait";
      if (stopped) show("queue", stopped + (n ? " " + what + " in this browser." : ""), true);
      else if (n > 1 || (n && wait > 1000)) show("queue", what + " for the network." + kept, wait > 1000);
      else show("queue", "", false);
    }

    async function pump() {
      clearTimeout(timer);
      if (sending || stopped) return;
      sending = true;
      while (queue.length && !stopped) {
        const item = queue[0];
        const outcome = await post(item);
        if (outcome === "later") {
          wait = Math.min(wait * 2, 15000);
          timer = setTimeout(pump, wait);
          break;
        }
        wait = 1000;
        if (outcome === "stop") break;
        queue.shift();
        local.remove(item.at);
      }
      sending = false;
      tell();
    }

    async function post(item) {
      const cut = new AbortController();
      const limit = setTimeout(() => cut.abort(), 10000);
      try {
        const response = await fetch(data.base + "/answer", {
          method: "POST",
          signal: cut.signal,
          headers: { "Content-Type": "application/json", "X-Relgrade-CSRF": data.csrf },
          body: JSON.stringify({ row: item.row, row_digest: item.row_digest, key: item.key }),
        });
        if (response.ok) return "kept";
        if (response.status === 429 || response.status >= 500) return "later";
        if (response.status === 404) stopped = "Your link has ended. Ask for a new one and open it here.";
        else if (response.status === 403) stopped = "Reload the page to go on.";
        else {
          const said = await response.json();
          if (said.code === "bad_row" || said.code === "closed") {
            show("said", said.text + " " + said.faults.join("; "), true);
            if (marks[item.i]) marks[item.i] = ".";
            const row = rows.get(item.i);
            if (row) row.answer = null;
            return "refused";
          }
          stopped = said.text;
        }
        return "stop";
      } catch {
        return "later";
      } finally {
        clearTimeout(limit);
      }
    }

    async function load(from, n) {
      const response = await fetch(data.base + "/rows?from=" + from + "&n=" + n);
      if (!response.ok) throw new Error(String(response.status));
      for (const row of (await response.json()).rows) {
        if (!rows.has(row.i)) rows.set(row.i, row);
      }
    }

    addEventListener("online", () => { wait = 1000; pump(); });
    return {
      async begin() {
        const response = await fetch(data.base + "/marks");
        if (!response.ok) throw new Error(String(response.status));
        const given = await response.json();
        marks = [...given.marks];
        for (const item of queue) marks[item.i] = markOf(item.answer);
        if (given.left) show("how-far", given.pace + ", about " + given.left + " left", false);
        tell();
        pump();
      },
      load,
      overlay(row) {
        for (const item of queue) if (item.i === row.i) row.answer = item.answer;
      },
      save(row, answer, p19) {
        const key = crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
        // What waits is sent in the order of these names, also where this machine's clock was set back meanwhile.
        const last = local.keys(prefix).pop();
        const after = last ? Number(last.slice(prefix.length, prefix.length + 15)) + 1 : 0;
        const where = prefix + String(Math.max(Date.now(), after)).padStart(15, "0") + key.slice(0, 8);
        const item = { at: where, key, i: row.i, row: p19, row_digest: row.row_digest, answer };
        local.set(where, JSON.stringify(item));
        queue.push(item);
        tell();
        pump();
      },
      waiting: () => queue.length,
    };
  }

  // --- answers in this browser, for a sheet that is a file

  function fileStore() {
    return {
      async begin() {
        for (const row of data.rows) {
          const kept = local.get(name + ":" + row.i);
          row.answer = kept ? JSON.parse(kept) : null;
          rows.set(row.i, row);
        }
        marks = data.rows.map((row) => markOf(row.answer));
        if (!stored) show("queue", "This browser keeps nothing: save your answers as a file before you close the page.", true);
        $("export").addEventListener("click", exportRows);
      },
      async load() {},
      overlay() {},
      save(row, answer) {
        local.set(name + ":" + row.i, JSON.stringify(answer));
        show("queue", stored ? "" : "This browser keeps nothing: save your answers as a file before you close the page.", !stored);
      },
      waiting: () => 0,
    };
  }

  function exportRows() {
    const done = data.rows.filter((row) => markOf(row.answer) === "d");
    const text = JSON.stringify({ sheet: data.token }) + "\n" + done.map((row) => JSON.stringify(p19(row, row.answer)) + "\n").join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/jsonl" }));
    link.download = data.experiment + "-" + data.person + "-round-" + data.round + ".jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    show("said", done.length + " of " + data.rows.length + " answers are in " + link.download + ". Hand that file in.", false);
  }

  const store = data.rows ? fileStore() : serverStore();

  // --- what is seen

  function show(id, text, bad) {
    const node = $(id);
    if (node.textContent !== text) node.textContent = text;
    node.classList.toggle("bad", Boolean(bad));
  }

  function doneText() {
    const done = marks.filter((m) => m === "d").length;
    const later = marks.filter((m) => m === "l").length;
    return done + " of " + marks.length + " done" + (later ? ", " + later + " for later" : "");
  }

  function p19(row, answer) {
    const given = { query_id: row.query_id, chunk_id: row.chunk_id, reason: answer.reason, grade: answer.grade };
    for (const flag of ["unrateable", "judge_later", "corpus_cleanup"]) if (answer[flag]) given[flag] = true;
    return given;
  }

  function paint(row) {
    at = row.i;
    $("finished").hidden = true;
    $("passage").hidden = false;
    show("where", "Passage " + (row.i + 1) + " of " + marks.length, false);
    $("query").replaceChildren(relgradeText.plain(row.query));
    $("intent").replaceChildren(relgradeText.plain(row.intent));
    $("header").replaceChildren(relgradeText.plain(row.header || "(no header)"));
    $("chunk").replaceChildren(relgradeText.plain(row.chunk_id));
    relgradeText.render($("text"), row.text, asPlain);
    $("passage").scrollTop = 0;
    fill(row.answer);
    performance.mark("relgrade-shown");
  }

  function fill(answer) {
    const chosen = !answer || answer.judge_later ? null : answer.unrateable ? "x" : String(answer.grade);
    for (const radio of form.elements.grade) radio.checked = radio.value === chosen;
    $("reason").value = (answer && answer.reason) || "";
    $("cleanup").checked = Boolean(answer && answer.corpus_cleanup);
    words();
  }

  function words() {
    const n = $("reason").value.trim().split(/\s+/).filter(Boolean).length;
    show("words", n + " of " + WORDS_AT_MOST + " words", n > WORDS_AT_MOST);
    return n;
  }

  async function go(i) {
    if (busy) return;
    const near = rows.get(i);
    if (near) {
      store.overlay(near);
      paint(near);
      ahead(i);
      return;
    }
    busy = true;
    try {
      await store.load(i, AHEAD);
      busy = false;
      if (rows.has(i)) await go(i);
    } catch (error) {
      busy = false;
      const ended = error.message === "404";
      show("said", ended ? "Your link has ended. Ask for a new one and open it here." : "The next passages have not come: the network is away. Trying again.", true);
      if (!ended) setTimeout(() => go(i), 2000);
    }
  }

  // The next open passages are here before they are asked for.
  let fetching = false;
  async function ahead(i) {
    if (fetching) return;
    const due = upcoming(i, AHEAD).find((n) => !rows.has(n));
    if (due === undefined) return;
    fetching = true;
    try { await store.load(due, AHEAD); } catch { /* asked again at the next passage */ }
    fetching = false;
  }

  function upcoming(i, n) {
    const found = [];
    for (let k = i + 1; k < marks.length && found.length < n; k += 1) if (marks[k] === ".") found.push(k);
    return found;
  }

  function next() {
    const order = [...marks.keys()];
    const after = [...order.slice(at + 1), ...order.slice(0, at + 1)];
    const open = after.find((i) => marks[i] === ".");
    const due = open !== undefined ? open : after.find((i) => marks[i] === "l" && i !== at) ?? after.find((i) => marks[i] === "l");
    if (due !== undefined) return go(due);
    finish();
    return undefined;
  }

  function finish() {
    at = -1;
    $("passage").hidden = true;
    $("finished").hidden = false;
    $("finished-head").textContent = marks.length === 0 ? "Nothing to grade" : "All done";
    $("finished-text").textContent = marks.length === 0
      ? "There is no passage on this sheet."
      : data.rows ? "Every passage has an answer. Save your answers as a file and hand it in."
      : data.closed ? "Every passage has an answer, and the round is closed. Back and On show them."
      : "Every passage has an answer. Undo, or Back and On, still change them.";
    show("where", "No passage", false);
    for (const id of ["query", "intent"]) $(id).replaceChildren("\u2013");
    fill(null);
    $("finished").focus();
  }

  // --- what is done

  function chosen() {
    const found = [...form.elements.grade].find((radio) => radio.checked);
    return found ? found.value : null;
  }

  function keep(answer, said) {
    const row = rows.get(at);
    undoable.push({ i: at, before: row.answer });
    row.answer = answer;
    marks[at] = markOf(answer);
    store.save(row, answer, p19(row, answer));
    show("said", said + " " + doneText() + ".", false);
    $("passage").focus({ preventScroll: true });
    next();
  }

  function reasonDue(value) {
    return value === "x" || data.reason === "all" || Number(value) > 0;
  }

  function save() {
    if (at < 0) return;
    const value = chosen();
    const reason = $("reason").value.replace(/\s+/g, " ").trim();
    if (value === null) { show("said", "Choose a grade first.", true); return; }
    if (!reason && reasonDue(value)) {
      show("said", "Say in a few words what the passage says about the intent.", true);
      $("reason").focus({ preventScroll: true });
      return;
    }
    if (words() > WORDS_AT_MOST) { show("said", "A reason has at most " + WORDS_AT_MOST + " words.", true); return; }
    const rated = value !== "x";
    keep({
      reason: reason || null,
      grade: rated ? Number(value) : null,
      unrateable: !rated,
      judge_later: false,
      corpus_cleanup: $("cleanup").checked,
    }, rated ? "Graded " + value + "." : "Marked as not to be rated.");
  }

  function choose(value) {
    if (at < 0) return;
    for (const radio of form.elements.grade) radio.checked = radio.value === value;
    const reason = $("reason").value.trim();
    if (reason || !reasonDue(value)) save();
    else {
      $("reason").focus({ preventScroll: true });
      show("said", "Now the reason, then Enter.", false);
    }
  }

  function later() {
    if (at < 0) return;
    const reason = $("reason").value.replace(/\s+/g, " ").trim();
    const kept = reason && words() <= WORDS_AT_MOST ? reason : null;
    keep({ reason: kept, grade: null, unrateable: false, judge_later: true, corpus_cleanup: $("cleanup").checked }, "Kept for later.");
  }

  // The ledger forgets nothing: taking back writes what stood before, or that the passage is for later.
  function undo() {
    const last = undoable.pop();
    if (!last) { show("said", "There is nothing to undo.", false); return; }
    const row = rows.get(last.i);
    const taken = row.answer;
    const back = last.before || { reason: null, grade: null, unrateable: false, judge_later: true, corpus_cleanup: false };
    row.answer = last.before;
    marks[last.i] = markOf(last.before);
    store.save(row, back, p19(row, back));
    go(last.i);
    fill({ ...taken, judge_later: true });
    show("said", "Taken back. " + doneText() + ".", false);
    $("passage").focus({ preventScroll: true });
  }

  function step(by) {
    const i = at < 0 ? (by < 0 ? marks.length - 1 : 0) : at + by;
    if (i >= 0 && i < marks.length) { show("said", "", false); go(i); }
  }

  function mode() {
    asPlain = !asPlain;
    $("mode").setAttribute("aria-pressed", String(asPlain));
    if (at >= 0) relgradeText.render($("text"), rows.get(at).text, asPlain);
  }

  const KEYS = {
    x: () => choose("x"), l: later, u: undo, j: () => step(1), k: () => step(-1), t: mode,
    r: () => $("reason").focus({ preventScroll: true }), c: () => { $("cleanup").checked = !$("cleanup").checked; },
  };

  function pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    const target = event.target;
    if (target.id === "reason") {
      if (event.key === "Escape") $("passage").focus({ preventScroll: true });
      return;
    }
    if (!$("keys").checked) return;
    if (event.key === "Enter" && !target.closest("button, a, summary")) { event.preventDefault(); save(); return; }
    const value = event.key;
    if (/^[0-9]$/.test(value)) {
      if (Number(value) < data.scale.length) { event.preventDefault(); choose(value); }
      else show("said", "The scale ends at " + (data.scale.length - 1) + ".", true);
    } else if (KEYS[value.toLowerCase()]) {
      event.preventDefault();
      KEYS[value.toLowerCase()]();
    }
  }

  async function begin() {
    relgradeText.render($("rubric"), data.rubric, false);
    const narrow = matchMedia("(max-width: 48rem)").matches;
    $("rubric-box").open = !narrow;
    $("keys").checked = local.get("relgrade:keys") !== "off";
    $("keys").addEventListener("change", () => local.set("relgrade:keys", $("keys").checked ? "on" : "off"));
    $("reason").addEventListener("input", words);
    for (const [id, act] of [["later", later], ["undo", undo], ["mode", mode], ["back", () => step(-1)], ["on", () => step(1)]]) {
      $(id).addEventListener("click", act);
    }
    form.addEventListener("submit", (event) => { event.preventDefault(); save(); });
    document.addEventListener("keydown", pressed);
    addEventListener("beforeunload", (event) => { if (store.waiting() && !stored) event.preventDefault(); });
    try {
      await store.begin();
    } catch {
      show("said", "The sheet has not come: the network is away. Trying again.", true);
      setTimeout(() => location.reload(), 5000);
      return;
    }
    await next();
    show("said", doneText() + "." + (data.closed ? " This round is closed: no answer can change any more." : ""), Boolean(data.closed));
    $("passage").focus({ preventScroll: true });
    document.documentElement.dataset.ready = "1";
  }

  begin();
})();
