"use strict";
// A passage or a rubric as DOM nodes: text nodes alone, so that nothing in it is ever read as HTML. No links are made.
const relgradeText = (() => {
  const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2060-\u2069\ufeff]/g;
  const CODE = /^\s*(def |class |import |from \S+ import|function\b|const |let |var |return\b|public |private |static |#include|package |fn |func |@\w+|if ?\(|for ?\(|while ?\(|else\b|try\b|[})\]]|<\/?\w[^>]*>)|[{};]\s*$|^\s*(#|\/\/|\*|\/\*)/;
  // A declaration says code, however much of what follows is its documentation.
  const DECLARED = /^\s*((async )?(def|class|function|fn|func|interface|struct|impl) \w+.*[({:]|(public|private|protected|static) .*[({;]|#include |import \w+[;.]|@\w+\s*$)/m;
  const BLOCK = /^(#{1,6} |```|~~~|>|\s*([-*+]|\d{1,3}[.)])\s+\S|\|)/;

  function make(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children);
    return node;
  }

  // Characters that would hide or turn text are shown by their number.
  function plain(text) {
    const whole = document.createDocumentFragment();
    let last = 0;
    for (const found of text.matchAll(HIDDEN)) {
      whole.append(text.slice(last, found.index));
      const number = found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
      whole.append(make("span", "control", "U+" + number));
      last = found.index + 1;
    }
    whole.append(text.slice(last));
    return whole;
  }

  function inline(text) {
    const whole = document.createDocumentFragment();
    const parts = text.length > 20000 ? [text] : text.split(/(`[^`\n]+`|\*\*[^*\n]+\*\*)/);
    for (const part of parts) {
      if (/^`[^`]+`$/.test(part)) whole.append(make("code", "", plain(part.slice(1, -1))));
      else if (/^\*\*[^*]+\*\*$/.test(part)) whole.append(make("strong", "", plain(part.slice(2, -2))));
      else whole.append(plain(part));
    }
    return whole;
  }

  function kind(text) {
    const lines = text.slice(0, 20000).split("\n").filter((l) => l.trim());
    if (/^(```|~~~)/m.test(text) || /^\|.*\|\s*\n\|[\s:|-]+\|/m.test(text)) return "markdown";
    if (DECLARED.test(text.slice(0, 20000))) return "code";
    const code = lines.filter((l) => CODE.test(l) && !/^#{1,6} [A-Z]/.test(l)).length;
    if (lines.length > 1 && code / lines.length >= 0.25) return "code";
    return lines.some((l) => BLOCK.test(l)) ? "markdown" : "prose";
  }

  function cells(line) {
    return line.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
  }

  function markdown(text) {
    const whole = document.createDocumentFragment();
    const lines = text.split("\n");
    let i = 0;
    while (i < lines.length) {
      const line = lines[i];
      const fence = /^(```|~~~)/.exec(line);
      const head = /^(#{1,6}) (.*)/.exec(line);
      const item = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)/.exec(line);
      if (!line.trim()) {
        i += 1;
      } else if (fence) {
        let end = i + 1;
        while (end < lines.length && !lines[end].startsWith(fence[1])) end += 1;
        whole.append(make("pre", "", make("code", "", plain(lines.slice(i + 1, end).join("\n")))));
        i = end + 1;
      } else if (head) {
        whole.append(make("div", "head head" + head[1].length, inline(head[2])));
        i += 1;
      } else if (line.startsWith("|") && /^\|[\s:|-]+\|?\s*$/.test(lines[i + 1] || "")) {
        const table = make("table", "");
        table.tabIndex = 0;
        const top = make("tr", "");
        for (const c of cells(line)) {
          const th = make("th", "", inline(c));
          th.scope = "col";
          top.append(th);
        }
        table.append(top);
        for (i += 2; i < lines.length && lines[i].startsWith("|"); i += 1) {
          table.append(make("tr", "", ...cells(lines[i]).map((c) => make("td", "", inline(c)))));
        }
        whole.append(table);
      } else if (item) {
        const ordered = /\d/.test(item[2]);
        const list = make(ordered ? "ol" : "ul", "");
        if (ordered) list.start = parseInt(item[2], 10);
        while (i < lines.length) {
          const next = /^(\s*)([-*+]|\d{1,3}[.)])\s+(.*)/.exec(lines[i]);
          if (next) list.append(make("li", "", inline(next[3])));
          else if (/^\s{2,}\S/.test(lines[i])) list.lastChild.append(" ", inline(lines[i].trim()));
          else break;
          i += 1;
        }
        whole.append(list);
      } else if (line.startsWith(">")) {
        const quoted = [];
        for (; i < lines.length && lines[i].startsWith(">"); i += 1) quoted.push(lines[i].replace(/^> ?/, ""));
        whole.append(make("div", "quote", inline(quoted.join("\n"))));
      } else {
        const part = [line];
        for (i += 1; i < lines.length && lines[i].trim() && !BLOCK.test(lines[i]); i += 1) part.push(lines[i]);
        whole.append(make("p", "", inline(part.join("\n"))));
      }
    }
    return whole;
  }

  function render(into, text, asPlain) {
    const how = asPlain ? "plain" : kind(text);
    if (how === "markdown") into.replaceChildren(markdown(text));
    else if (how === "code") into.replaceChildren(make("pre", "", make("code", "", plain(text))));
    else if (how === "prose") into.replaceChildren(make("div", "plain-text", inline(text)));
    else into.replaceChildren(make("div", "plain-text", plain(text)));
  }

  return { render, plain };
})();
