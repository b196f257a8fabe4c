"""Small real runs to report on, trained once, and copies of them that a test may damage."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from browsing import settle

from hypersphere import recipes, report, train
from sharing import made_once


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A folder with four runs: ``plain`` of two seeds, ``learned`` k in 3-D, ``radius`` ρ, and ``flat`` in 2-D."""
    return made_once(tmp_path_factory, "reported", train_all)


def train_all(folder: Path) -> None:
    for name, values in {
        "plain": {"run.seeds": (0, 1)},
        "learned": {
            "model.conv": "sphere",
            "model.angular": "sigmoid",
            "model.learnable_k": True,
            "model.feature_dim": 3,
        },
        "radius": {"model.conv": "decoupled", "model.magnitude": "tanh", "loss.name": "am_softmax"},
        "flat": {"model.feature_dim": 2},
    }.items():
        config = recipes.get("digits.cnn")
        config = replace(config, model=replace(config.model, widths="6,6,6", feature_dim=8))
        quick = {"schedule.steps": 30, "run.eval_every": 10, "run.log_every": 5, "run.checkpoint_every": 15}
        quiet = {"run.folder": str(folder), "run.name": name, "run.progress": "off", "run.tensorboard": False}
        train.run(train.with_values(config, quick | quiet | values))


@pytest.fixture
def runs(trained, tmp_path) -> Path:
    """The same runs, to do with as one likes."""
    return Path(shutil.copytree(trained, tmp_path / "runs"))


@pytest.fixture(scope="session")
def pages(trained, tmp_path_factory):
    """Reports on one run, and on three."""

    def write(folder: Path) -> None:
        report.write(trained / "learned", folder / "one.html")
        report.write([trained / name for name in ("plain", "radius", "flat")], folder / "many.html")

    folder = made_once(tmp_path_factory, "reports", write)
    return {name: folder / f"{name}.html" for name in ("one", "many")}


@pytest.fixture(scope="session")
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
