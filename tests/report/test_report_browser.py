"""The page in a real browser: it opens in silence, turns, zooms, filters and is saved, by mouse and by finger."""

import math
import re

import pytest
from browsing import middle, picture, settle

from hypersphere import report

pytestmark = [pytest.mark.browser, pytest.mark.slow]


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
