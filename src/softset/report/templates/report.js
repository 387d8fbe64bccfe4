
"use strict";
// Counts and metrics at every stop of the slider are embedded; here they are only looked up.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);
  const scaled = (integer) => (integer === null ? NaN : integer / data.scale);
  // A metric of one candidate at its stop k.
  const value = (s, key, k) => scaled(s.values[key][k]);

  // --- where a threshold stands on the axis ---------------------------------------------------
  const logit = (t) => Math.log(t) - Math.log1p(-t);
  const { logOdds, low, high } = data.axis;
  const place = (t) => (!logOdds ? t
    : (logit(Math.min(Math.max(t, low), high)) - logit(low)) / (logit(high) - logit(low)));
  const nearest = (thresholds, at) => {
    let first = 0, last = thresholds.length - 1;
    while (last - first > 1) {
      const middle = (first + last) >> 1;
      if (place(thresholds[middle]) <= at) first = middle; else last = middle;
    }
    return at - place(thresholds[first]) <= place(thresholds[last]) - at ? first : last;
  };

  // --- words ---------------------------------------------------------------------------------
  const fixed = (v, digits = 3) => {
    if (v === null || !Number.isFinite(v)) return "–";
    const text = v.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  };
  const whole = (v) => String(v).replace(/\B(?=(\d{3})+$)/g, ",");
  const percent = (v, digits = 1) => fixed(100 * v, digits) + " %";
  const written = (t) => {
    const edge = Math.min(t, 1 - t);
    return t.toFixed(edge >= 0.01 ? 3 : Math.min(8, 1 - Math.floor(Math.log10(Math.max(edge, 1e-8)))));
  };
  const setText = (key, words) => all(`[data-text="${key}"]`).forEach((e) => { e.textContent = words; });
  const setValue = (key, words) => all(`[data-value="${key}"]`).forEach((e) => { e.textContent = words; });

  // --- state ----------------------------------------------------------------------------------
  const slider = one("#slider"), metricMenu = one("#curve-metric"), viewMenu = one("#view");
  const names = all('[data-side]').map((b) => b.textContent);
  const state = { view: 0, side: 0, metric: data.metrics[0] };
  // The stop of every view and side: a label keeps its threshold while others are looked at.
  const stops = data.views.map((v) => v.sides.map((s) => s.start));
  const side = (k = state.side) => data.views[state.view].sides[k];
  const metricOf = (key) => data.metrics.find((m) => m.key === key);

  const move = (mark, x, y) => {
    const plot = mark.closest("svg.plot"), d = plot.dataset;
    const across = `${Number(d.left) + Number(d.width) * x}%`;
    const down = y === undefined ? 0 : Number(d.top) + Number(d.height) * (1 - y);
    if (mark.tagName === "circle") { mark.setAttribute("cx", across); mark.setAttribute("cy", down); }
    else { mark.setAttribute("x1", across); mark.setAttribute("x2", across); }
  };

  // Where a value of the metric stands on its axis, which is as long as its range.
  const height = (v) => (v - state.metric.range[0]) / (state.metric.range[1] - state.metric.range[0]);
  const curve = (s) => "M" + s.thresholds.map((t, k) =>
    `${Math.round(data.unit * place(t))} ${Math.round(data.unit * (1 - height(value(s, state.metric.key, k))))}`,
  ).join("L");
  const drawAxis = () => {
    const plot = one('[data-plot="threshold"]'), d = plot.dataset, wanted = state.metric.ticks;
    const lines = Array.from(plot.querySelectorAll("line.grid"));
    const labels = Array.from(plot.querySelectorAll("text.tick.end"));
    // One text for each line; an axis may have fewer than another.
    while (lines.length < wanted.length) {
      for (const list of [lines, labels]) {
        const last = list[list.length - 1];
        list.push(last.parentNode.insertBefore(last.cloneNode(true), last.nextSibling));
      }
    }
    lines.forEach((line, k) => {
      const shown = k < wanted.length;
      line.toggleAttribute("hidden", !shown);
      labels[k].toggleAttribute("hidden", !shown);
      if (!shown) return;
      const y = Number(d.top) + Number(d.height) * (1 - height(wanted[k][0]));
      line.setAttribute("y1", y); line.setAttribute("y2", y); labels[k].setAttribute("y", y);
      labels[k].textContent = wanted[k][1];
    });
  };

  // --- what changes with the candidate, the label or the curve's metric -------------------------
  const showView = () => {
    const s = side(), other = side(1 - state.side);
    for (const [key, d] of Object.entries(s.paths)) {
      all(`[data-path="${key}"]`).forEach((e) => e.setAttribute("d", d));
      if (other) all(`[data-other="${key}"]`).forEach((e) => e.setAttribute("d", other.paths[key]));
    }
    for (const [key, words] of Object.entries(s.texts)) setText(key, words);
    all('[data-show="map"]').forEach((e) => { e.hidden = !s.texts.map; });
    setText("label", data.views[state.view].label);
    if (names.length) {
      all('[data-name="0"]').forEach((e) => { e.textContent = names[state.side]; });
      all('[data-name="1"]').forEach((e) => { e.textContent = names[1 - state.side]; });
    }
    all("[data-side]").forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.side) === state.side)));
    setValue("auroc", fixed(s.auroc));
    setValue("averagePrecision", fixed(s.averagePrecision));
    setValue("prevalence", fixed(s.positives / s.total));
    if (slider) { showCurve(); showPoint(); }
  };
  const showCurve = () => {
    const other = side(1 - state.side);
    drawAxis();
    setText("metricName", state.metric.name);
    one('[data-path="metric"]').setAttribute("d", curve(side()));
    if (other) one('[data-other="metric"]').setAttribute("d", curve(other));
    move(one("[data-chosen]"), place(side().thresholds[side().start]));
  };

  // --- what changes with the slider -------------------------------------------------------------
  const showPoint = () => {
    const s = side(), k = stops[state.view][state.side], t = s.thresholds[k];
    const now = value(s, state.metric.key, k), recall = value(s, "recall", k), precision = value(s, "precision", k);
    slider.value = String(1000 * place(t));
    slider.dataset.threshold = String(t);
    slider.setAttribute("aria-valuetext", `threshold ${written(t)}, ${state.metric.name} ${fixed(now)}`);
    setValue("threshold", written(t));
    setValue("metric", fixed(now));
    setValue("precision", fixed(precision));
    setValue("recall", fixed(recall));
    setValue("flagged", percent(s.predicted[k] / s.total));
    const tp = s.tp[k], fp = s.predicted[k] - tp, fn = s.positives - tp, tn = s.total - s.positives - fp;
    for (const [key, count] of Object.entries({ tp, fp, fn, tn })) setValue(key, whole(count));
    setText("words", `At this threshold ${percent(recall, 0)} of the positives are found, and `
      + `${percent(precision, 0)} of those flagged are positive.`);
    all("[data-metric]").forEach((e) => {
      const v = value(s, e.dataset.metric, k);
      e.textContent = fixed(v);
      e.title = String(v);
    });
    all("[data-cursor]").forEach((e) => move(e, place(t)));
    move(one('[data-point="metric"]'), place(t), height(now));
    move(one('[data-point="pr"]'), recall, precision);
    move(one('[data-point="roc"]'), 1 - value(s, "specificity", k), recall);
    if (data.average) setValue("overall", fixed(overLabels()));
    showClasses(s, k);
  };
  // The mean over the labels, each at its own stop.
  const overLabels = () => {
    let sum = 0, weights = 0;
    data.views.forEach((v, n) => {
      const s = v.sides[state.side], weight = data.average === "weighted" ? s.positives : 1;
      sum += weight * value(s, state.metric.key, stops[n][state.side]);
      weights += weight;
    });
    return weights > 0 ? sum / weights : 0;
  };
  const showClasses = (s, k) => {
    const other = side(1 - state.side);
    all("#per-class [data-class]").forEach((row) => {
      const positive = row.dataset.class === "positive";
      const of = (c, key, n) => scaled((positive ? c.values : c.negative)[key][n]);
      row.querySelectorAll("[data-cell]").forEach((e) => {
        const key = e.dataset.cell;
        if (key === "support") e.textContent = whole(positive ? s.positives : s.total - s.positives);
        else if (key === "predicted") e.textContent = whole(positive ? s.predicted[k] : s.total - s.predicted[k]);
        else if (key === "other") e.textContent = fixed(of(other, e.previousElementSibling.dataset.cell, other.start));
        else e.textContent = fixed(of(s, key, k));
      });
    });
  };
  const goTo = (k) => { stops[state.view][state.side] = k; showPoint(); };

  // --- hands ------------------------------------------------------------------------------------
  all("[data-live]").forEach((e) => { e.hidden = false; });
  all("[data-side]").forEach((b) => b.addEventListener("click", () => {
    state.side = Number(b.dataset.side);
    showView();
  }));
  if (viewMenu) viewMenu.addEventListener("change", () => { state.view = Number(viewMenu.value); showView(); });
  if (slider) {
    metricMenu.addEventListener("change", () => { state.metric = metricOf(metricMenu.value); showCurve(); showPoint(); });
    slider.addEventListener("input", () => goTo(nearest(side().thresholds, slider.value / 1000)));
    one("#to-model").addEventListener("click", () => goTo(side().start));
    one("#to-half").addEventListener("click", () => goTo(nearest(side().thresholds, place(0.5))));
    one("#to-best").addEventListener("click", () => goTo(side().best[state.metric.key]));
    const plot = one('[data-plot="threshold"]');
    plot.addEventListener("pointerdown", (event) => {
      const box = plot.getBoundingClientRect(), d = plot.dataset;
      const x = (100 * (event.clientX - box.left) / box.width - d.left) / d.width;
      goTo(nearest(side().thresholds, Math.min(Math.max(x, 0), 1)));
    });
  }
  showView();
})();
