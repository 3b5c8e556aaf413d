"use strict";
// Pages with a form a row: each is sent on its own, and says beside itself what became of it.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const node of document.querySelectorAll(".to-show")) relgradeText.render(node, node.textContent, false);

  function say(form, text, faults, bad) {
    const said = form.querySelector(".said");
    said.classList.toggle("bad", bad);
    said.textContent = [text, ...faults].join(" ");
  }

  const CONTROLS = "input:not([type=hidden]), select, button";

  function count(form) {
    if (form.dataset.done === "1") return;
    form.dataset.done = "1";
    const done = document.getElementById("count-done");
    done.textContent = String(Number(done.textContent) + 1);
  }

  // On from a row that was kept: the next row, or the next page.
  function goOn(form) {
    const next = form.closest("li").nextElementSibling;
    const first = next ? next.querySelector(CONTROLS) : document.getElementById("next-page");
    if (first) first.focus();
  }

  async function send(form) {
    const row = Object.fromEntries(new FormData(form));
    let answer;
    try {
      const response = await fetch(form.dataset.url, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Relgrade-CSRF": data.csrf },
        body: JSON.stringify(row),
      });
      if (response.status === 404) answer = { saved: false, text: "Your link has ended. Ask for a new one.", faults: [] };
      else answer = await response.json();
    } catch {
      answer = { saved: false, text: "Not sent: the network is away. Press the button again.", faults: [] };
    }
    say(form, answer.text, answer.faults || [], !answer.saved);
    if (answer.saved) {
      count(form);
      goOn(form);
    }
  }

  // Nobody tabs through what is done: to the first open row here, or else on the page that has it.
  function toOpen(event) {
    const form = document.querySelector('form.row[data-done="0"]');
    const first = form && form.querySelector(CONTROLS);
    if (!first) return;
    if (event) event.preventDefault();
    first.focus({ preventScroll: true });
    form.scrollIntoView({ block: "start" });
  }
  const open = document.getElementById("to-open");
  if (open) open.addEventListener("click", toOpen);
  if (new URLSearchParams(location.search).has("open")) toOpen();

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.target);
  });
})();
