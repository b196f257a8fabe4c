"""What holds for every public plot: a Figure of its own, labelled, saved, with the errors and the style they share."""

import inspect
import itertools
import re
import runpy
from pathlib import Path

import matplotlib
import matplotlib.figure
import matplotlib.pyplot
import pytest
import torch
from matplotlib.colors import to_hex, to_rgb

import hypersphere as hs
import programs
from hypersphere.plots import _style

ROOT = Path(__file__).parent.parent.parent


def network() -> torch.nn.Module:
    return hs.models.create(
        "cnn3", num_classes=4, in_channels=1, image_size=(8, 8), widths=(4, 5, 6), feature_dim=3, conv="decoupled",
        magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True),
    )  # fmt: skip


def samples(dim: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(40, dim), torch.arange(40) % 4


LOG = [{"step": s, "accuracy": s / 40, "energy": 1 / s, "energy/conv1": 2 / s} for s in (10, 20, 30)]
FEW = {"steps": 5, "neurons": 4}
CALLS = {
    "angle_distributions": lambda: hs.plots.angle_distributions(*samples()),
    "angular_curves": lambda: hs.plots.angular_curves(),
    "class_biases": lambda: hs.plots.class_biases(torch.randn(12)),
    "class_norms": lambda: hs.plots.class_norms(torch.randn(4, 3), [5, 6, 7, 8]),
    "cmc": lambda: hs.plots.cmc({"a": [0.5, 0.75, 1.0]}),
    "condition_numbers": lambda: hs.plots.condition_numbers((1.0, 2.0), shape=(3, 3, 2)),
    "confusion_matrix": lambda: hs.plots.confusion_matrix([0, 1, 1], [0, 1, 0]),
    "cosine_confusion_matrix": lambda: hs.plots.cosine_confusion_matrix(*samples()),
    "energy_curves": lambda: hs.plots.energy_curves({"a": LOG}),
    "features_2d": lambda: hs.plots.features_2d(*samples(), torch.randn(4, 2)),
    "features_3d": lambda: hs.plots.features_3d(*samples(3), torch.randn(4, 3)),
    "filters": lambda: hs.plots.filters(network()),
    "layer_energies": lambda: hs.plots.layer_energies(network()),
    "learned_k": lambda: hs.plots.learned_k(network()),
    "learned_rho": lambda: hs.plots.learned_rho(network()),
    "learning_curves": lambda: hs.plots.learning_curves({"a": LOG}),
    "magnitude_curves": lambda: hs.plots.magnitude_curves(),
    "neuron_trajectories": lambda: hs.plots.neuron_trajectories(**FEW),
    "perturbation_sizes": lambda: hs.plots.perturbation_sizes({"a": torch.rand(9)}),
    "psi_curves": lambda: hs.plots.psi_curves(),
    "roc": lambda: hs.plots.roc({"a": ([0.0, 0.5, 1.0], [0.0, 0.9, 1.0])}),
    "weighted_neuron_trajectories": lambda: hs.plots.weighted_neuron_trajectories((1.0, 4.0), **FEW),
}
figures: dict[str, matplotlib.figure.Figure] = {}
UNLABELLED = {"features_3d", "filters", "neuron_trajectories", "weighted_neuron_trajectories"}  # pictures without axes


def drawn(name: str) -> matplotlib.figure.Figure:
    """One for all tests that only look."""
    if name not in figures:
        figures[name] = CALLS[name]()
    return figures[name]


def test_every_public_plot_is_called_here():
    assert set(CALLS) == set(hs.plots.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_a_figure_of_its_own_that_saves_and_leaves_nothing_behind(name, tmp_path):
    before, backend, shown = dict(matplotlib.rcParams), matplotlib.get_backend(), matplotlib.pyplot.get_fignums()
    figure = figures[name] = CALLS[name]()
    assert isinstance(figure, matplotlib.figure.Figure)
    assert matplotlib.pyplot.get_fignums() == shown  # those of other tests
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend() == backend
    figure.savefig(tmp_path / "picture.png", dpi=50)
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert to_hex(figure.get_facecolor()) == "#ffffff"
    assert figure.get_size_inches()[0] >= 5.4


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_vector_formats(suffix, tmp_path):
    for name in ("features_2d", "features_3d"):
        drawn(name).savefig(tmp_path / f"{name}.{suffix}")
        assert (tmp_path / f"{name}.{suffix}").stat().st_size > 1000


@pytest.mark.parametrize("name", sorted(set(CALLS) - UNLABELLED))
def test_axes_are_labelled_and_type_is_readable(name):
    figure = drawn(name)
    panels = [axes for axes in figure.axes if axes.axison]
    assert any(axes.get_xlabel() for axes in panels)
    assert any(axes.get_ylabel() for axes in panels)
    for axes in panels:
        assert axes.xaxis.label.get_fontsize() >= 8.5
        sizes = {tick.label1.get_fontsize() for tick in (*axes.xaxis.get_major_ticks(), *axes.yaxis.get_major_ticks())}
        assert sizes == {_style.SIZES["tick"]}


@pytest.mark.parametrize("name", CALLS)
def test_no_title_runs_out_of_the_picture(name):
    figure = drawn(name)
    figure.draw_without_rendering()
    whole = figure.bbox
    for axes in figure.axes:
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            if text.get_text() and axes.axison:
                box = text.get_window_extent()
                assert box.x0 >= -1
                assert box.y0 >= -1
                assert box.x1 <= whole.width + 1
                assert box.y1 <= whole.height + 1


def test_plots_record_no_gradient_and_leave_the_mode_as_it_was():
    features = torch.randn(12, 2, requires_grad=True)
    with torch.enable_grad():
        hs.plots.features_2d(features, torch.arange(12) % 3)
        hs.plots.neuron_trajectories(("mhe",), **FEW)
        assert torch.is_grad_enabled()
    with torch.no_grad():  # they descend by gradients all the same
        moved = hs.plots.neuron_trajectories(("mhe",), **FEW)
        assert moved.axes
    with torch.inference_mode():
        assert hs.plots.neuron_trajectories(("mhe",), **FEW).axes
        assert hs.plots.condition_numbers((1.0,), shape=(3, 3, 2)).axes


def test_palette_is_okabe_and_itos_then_its_hues_darker_and_lighter():
    okabe_ito = {"#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7"}
    assert {colour.lower() for colour in _style.PALETTE} == okabe_ito
    assert _style.colours(8) == list(_style.PALETTE)
    assert _style.colours(3) == list(_style.PALETTE[:3])
    many = [to_hex(colour) for colour in _style.colours(36)]
    assert len(set(many)) == 36
    assert many[:8] == [colour.lower() for colour in _style.PALETTE]  # the first classes keep their colours
    for one, other in itertools.pairwise(many):  # neighbours are no steps of one scale
        apart = max(abs(a - b) for a, b in zip(to_rgb(one), to_rgb(other), strict=True))
        assert apart > 0.1


def test_without_matplotlib_the_library_works_and_a_plot_says_what_to_install():
    code = """
import sys
sys.modules["matplotlib"] = None
import hypersphere as hs
assert callable(hs.plots.psi_curves)
for call in (hs.plots.psi_curves, lambda: hs.plots.features_2d(None, None)):
    try:
        call()
    except ImportError as error:
        assert "pip install hypersphere[plots]" in str(error), error
    else:
        raise SystemExit("no error")
"""
    done = programs.run(["-c", code], bare=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_plot_is_in_the_gallery_with_an_image_and_alt_text(name):
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert f"hs.plots.{name}(" in page
    images = re.findall(rf"!\[([^\]]*)\]\((images/gallery_{name}\w*\.png)\)", page)
    assert images
    for alt, path in images:
        assert len(alt) > 40
        image = ROOT / "docs" / path
        assert image.read_bytes()[:4] == b"\x89PNG"
        assert image.stat().st_size < 120 * 1024


def test_the_gallery_tool_makes_every_picture_of_the_page():
    page = set(re.findall(r"images/gallery_(\w+)\.png", (ROOT / "docs" / "gallery.md").read_text()))
    made = set(runpy.run_path(str(ROOT / "tools" / "gallery.py"))["PICTURES"])
    assert page == made
    assert {path.stem.removeprefix("gallery_") for path in (ROOT / "docs" / "images").glob("gallery_*.png")} == made


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_argument_is_documented(name):
    function = getattr(hs.plots, name)
    text = inspect.getdoc(function)
    shared = {"model", "bins", "title"} if name.startswith("learned") else set()
    for argument in set(inspect.signature(function).parameters) - shared:
        assert re.search(rf"\b{argument}\b", text), argument
