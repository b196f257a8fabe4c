"""The page in a real browser: it opens in silence, turns, zooms, filters, fits a phone, needs no mouse and no eyes."""

import math
import re
from contextlib import contextmanager

import pytest
from report_examples import outputs, verified

from hypersphere import report
from hypersphere.evaluation import Candidate
from hypersphere.report import page as page_module
from hypersphere.report.findings import Findings

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def pages(trained, tmp_path_factory):
    """Reports on one run, and on three."""
    folder = tmp_path_factory.mktemp("reports")
    one = report.write(trained / "learned", folder / "one.html")
    many = report.write([trained / name for name in ("plain", "radius", "flat")], folder / "many.html")
    return {"one": one, "many": many}


@pytest.fixture(scope="module")
def windows(browser):
    """``windows(**kind)``: one window of each kind for all tests, since a new one takes a second."""
    made = {}

    def window(**kind):
        key = tuple(sorted(kind.items()))
        if key not in made:
            made[key] = browser.new_context(**kind).new_page()
        return made[key]

    yield window
    for page in made.values():
        page.context.close()


@pytest.fixture
def opened(windows):
    """``opened(path, width=..., ...)``: a page, that is checked for complaints and requests at the end."""

    @contextmanager
    def open_page(path, width=1100, height=800, color_scheme="light", **kind):
        page, said, asked = windows(**kind), [], []
        listeners = {
            "console": lambda message: said.append(message.text),
            "pageerror": lambda error: said.append(str(error)),
            "dialog": lambda dialog: (said.append(dialog.message), dialog.dismiss()),
            "request": lambda request: asked.append(request.url),
        }
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=color_scheme)
        page.mouse.move(0, 0)
        for event, listener in listeners.items():
            page.on(event, listener)
        try:
            page.goto(path.as_uri())
            settle(page)
            yield page
        finally:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            page.goto("about:blank")
        assert not said
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]

    return open_page


