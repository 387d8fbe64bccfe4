"""The page in a real browser."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softset as ss
from softset.metrics.registry import METRICS, get_metric
from tests.reference import is_area
from tests.report.examples import comparison, render
from tests.report.test_writer import HOSTILE, TASKS, hostile

CURVES = ("auroc", "average_precision")


@pytest.fixture
def visit(browser, tmp_path):
    """Open a comparison's report; whatever goes wrong in it fails the test at its end."""
    wrong, contexts = [], []

    def opened(content, width=1100, javascript=True, **options):
        path = tmp_path / "report.html"
        path.write_text(render(content), encoding="utf-8")
        size = {"width": width, "height": 800}
        context = browser.new_context(viewport=size, java_script_enabled=javascript, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda e: wrong.append(f"error: {e}"))
        page.on("dialog", lambda d: (wrong.append(f"dialog: {d.message}"), d.dismiss()))
        page.on(
            "request",
            lambda r: r.url in (path.as_uri(), "data:,") or wrong.append(f"request: {r.url}"),
        )
        page.goto(path.as_uri())
        return page

    opened.expected = "nothing"
    yield opened
    for context in contexts:
        context.close()
    assert [w for w in wrong if opened.expected not in w] == []


def slide(page, value: int) -> float:
    """Move the slider as a hand would, and tell the threshold it stands at."""
    page.eval_on_selector(
        "#slider",
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }",
        value,
    )
    return float(page.get_attribute("#slider", "data-threshold"))


def text(page, selector: str) -> str:
    return page.locator(selector).first.inner_text().replace("−", "-").replace(",", "")


def metrics_on(page) -> dict[str, float]:
    """Every metric of the table, in full precision."""
    script = "all => Object.fromEntries(all.map(e => [e.dataset.metric, Number(e.title)]))"
    return page.eval_on_selector_all("[data-metric]", script)


def check_numbers(page, p, y, threshold, names):
    """What the page shows is what the library says at that threshold."""
    c = ss.confusion(torch.tensor(p), torch.tensor(y), threshold=threshold, from_logits=False)
    for key in ("tp", "fp", "fn", "tn"):
        assert int(text(page, f'[data-value="{key}"]')) == int(getattr(c, key))
    shown = metrics_on(page)
    assert set(shown) == set(names)
    for name in names:
        value = ss.evaluate(p, y, name, threshold=threshold, from_logits=False)
        assert shown[name] == pytest.approx(value, abs=6e-7), name  # six digits are embedded
        assert text(page, f'[data-metric="{name}"]') == f"{value:.3f}"
    assert text(page, '.readout [data-value="recall"]') == text(page, '[data-metric="recall"]')
    assert float(text(page, '[data-value="flagged"]').rstrip(" %")) == pytest.approx(
        100 * float(c.predicted / c.total), abs=0.051
    )


