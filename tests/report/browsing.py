"""What the tests of a page in a browser do again and again."""


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