def settle(page):
    """Two frames: what was asked for is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(canvas):
    settle(canvas.page)
    return canvas.evaluate("canvas => canvas.toDataURL()")


def middle(canvas):
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_opens_and_turns(opened, pages):
    with opened(pages["one"]) as page:
        assert page.title() == "learned · hypersphere report"
        sphere = page.locator("canvas.sphere")
        first = picture(sphere)
        x, y = middle(sphere)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 70, y + 30, steps=3)
        page.mouse.up()
        dragged = picture(sphere)
        assert dragged != first
        sphere.focus()
        for key in ("ArrowLeft", "ArrowUp", "+"):
            before = picture(sphere)
            page.keyboard.press(key)
            assert picture(sphere) != before
        page.keyboard.press("0")
        page.mouse.move(0, 0)
        assert picture(sphere) == first  # back where it began


def test_spins_until_touched(opened, pages):
    with opened(pages["one"]) as page:
        sphere, spin = page.locator("canvas.sphere"), page.get_by_role("button", name="Spin")
        spin.click()
        before = picture(sphere)
        settle(page)
        assert picture(sphere) != before
        x, y = middle(sphere)
        page.mouse.click(x, y)
        assert spin.get_attribute("aria-pressed") == "false"


def test_classes_are_filtered(opened, pages):
    with opened(pages["one"]) as page:
        sphere = page.locator("canvas.sphere")
        status = page.locator(".sphere-view [role=status]")
        first = picture(sphere)
        chip = page.locator(".chip").nth(3)
        chip.click()
        assert chip.get_attribute("aria-pressed") == "false"
        fewer = picture(sphere)
        assert fewer != first
        assert 0 < int(status.inner_text().split()[0]) < 355
        page.get_by_role("button", name="None", exact=True).click()
        assert status.inner_text() == "0 points shown"
        page.get_by_role("button", name="All classes").click()
        assert status.inner_text() == "355 points shown"
        assert picture(sphere) == first
        page.get_by_role("button", name="Mistakes only").click()
        assert picture(sphere) != first


def test_curves_are_read_and_zoomed(opened, pages):
    with opened(pages["many"]) as page:
        view = page.locator(".curves-view")
        chart, tip, status = view.locator("canvas"), view.locator(".tip"), view.locator("[role=status]")
        x, y = middle(chart)
        page.mouse.move(x, y)
        assert "step 20" in tip.inner_text()
        assert all(name in tip.inner_text() for name in ("plain", "radius", "flat"))
        page.mouse.move(2, 2)
        chart.focus()
        page.keyboard.press("ArrowRight")
        assert status.inner_text().startswith("step 10: plain ")
        page.keyboard.press("End")
        assert status.inner_text().startswith("step 30: plain ")
        page.keyboard.press("ArrowLeft")
        assert status.inner_text().startswith("step 20: plain ")
        full = picture(chart)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 200, y, steps=3)
        page.mouse.up()
        assert chart.get_attribute("data-zoomed") == "true"
        assert picture(chart) != full
        view.get_by_role("button", name="Reset zoom").click()
        assert chart.get_attribute("data-zoomed") == "false"
        chart.focus()
        page.mouse.move(x, y)
        page.mouse.wheel(0, -200)
        settle(page)
        assert chart.get_attribute("data-zoomed") == "true"
        page.mouse.dblclick(x, y)
        assert chart.get_attribute("data-zoomed") == "false"


def test_the_wheel_scrolls_the_page_unless_the_chart_is_in_use(opened, pages):
    with opened(pages["many"]) as page:
        chart = page.locator(".curves-view canvas")
        page.mouse.move(*middle(chart))
        page.mouse.wheel(0, 120)
        settle(page)
        assert chart.get_attribute("data-zoomed") == "false"


def test_runs_are_compared(opened, pages):
    with opened(pages["many"]) as page:
        view = page.locator(".curves-view")
        chart = view.locator("canvas")
        before = picture(chart)
        line = view.locator(".legend").get_by_role("button", name="radius")
        line.click()
        assert line.get_attribute("aria-pressed") == "false"
        without = picture(chart)
        assert without != before
        view.get_by_role("button", name="Training loss").click()
        assert "Training loss" in chart.get_attribute("aria-label")
        assert picture(chart) != without
        for name in ("Log scale", "Each seed"):
            was = picture(chart)
            view.get_by_role("button", name=name).click()
            assert picture(chart) != was
        view.get_by_text("Numbers of this chart").click()
        view.locator("tbody tr").first.wait_for()  # the table is made when it opens
        assert view.locator("tbody tr").count() == 6
        assert page.locator("#run-0").is_visible()
        page.locator(".picker").get_by_role("button", name="flat").click()
        assert page.locator("#run-2").is_visible()
        assert not page.locator("#run-0").is_visible()
        plane = page.locator("#run-2 canvas.sphere")
        was = picture(plane)
        plane.focus()
        page.keyboard.press("ArrowLeft")
        assert picture(plane) != was


def test_contents_lead_to_what_is_shown(opened, pages):
    with opened(pages["many"]) as page:
        links = page.locator(".toc a")
        names = links.all_inner_texts()
        assert names[:2] == ["Result", "Learning curves"]
        assert "Two spheres side by side" in names
        targets = links.evaluate_all("all => all.map(a => document.querySelector(a.getAttribute('href')) !== null)")
        assert all(targets)
        page.locator(".picker").get_by_role("button", name="flat").click()
        assert page.locator(".toc a[href='#plane-2']").count() == 1
        assert page.locator(".toc a[href='#sphere-0']").count() == 0


def test_tables_are_sorted(opened, pages):
    with opened(pages["many"]) as page:
        table = page.locator("main table").first
        column = "cells => cells.map(cell => parseFloat(cell.textContent))"
        head = table.get_by_role("button", name="final, %")
        for order, direction in ((sorted, "ascending"), (lambda v: sorted(v, reverse=True), "descending")):
            head.click()
            values = table.locator("tbody tr td:nth-child(2)").evaluate_all(column)
            assert values == order(values)
            assert table.locator("th[aria-sort]").get_attribute("aria-sort") == direction
        table.get_by_role("button", name="run", exact=True).click()
        names = table.locator("tbody th").all_inner_texts()
        assert names == sorted(names)


def saved(page, host, name):
    with page.expect_download() as waiting:
        host.get_by_role("button", name=name).click()
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


def test_every_chart_is_saved_as_numbers_and_as_a_picture(opened, pages):
    with opened(pages["one"]) as page:
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        kinds = {".curves-view": "step,learned", ".sphere-view": "x,y,z,class", ".energy-view": "step,mean",
                 ".matrix-view": "true class,0,1"}  # fmt: skip
        for kind, start in kinds.items():
            host = page.locator(kind)
            name, content = saved(page, host, "Save the numbers as CSV")
            lines = content.decode("utf-8-sig").splitlines()
            assert name.endswith(".csv")
            assert lines[0].startswith(start)
            assert len(lines) > 3
            name, content = saved(page, host, "Save the picture as PNG")
            assert name.endswith(".png")
            assert content.startswith(b"\x89PNG")
        group = page.locator("section", has=page.locator(".multiples")).first
        _, content = saved(page, group, "Save the numbers as CSV")
        assert content.decode("utf-8-sig").splitlines()[0] == "layer,from,to,count"
        assert saved(page, group, "Save the picture as PNG")[1].startswith(b"\x89PNG")
        assert page.locator("canvas:not(.thumbnail)").count() == page.locator(".saving:visible").count() - 1


def test_two_spheres_turn_together(opened, trained, tmp_path):
    with opened(report.write([trained / "plain", trained / "radius"], tmp_path / "two.html")) as page:
        left, right = (page.locator(".compare-view canvas.sphere").nth(side) for side in (0, 1))
        box, other = left.bounding_box(), right.bounding_box()
        assert abs(box["y"] - other["y"]) < 2
        assert other["x"] > box["x"] + box["width"] - 1
        before = picture(right)
        left.focus()
        page.keyboard.press("ArrowLeft")
        turned = picture(right)
        assert turned != before
        page.get_by_role("button", name="Turn together").click()
        left.focus()
        page.keyboard.press("ArrowLeft")
        assert picture(right) == turned
        page.get_by_label("Run on the right").select_option(label="plain")
        assert picture(page.locator(".compare-view canvas.sphere").nth(1)) != turned


POINT = """() => {
  const canvas = document.querySelector(".sphere-view canvas.sphere"), box = canvas.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""


def find_tip(page, go):
    """Move (or tap) over the sphere in a spiral until a tip is there."""
    x, y = page.evaluate(POINT)
    tip = page.locator(".sphere-view .tip")
    for step in range(120):
        turn, radius = 0.7 * step, 1.2 * step
        go(x + radius * math.cos(turn), y + radius * math.sin(turn))
        if tip.is_visible():
            return tip
    raise AssertionError("no point was found")


def test_the_tip_of_a_point_has_its_picture_and_angle(opened, pages):
    with opened(pages["one"]) as page:
        page.locator(".sphere-view canvas.sphere").scroll_into_view_if_needed()
        tip = find_tip(page, page.mouse.move)
        assert re.search(r"\d+\.\d° from its class vector", tip.inner_text())
        shown = tip.locator("canvas.thumbnail")
        ink = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
        assert shown.evaluate(ink) > 3  # more than one colour: a digit


def test_a_finger_reads_tips_and_scrolls_past_the_sphere(opened, pages):
    with opened(pages["one"], width=390, height=740, has_touch=True, is_mobile=True) as page:
        sphere = page.locator(".sphere-view canvas.sphere")
        sphere.evaluate("c => c.scrollIntoView({block: 'center', behavior: 'instant'})")
        find_tip(page, page.touchscreen.tap)
        chart = page.locator(".curves-view canvas")
        chart.evaluate("c => c.scrollIntoView({block: 'center', behavior: 'instant'})")
        page.touchscreen.tap(*middle(chart))
        tip = page.locator(".curves-view .tip")
        assert "step" in tip.inner_text()
        page.touchscreen.tap(5, 5)
        assert not tip.is_visible()
        matrix = page.locator("canvas.matrix")
        matrix.evaluate("c => c.scrollIntoView({block: 'center', behavior: 'instant'})")
        page.touchscreen.tap(*middle(matrix))
        assert "→" in page.locator(".matrix-view .tip").inner_text()
        assert sphere.evaluate("c => getComputedStyle(c).touchAction") == "pan-y"
        sphere.evaluate("c => c.scrollIntoView({block: 'center', behavior: 'instant'})")
        before = page.evaluate("window.scrollY")
        x, y = middle(sphere)
        client = page.context.new_cdp_session(page)
        client.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for step in range(1, 9):
            place = {"x": x, "y": y - 25 * step}
            client.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [place]})
            settle(page)
        client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        settle(page)
        assert page.evaluate("window.scrollY") > before + 100


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
        reached = set()
        for _ in range(wanted + 60):
            page.keyboard.press("Tab")
            where = page.evaluate(
                """() => {
                  const e = document.activeElement;
                  if (!e.matches('button, summary, canvas, a[href]')) return null;
                  const style = getComputedStyle(e);
                  if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) return 'no focus ring';
                  return [...document.querySelectorAll('*')].indexOf(e);
                }"""
            )
            reached.add(where)
        assert "no focus ring" not in reached
        assert len(reached - {None}) >= wanted


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
