"""The page in a real browser: it fits a phone, needs no mouse and no eyes, and shows whatever it is given."""

import pytest
from browsing import middle, picture, settle
from report_examples import outputs, verified

from hypersphere import report
from hypersphere.evaluation import Candidate
from hypersphere.report import page as page_module
from hypersphere.report.findings import Findings

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_wide_tables_say_that_they_scroll(opened, pages):
    with opened(pages["many"], width=390, height=740, has_touch=True, is_mobile=True) as page:
        wide = page.locator(".scroll.wide").first
        wide.wait_for()
        cue = "box => getComputedStyle(box.querySelector('caption span'), '::after').content"
        assert "scroll" in wide.evaluate(cue)
        wide.evaluate("box => box.scrollTo({left: box.scrollWidth, behavior: 'instant'})")
        settle(page)
        assert "at-end" in wide.get_attribute("class")
    with opened(pages["one"], width=1400) as page:
        assert page.locator("main section:visible .scroll.wide").count() == 0


BORDERS = """canvas => {
  const context = canvas.getContext("2d"), {width, height} = canvas;
  const pixels = context.getImageData(0, 0, width, height).data;
  const inked = (x) => Array.from({length: height}, (_, y) => pixels[4 * (y * width + x) + 3]).some((v) => v > 0);
  return [inked(0), inked(width - 1)];
}"""


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.234567e-9, 9.87e-9), (-123456.0, 98765.0)])
def test_ticks_are_not_cut_off(opened, runs, values):
    log = runs / "flat" / "seed-0" / "log.jsonl"
    low, high = values
    log.write_text("".join(f'{{"step": {step}, "loss": {v}}}\n' for step, v in ((1, low), (123456, high))))
    for width in (390, 1100):
        with opened(report.write(runs / "flat", data=False, force=True), width=width) as page:
            page.mouse.move(0, 0)
            assert page.locator(".curves-view canvas").evaluate(BORDERS) == [False, False]


def test_every_line_has_dashes_of_its_own(opened, pages):
    with opened(pages["many"]) as page:
        keys = page.locator(".curves-view .legend .sample line")
        dashes = keys.evaluate_all("all => all.map(line => line.getAttribute('stroke-dasharray') || 'solid')")
        assert len(dashes) == 3
        assert len(set(dashes)) == 3


def test_confusion_is_read(opened, pages):
    with opened(pages["one"]) as page:
        view = page.locator(".matrix-view")
        canvas = view.locator("canvas")
        first = picture(canvas)
        canvas.focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        said = view.locator("[role=status]").inner_text()
        assert said.startswith("1 → 1, ")
        assert "mean cosine" in said
        view.get_by_role("button", name="Cosines").click()
        assert picture(canvas) != first
        page.mouse.move(*middle(canvas))
        assert "→" in view.locator(".tip").inner_text()


def test_open_sets_have_a_roc_curve(opened, runs, monkeypatch):
    found = outputs(300, 30, 6, logits=None, class_vectors=None)
    look = Findings(0, found=found, verified=verified()[0])
    monkeypatch.setattr(page_module, "evaluate_subject", lambda *args, **options: look)
    with opened(report.write(runs / "flat")) as page:
        view = page.locator(".roc-view")
        chart = view.locator("canvas")
        before = picture(chart)
        view.get_by_role("button", name="Log scale").click()
        assert picture(chart) != before
        chart.focus()
        page.keyboard.press("End")
        assert view.locator("[role=status]").inner_text().endswith("flat 100\u2009%")
        assert page.locator(".gallery.pairs img").count() > 20
        assert page.locator(".chip").count() == 20
        page.set_viewport_size({"width": 390, "height": 740})
        settle(page)
        table = page.locator(".scroll", has_text="Equal error rate").last
        assert "wide" not in table.get_attribute("class").split()  # names wrap, so that values are seen


