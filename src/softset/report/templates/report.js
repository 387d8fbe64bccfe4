
"use strict";
// Counts at every stop of the slider are embedded; everything else follows from them here.
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);

  // --- formulas: the same as softset.metrics, on tp, fp, fn, tn -------------------------------
  const ratio = (a, b) => (b > 0 ? a / b : 0);
  const cells = (tp, predicted, positives, total) => {
    const fp = predicted - tp, fn = positives - tp;
    return { tp, fp, fn, tn: total - positives - fp, predicted, positives, total,
      rejected: total - predicted, negatives: total - positives };
  };
  const swapped = (c) => cells(c.tn, c.rejected, c.negatives, c.total);
  const sensitivity = (c) => ratio(c.tp, c.positives);
  const specificity = (c) => ratio(c.tn, c.negatives);
  const precision = (c) => ratio(c.tp, c.predicted);
  const agreement = (c) => c.tp * c.tn - c.fp * c.fn;
  const FORMULAS = {
    f: (c, m) => ratio((1 + m.beta ** 2) * c.tp, m.beta ** 2 * c.positives + c.predicted),
    accuracy: (c) => ratio(c.tp + c.tn, c.total),
    balanced_accuracy: (c) => ratio(sensitivity(c) + specificity(c), (c.positives > 0) + (c.negatives > 0)),
    precision,
    recall: sensitivity,
    specificity,
    jaccard: (c) => ratio(c.tp, c.tp + c.fp + c.fn),
    gmean: (c) => Math.sqrt(sensitivity(c) * specificity(c)),
    mcc: (c) => ratio(agreement(c),
      Math.sqrt(c.predicted * c.rejected) * Math.sqrt(c.positives * c.negatives)),
    cohen_kappa: (c) => ratio(2 * agreement(c), c.predicted * c.negatives + c.rejected * c.positives),
    informedness: (c) => sensitivity(c) + specificity(c) - 1,
    markedness: (c) => precision(c) + ratio(c.tn, c.rejected) - 1,
    fowlkes_mallows: (c) => Math.sqrt(precision(c) * sensitivity(c)),
  };
  const averaged = (m, classes, average, seen) => {
    const formula = FORMULAS[m.formula];
    if (average === "micro") {
      const sum = (key) => classes.reduce((s, c) => s + c[key], 0);
      return formula(cells(sum("tp"), sum("predicted"), sum("positives"), sum("total")), m);
    }
    const weights = classes.map((c) => (average === "weighted" ? c.positives
      : seen && c.positives + c.predicted === 0 ? 0 : 1));
    return ratio(classes.reduce((s, c, k) => s + weights[k] * formula(c, m), 0),
      weights.reduce((s, w) => s + w, 0));
  };
  const value = (m, c) => (m.average ? averaged(m, [swapped(c), c], m.average, true)
    : FORMULAS[m.formula](c, m));

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
  const state = { view: 0, side: 0, metric: data.metrics.find((m) => m.key === data.metric) };
  // The stop of every view and side: a label keeps its threshold while others are looked at.
  const stops = data.views.map((v) => v.sides.map((s) => s.start));
  const side = (k = state.side) => data.views[state.view].sides[k];
  const at = (s, k) => cells(s.tp[k], s.predicted[k], s.positives, s.total);
  const metricOf = (key) => data.metrics.find((m) => m.key === key);

  const move = (mark, name, x, y) => {
    const plot = mark.closest("svg.plot"), d = plot.dataset;
    const across = `${Number(d.left) + Number(d.width) * x}%`;
    const down = y === undefined ? 0 : Number(d.top) + Number(d.height) * (1 - y);
    if (mark.tagName === "circle") { mark.setAttribute("cx", across); mark.setAttribute("cy", down); }
    else { mark.setAttribute("x1", across); mark.setAttribute("x2", across); }
  };

  // The curve's axis goes below zero where the metric does.
  let bottom = 0;
  const BELOW = ["mcc", "cohen_kappa", "informedness", "markedness"];
  const curve = (s) => {
    const d = s.thresholds.map((t, k) => {
      const y = (value(state.metric, at(s, k)) - bottom) / (1 - bottom);
      return `${Math.round(data.unit * place(t))} ${Math.round(data.unit * (1 - y))}`;
    });
    return "M" + d.join("L");
  };
  const drawAxis = () => {
    const plot = one('[data-plot="threshold"]'), d = plot.dataset;
    const lines = Array.from(plot.querySelectorAll("line.grid"));
    const labels = Array.from(plot.querySelectorAll("text.tick.end"));
    const wanted = bottom < 0 ? [-1, -0.5, 0, 0.5, 1] : [0, 0.2, 0.4, 0.6, 0.8, 1];
    // One text for each line; the axis below zero has fewer.
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
      const y = Number(d.top) + Number(d.height) * (1 - (wanted[k] - bottom) / (1 - bottom));
      line.setAttribute("y1", y); line.setAttribute("y2", y); labels[k].setAttribute("y", y);
      labels[k].textContent = String(wanted[k]).replace("-", "−");
    });
  };

  // --- what changes with the candidate, the label or the curve's metric -------------------------
  const showView = () => {
    const s = side(), rival = side(1 - state.side);
    for (const [key, d] of Object.entries(s.paths)) {
      all(`[data-path="${key}"]`).forEach((e) => e.setAttribute("d", d));
      if (rival) all(`[data-rival="${key}"]`).forEach((e) => e.setAttribute("d", rival.paths[key]));
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
    const rival = side(1 - state.side);
    bottom = BELOW.includes(state.metric.formula) ? -1 : 0;
    drawAxis();
    setText("metricName", state.metric.name);
    one('[data-path="metric"]').setAttribute("d", curve(side()));
    if (rival) one('[data-rival="metric"]').setAttribute("d", curve(rival));
    move(one("[data-chosen]"), "chosen", place(side().thresholds[side().start]));
  };

  // --- what changes with the slider -------------------------------------------------------------
  const showPoint = () => {
    const s = side(), k = stops[state.view][state.side], t = s.thresholds[k], c = at(s, k);
    const now = value(state.metric, c);
    slider.value = String(1000 * place(t));
    slider.dataset.threshold = String(t);
    slider.setAttribute("aria-valuetext", `threshold ${written(t)}, ${state.metric.name} ${fixed(now)}`);
    setValue("threshold", written(t));
    setValue("metric", fixed(now));
    setValue("precision", fixed(precision(c)));
    setValue("recall", fixed(sensitivity(c)));
    setValue("flagged", percent(ratio(c.predicted, c.total)));
    for (const key of ["tp", "fp", "fn", "tn"]) setValue(key, whole(c[key]));
    setText("words", `At this threshold ${percent(sensitivity(c), 0)} of the positives are found, and `
      + `${percent(precision(c), 0)} of those flagged are positive.`);
    all("[data-metric]").forEach((e) => {
      const v = value(metricOf(e.dataset.metric), c);
      e.textContent = fixed(v);
      e.title = String(v);
    });
    all("[data-cursor]").forEach((e) => move(e, "cursor", place(t)));
    move(one('[data-point="metric"]'), "point", place(t), (now - bottom) / (1 - bottom));
    move(one('[data-point="pr"]'), "point", sensitivity(c), precision(c));
    move(one('[data-point="roc"]'), "point", 1 - specificity(c), sensitivity(c));
    if (data.task === "multilabel") {
      const labels = data.views.map((v, n) => at(v.sides[state.side], stops[n][state.side]));
      setValue("overall", fixed(averaged(state.metric, labels, data.average, false)));
    }
    showClasses(c);
  };
  const showClasses = (positive) => {
    const rival = side(1 - state.side);
    const f1 = { formula: "f", beta: 1 };
    all("#per-class [data-class]").forEach((row) => {
      const pick = (c) => (row.dataset.class === "positive" ? c : swapped(c));
      const c = pick(positive);
      const words = { support: whole(c.positives), predicted: whole(c.predicted), precision: fixed(precision(c)),
        recall: fixed(sensitivity(c)), f1: fixed(value(f1, c)),
        other: rival ? fixed(value(f1, pick(at(rival, rival.start)))) : "" };
      row.querySelectorAll("[data-cell]").forEach((e) => { e.textContent = words[e.dataset.cell]; });
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
    one("#to-best").addEventListener("click", () => {
      const s = side();
      let best = 0, found = -Infinity;
      s.thresholds.forEach((t, k) => {
        const v = value(state.metric, at(s, k));
        const nearer = Math.abs(t - 0.5) < Math.abs(s.thresholds[best] - 0.5);
        if (v > found + 1e-12 || (v > found - 1e-12 && nearer)) { found = Math.max(v, found); best = k; }
      });
      goTo(best);
    });
    const plot = one('[data-plot="threshold"]');
    plot.addEventListener("pointerdown", (event) => {
      const box = plot.getBoundingClientRect(), d = plot.dataset;
      const x = (100 * (event.clientX - box.left) / box.width - d.left) / d.width;
      goTo(nearest(side().thresholds, Math.min(Math.max(x, 0), 1)));
    });
  }
  showView();
})();
