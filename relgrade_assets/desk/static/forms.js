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

  function count(form) {
    form.dataset.done = "1";
    const done = document.querySelectorAll('form.row[data-done="1"]').length;
    document.getElementById("count-done").textContent = String(done);
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
      const next = form.closest("li").nextElementSibling;
      const first = next && next.querySelector("input:not([type=hidden]), select, button");
      if (first) first.focus();
    }
  }

  // Hundreds of rows: nobody tabs through what is done.
  function toOpen() {
    const form = document.querySelector('form.row[data-done="0"]');
    const first = form && form.querySelector("input:not([type=hidden]), select, button");
    if (!first) return;
    first.focus({ preventScroll: true });
    form.scrollIntoView({ block: "start" });
  }
  const open = document.getElementById("to-open");
  if (open) open.addEventListener("click", toOpen);

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    send(event.target);
  });
})();