@pytest.mark.parametrize("name", ["one", "many"])
def test_fits_a_phone(opened, pages, name):
    with opened(pages[name], width=390, height=740, has_touch=True, is_mobile=True) as page:
        for panel in range(page.locator(".panel").count()):
            if panel:
                page.locator(".picker button").nth(panel).tap()
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            settle(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
        small = page.evaluate(
            "[...document.querySelectorAll('button')].filter(b => b.offsetParent && b.offsetHeight < 24).length"
        )
        assert small == 0
        sphere = page.locator("canvas.sphere").first
        if name == "one":
            before = picture(sphere)
            drag_by_touch(page, sphere)
            assert picture(sphere) != before


def drag_by_touch(page, canvas):
    x, y = middle(canvas)
    client = page.context.new_cdp_session(page)
    client.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in (20, 40, 60):
        client.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x + step, "y": y}]})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_dark_and_light(opened, pages):
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(pages["one"], color_scheme="dark") as page:
        dark, drawn = page.evaluate(ground), picture(page.locator(".curves-view canvas"))
        assert sum(map(int, dark[4:-1].split(","))) < 120
        page.get_by_role("button", name="Dark").click()
        light = page.evaluate(ground)
        assert sum(map(int, light[4:-1].split(","))) > 600
        assert picture(page.locator(".curves-view canvas")) != drawn
    with opened(pages["one"], color_scheme="light") as page:
        assert page.evaluate(ground) == light


CONTRAST = """() => {
  const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(element).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.offsetParent || element.closest('.hidden, svg, .skip')) continue;
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 80)}`);
  }
  return low;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened, pages, scheme):
    """WCAG AA: a contrast of 4.5 or more for every text."""
    with opened(pages["many"], color_scheme=scheme) as page:
        assert page.evaluate(CONTRAST) == []


def test_everything_has_a_name_and_can_be_reached(opened, pages):
    with opened(pages["many"]) as page:
        nameless = """() => [...document.querySelectorAll('button, summary, a, canvas, img, svg[role], [role=region]')]
          .filter(e => !(e.getAttribute('aria-label') || e.getAttribute('alt') || e.textContent.trim()))
          .map(e => e.outerHTML.slice(0, 80))"""
        assert page.evaluate(nameless) == []
        assert page.locator("img").count() > 20
        assert page.locator("img:not([alt])").count() == 0
        assert page.locator("table:not(.bars):not(:has(caption))").count() == 0
        levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(e => Number(e.tagName[1]))")
        assert levels[0] == 1
        assert levels.count(1) == 1
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))
        wanted = page.evaluate(
            "[...document.querySelectorAll('button, summary, canvas, a[href]')].filter(e => e.checkVisibility()).length"
        )
        page.evaluate(
            """() => {
              window.reached = new Set(), window.ringless = [];
              document.addEventListener('focusin', ({target}) => {
                if (!target.matches('button, summary, canvas, a[href]')) return;
                reached.add(target);
                const style = getComputedStyle(target);
                if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2)
                  ringless.push(target.outerHTML.slice(0, 80));
              });
            }"""
        )
        for _ in range(wanted + 60):
            page.keyboard.press("Tab")
        assert page.evaluate("ringless") == []
        assert page.evaluate("reached.size") >= wanted


def test_print_shows_it_light(opened, pages):
    with opened(pages["one"], color_scheme="dark") as page:
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.emulate_media(media="print")
        assert not page.locator("#theme").is_visible()


def test_evil_names_are_shown_and_do_nothing(opened, runs, monkeypatch):
    evil = "<script>alert(1)</script>"
    found = outputs(40, 3, names=(evil, "<img src=x onerror=alert(2)>", "plain"))
    monkeypatch.setattr(Candidate, "outputs", found)
    folder = (runs / "flat").rename(runs / "<img src=x onerror=alert(3)>")
    with opened(report.write(folder)) as page:
        assert page.locator("h1").inner_text() == "<img src=x onerror=alert(3)>"
        assert page.locator(".chip").first.inner_text().strip() == evil
        canvas = page.locator("canvas.matrix")
        canvas.focus()
        page.keyboard.press("ArrowRight")
        assert evil in page.locator(".matrix-view .tip").inner_text()


def test_logs_that_are_not_finite_or_empty(opened, runs):
    log = runs / "flat" / "seed-0" / "log.jsonl"
    log.write_text('{"step": 1, "loss": NaN, "accuracy": 5.0}\n{"step": 2, "loss": Infinity, "accuracy": NaN}\n')
    with opened(report.write(runs / "flat", data=False)) as page:
        assert page.locator(".curves-view canvas").is_visible()
    log.write_text("")
    with opened(report.write(runs / "flat", data=False)) as page:
        assert "no measurements yet" in page.locator(".curves-view").inner_text()
