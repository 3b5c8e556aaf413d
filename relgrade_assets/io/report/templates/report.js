"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const config = { displaylogo: false, responsive: true, displayModeBar: false, scrollZoom: false, doubleClick: false };
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  /* Colours, fonts and margins are the page's, so that light, dark and paper need no plot of their own. */
  function layoutOf(own, width) {
    const css = getComputedStyle(root);
    const ink = css.getPropertyValue("--ink").trim(), grid = css.getPropertyValue("--grid").trim();
    const layout = structuredClone(own);
    const narrow = width < 560;
    Object.assign(layout, {
      autosize: true, dragmode: false, hovermode: "closest", paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: narrow ? 11 : 12, color: ink },
      legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 },
      margin: { l: 8, r: 12, t: own.showlegend === false ? 12 : 40, b: 8 },
    });
    for (const name of Object.keys(layout).filter((k) => /^[xy]axis/.test(k))) {
      Object.assign(layout[name], { automargin: true, fixedrange: true, gridcolor: grid, zeroline: layout[name].zeroline === true, zerolinecolor: ink, linecolor: grid });
      layout[name].title = { standoff: 8, ...(layout[name].title || {}) };
      if (name.startsWith("x") && narrow && layout[name].dtick) layout[name].dtick = undefined;
    }
    return layout;
  }

  function differences() {
    const q = data.queries, choice = document.getElementById("pair");
    const pair = q.pairs[Number(choice.value)];
    const a = q.values[pair.arm], b = q.values[pair.other];
    const rows = [];
    q.ids.forEach((id, i) => {
      if (a[i] !== null && b[i] !== null) rows.push([a[i] - b[i], id, q.strata[i], q.texts[i] || ""]);
    });
    rows.sort((x, y) => y[0] - x[0] || (x[1] < y[1] ? -1 : 1));
    const said = pair.said + (rows.length ? ` Most for ${pair.arm}: ${rows[0][1]}; most for ${pair.other}: ${rows[rows.length - 1][1]}.` : "");
    document.getElementById("said").textContent = said;
    document.getElementById("differences").setAttribute("aria-label", said);
    return {
      data: [{
        type: "bar", x: rows.map((_, i) => i + 1), y: rows.map((r) => r[0]), marker: { color: rows.map((r) => (r[0] < 0 ? "#d55e00" : "#0072b2")) },
        text: rows.map((r) => escaped(r[1]) + ", " + escaped(r[2]) + (r[3] ? "<br>" + escaped(r[3]) : "")), textposition: "none", hovertemplate: "%{text}: %{y:.3f}<extra></extra>",
      }],
      layout: { height: 320, showlegend: false, bargap: 0.1, xaxis: { title: { text: "queries, sorted" }, dtick: rows.length > 10 ? undefined : 1 }, yaxis: { title: { text: `${q.measure}, ${pair.arm} − ${pair.other}` }, range: [-1.02, 1.02] } },
    };
  }

  const specOf = (box) => (box.id === "differences" ? differences() : data.plots[box.dataset.plot]);
  const boxes = [...document.querySelectorAll(".plot")];

  function draw(box, width) {
    const spec = specOf(box);
    const layout = layoutOf(spec.layout, width || box.clientWidth);
    if (width) Object.assign(layout, { width, autosize: false });
    Plotly.react(box, structuredClone(spec.data), layout, config);
    box.dataset.drawn = "1";
    root.dataset.first ??= String(performance.now());
  }

  const near = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
  }, { rootMargin: "400px" });
  boxes.forEach((box) => near.observe(box));

  /* The rest is drawn when there is time, one at a time, so that the first is seen at once. */
  const later = window.requestIdleCallback || ((work) => setTimeout(work, 50));
  (function rest() {
    const next = boxes.find((box) => !box.dataset.drawn);
    if (!next) { root.dataset.ready = "1"; return; }
    later(() => { if (!next.dataset.drawn) draw(next); rest(); });
  })();

  document.getElementById("pair")?.addEventListener("change", () => draw(document.getElementById("differences")));
  dark.addEventListener("change", () => boxes.filter((b) => b.dataset.drawn).forEach((b) => draw(b)));
  addEventListener("beforeprint", () => {
    root.classList.add("print");
    document.querySelectorAll("details:not(.long)").forEach((d) => { if (!d.open) { d.open = true; d.dataset.shut = "1"; } });
    boxes.forEach((box) => draw(box, 680));
  });
  addEventListener("afterprint", () => {
    root.classList.remove("print");
    document.querySelectorAll("details[data-shut]").forEach((d) => { d.open = false; delete d.dataset.shut; });
    boxes.forEach((box) => { draw(box); Plotly.Plots.resize(box); });
  });
})();
