"""Plots as a notebook uses them: lists, arrays and names in, a picture out, on axes of one's own."""

import pickle

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import hypersphere as hs

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(12, 2)).astype("float32")
NAMES = ["cat", "ant", "bee"] * 4


def test_a_figure_is_its_own_picture():
    figure = hs.plots.angular_curves()
    assert isinstance(figure, Figure)
    assert figure._repr_png_()[:8] == b"\x89PNG\r\n\x1a\n"
    assert pickle.loads(pickle.dumps(figure))._repr_png_()[:4] == b"\x89PNG"


def test_ipython_shows_the_picture():
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(hs.plots.angular_curves())
    assert data["image/png"][:8] == b"\x89PNG\r\n\x1a\n"


def test_results_are_tables():
    found = hs.metrics.verification([0.9, 0.1, 0.8, 0.2], [1, 0, 1, 0], folds=2)
    page = found._repr_html_()
    assert "<caption>VerificationResult</caption>" in page
    assert '<td style="text-align:left">pairs</td><td style="text-align:right">4</td>' in page
    assert f'>accuracy</td><td style="text-align:right">{found.accuracy:.4f} ± ' in page
    report = hs.convert(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))).conversion_report
    assert repr(report) == "converted 1 layers, kept 1\n  0  -> SphereLinear\n  1  kept: output layer"
    assert '<td style="text-align:left">-&gt; SphereLinear</td>' in report._repr_html_()


@pytest.mark.parametrize("read", [torch.as_tensor, np.asarray, np.ndarray.tolist])
def test_names_are_classes_and_any_array_will_do(read):
    figure = hs.plots.features_2d(read(POINTS), np.array(NAMES))
    legend = [text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text")) if text.get_text() in NAMES]
    assert set(legend) == {"ant", "bee", "cat"}


def test_names_follow_the_order_of_classes():
    with pytest.raises(ValueError, match="'cat' is not one of classes"):
        hs.plots.features_2d(POINTS, NAMES, classes=["ant", "bee"])


def test_axes_of_the_caller():
    own = Figure()
    left, right = own.subplots(1, 2)
    assert hs.plots.features_2d(POINTS, NAMES, ax=right) is own
    assert hs.plots.angular_curves(ax=left) is own
    assert left.lines
    assert right.collections
    assert len(own.axes) == 2
    curve = ([0.0, 0.5, 1.0], [0.0, 0.9, 1.0])
    assert hs.plots.roc(curve, ax=left) is own  # one panel of the two that it has by itself
    assert hs.plots.roc(curve, ax=[left, right]) is own
    assert right.get_xscale() == "log"
    assert hs.plots.class_biases([0.1, 0.2], ax=Figure().subplots(1, 2)).axes[1].patches


def test_axes_that_do_not_fit_are_refused():
    own = Figure()
    with pytest.raises(ValueError, match="projection='3d'"):
        hs.plots.features_3d(RNG.normal(size=(6, 3)), [0, 1, 2, 0, 1, 2], ax=own.subplots())
    with pytest.raises(TypeError, match="matplotlib axes"):
        hs.plots.angular_curves(ax=3)
    with pytest.raises(ValueError, match=r"has 2 panels, and this picture has one"):
        hs.plots.angular_curves(ax=own.subplots(1, 2))
    with pytest.raises(ValueError, match=r"one panel, and this picture has 2: pass 2 axes"):
        hs.plots.roc(([0.0, 1.0], [0.0, 1.0]), scale="both", ax=own.subplots())