def test_slider_gives_the_numbers_of_the_library(visit):
    c = comparison("binary")
    page = visit(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    names = [k for k in METRICS if not is_area(get_metric(k))]
    check_numbers(page, p, y, found["threshold"], names)
    for value in (0, 1, 137, 500, 803, 999, 1000):
        threshold = slide(page, value)
        assert threshold == pytest.approx(min(max(value / 1000, 0.001), 0.999), abs=6e-4)
        check_numbers(page, p, y, threshold, names)
    for name, key in zip(CURVES, ("auroc", "averagePrecision"), strict=True):
        value = ss.evaluate(p, y, name, from_logits=False)
        assert text(page, f'[data-value="{key}"]') == f"{value:.3f}"


@pytest.mark.parametrize("metric", ["f3", "f2_weighted"])
def test_the_metric_asked_for_is_the_one_that_moves(visit, metric):
    c = comparison("binary", metric=metric)
    page = visit(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    threshold = slide(page, 321)
    value = ss.evaluate(p, y, metric, threshold=threshold, from_logits=False)
    assert metrics_on(page)[metric] == pytest.approx(value, abs=6e-7)
    assert text(page, '[data-value="metric"]') == f"{value:.3f}"


def test_the_operating_point_moves_along_the_curves(visit):
    c = comparison("binary")
    page = visit(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    threshold = slide(page, 250)
    k = ss.confusion(torch.tensor(p), torch.tensor(y), threshold=threshold, from_logits=False)
    precision, recall = float(k.tp / k.predicted), float(k.tp / k.support)
    wanted = {
        "pr": (recall, precision),
        "roc": (float(k.fp / k.negatives), recall),
        "metric": (threshold, 2 * precision * recall / (precision + recall)),
    }
    for name, (x, y_value) in wanted.items():
        mark = page.locator(f'[data-point="{name}"]')
        plot = mark.evaluate("e => ({...e.closest('svg.plot').dataset})")
        across = float(mark.get_attribute("cx").rstrip("%"))
        down = float(mark.get_attribute("cy"))
        left, width, top, height = (float(plot[s]) for s in ("left", "width", "top", "height"))
        assert (across - left) / width == pytest.approx(x, abs=2e-6)
        assert 1 - (down - top) / height == pytest.approx(y_value, abs=2e-6)


def test_buttons_the_other_candidate_and_another_curve(visit):
    c = comparison("binary")
    page = visit(c)
    sides = {k: (np.array(v["scores"]), np.array(v["target"])) for k, v in c["predictions"].items()}
    names = [k for k in METRICS if not is_area(get_metric(k))]
    slide(page, 10)
    page.click("#to-model")
    assert float(page.get_attribute("#slider", "data-threshold")) == pytest.approx(
        c["predictions"]["warm"]["threshold"]
    )
    page.click("#to-half")
    check_numbers(page, *sides["warm"], 0.5, names)
    page.click("#to-best")
    best = ss.best_threshold(*sides["warm"], "f1", from_logits=False)
    value = ss.evaluate(*sides["warm"], "f1", threshold=best, from_logits=False)
    assert metrics_on(page)["f1"] == pytest.approx(value, abs=6e-7)
    before = page.get_attribute('[data-path="pr"]', "d")
    page.click('[data-side="1"]')
    assert page.get_attribute('[data-other="pr"]', "d") == before
    assert page.get_attribute('[data-path="pr"]', "d") != before
    check_numbers(page, *sides["cross-entropy-tuned"], slide(page, 400), names)
    page.select_option("#curve-metric", "mcc")
    assert text(page, '[data-text="metricName"]') == "MCC"
    value = ss.evaluate(
        *sides["cross-entropy-tuned"], "mcc", threshold=slide(page, 222), from_logits=False
    )
    assert text(page, '[data-value="metric"]') == f"{value:.3f}"
    labels = page.locator('[data-plot="threshold"] text.tick.end:not([hidden])').all_text_contents()
    assert labels == ["−1.0", "−0.5", "0.0", "0.5", "1.0"]


def test_the_axis_goes_below_zero_where_the_metric_does(visit):
    page = visit(comparison("binary", metric="mcc"))
    ticks = page.locator('[data-plot="threshold"] text.tick.end:not([hidden])')
    assert ticks.all_text_contents() == ["−1.0", "−0.5", "0.0", "0.5", "1.0"]
    page.select_option("#curve-metric", "f1")
    assert ticks.all_text_contents() == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


def test_classes_follow_the_slider(visit):
    c = comparison("binary")
    page = visit(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    threshold = slide(page, 700)
    said = (p >= threshold).astype(int)
    for code, label in ((0, "negative"), (1, "positive")):
        row = f'#per-class [data-class="{label}"]'
        assert int(text(page, f'{row} [data-cell="support"]')) == (y == code).sum()
        assert int(text(page, f'{row} [data-cell="predicted"]')) == (said == code).sum()
        right = ((said == code) & (y == code)).sum()
        f1 = 2 * right / ((said == code).sum() + (y == code).sum())
        assert text(page, f'{row} [data-cell="f1"]') == f"{f1:.3f}"


def test_labels_keep_their_thresholds_and_share_an_average(visit):
    c = comparison("multilabel")
    page = visit(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    names = [k for k in METRICS if not is_area(get_metric(k))]
    cuts = list(found["threshold"])
    cuts[0] = slide(page, 100)
    page.select_option("#view", "2")
    cuts[2] = slide(page, 900)
    check_numbers(page, p[:, 2], y[:, 2], cuts[2], names)
    value = ss.evaluate(p, y, "f1", task="multilabel", threshold=cuts, from_logits=False)
    assert text(page, '[data-value="overall"]') == f"{value:.3f}"
    page.select_option("#view", "0")
    check_numbers(page, p[:, 0], y[:, 0], cuts[0], names)


def test_a_threshold_near_zero_gets_an_axis_that_shows_it(visit):
    c = comparison("binary")
    for found in c["predictions"].values():
        found |= {"scores": (np.array(found["scores"]) * 0.01).tolist(), "threshold": 0.003}
    page = visit(c)
    found = c["predictions"]["warm"]
    p, y = np.array(found["scores"]), np.array(found["target"])
    assert 0.1 < float(page.input_value("#slider")) / 1000 < 0.9
    seen = [slide(page, v) for v in (1, 200, 400, 600)]
    assert seen == sorted(seen)
    assert seen[0] < 1e-3
    check_numbers(page, p, y, seen[-1], [k for k in METRICS if not is_area(get_metric(k))])


def test_classes_change_their_curves(visit):
    page = visit(comparison("multiclass"))
    before = page.get_attribute('[data-path="roc"]', "d")
    page.select_option("#view", "3")
    assert page.get_attribute('[data-path="roc"]', "d") != before
    assert text(page, '#calibration [data-text="label"]') == "rare"


@pytest.mark.parametrize("name", ["".join(HOSTILE), *HOSTILE[:2]], ids=lambda t: ascii(t[:12]))
def test_hostile_names_do_no_harm(visit, name):
    page = visit(hostile("binary", name), width=360)
    slide(page, 400)
    page.click('[data-side="1"]')
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    start = "".join(c if c.isprintable() else " " for c in name)[:8].strip()
    assert start.encode("utf-8", "replace").decode() in page.locator("h1").inner_text()


def test_a_script_that_gets_in_does_not_run(visit):
    page = visit(comparison("binary"))
    visit.expected = "violates the following Content Security Policy"
    ran = page.evaluate(
        """() => { const e = document.createElement('script'); e.textContent = 'window.bad = 1';
        document.body.append(e); return [window.bad === undefined]; }"""
    )
    assert ran == [True]


@pytest.mark.parametrize("task", TASKS)
def test_nothing_is_wider_than_the_screen(visit, task):
    page = visit(comparison(task), width=1100)
    for width in (1100, 360):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_dark_and_light_and_the_button(visit):
    color = "getComputedStyle(document.body).backgroundColor"

    def brightness(page):
        return sum(map(int, page.evaluate(color).strip("rgb()").split(",")))

    light = visit(comparison("binary"), color_scheme="light")
    dark = visit(comparison("binary"), color_scheme="dark")
    assert brightness(light) > 600
    assert brightness(dark) < 150
    dark.click("#theme")
    assert brightness(dark) > 600
    dark.emulate_media(media="print")
    assert brightness(dark) == 765


def test_without_javascript_there_is_still_a_report(visit):
    page = visit(comparison("binary"), javascript=False)
    assert not page.locator("#slider").is_visible()
    assert page.locator('[data-path="metric"]').get_attribute("d").startswith("M")
    assert page.locator('[data-value="tp"]').inner_text() != ""


@pytest.mark.parametrize("task", TASKS)
def test_no_heading_is_alone_at_the_foot_of_a_printed_page(visit, task):
    """What stands between a heading and the first picture or table keeps them together."""
    page = visit(comparison(task))
    page.emulate_media(media="print")
    loose = page.evaluate(
        """() => {
          const seen = (e) => e && e.getBoundingClientRect().height > 0;
          const next = (e) => { do e = e.nextElementSibling; while (e && !seen(e)); return e; };
          const words = (e) => e.matches('p, .legend');
          const found = [];
          for (const heading of document.querySelectorAll('h2, h3')) {
            for (let e = heading; e && (e === heading || words(e)); e = next(e)) {
              const last = !next(e) || next(e).matches('h2, h3, section');
              if (last) break;
              const kept = getComputedStyle(e).breakAfter === 'avoid';
              if (!kept && !(words(e) && next(e).matches('p'))) found.push(heading.textContent);
              if (words(e) && !words(next(e))) break;
            }
          }
          return found;
        }"""
    )
    assert loose == []


def test_contents_lead_to_their_sections(visit):
    page = visit(comparison("binary"))
    for link in page.locator(".contents a").all():
        link.click()
        assert page.locator(link.get_attribute("href")).bounding_box()["y"] < 800
        page.evaluate("window.scrollTo(0, 0)")
