"""Confusion matrices, ROC and CMC: images and lines against counting by hand."""

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.plots import _style


def image(figure):
    return np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)


LABELS, PREDICTED = [0, 0, 0, 1, 1, 3], [0, 0, 1, 1, 1, 0]
COUNTS = np.array([[2, 1, 0, 0], [0, 2, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]])


def test_confusion_matrix_counts_and_percentages():
    figure = hs.plots.confusion_matrix(LABELS, PREDICTED, normalize="none")
    np.testing.assert_array_equal(image(figure), COUNTS)
    assert [t.get_text() for t in figure.axes[0].texts] == ["2", "1", "2", "1"]  # nothing where nothing is
    share = image(hs.plots.confusion_matrix(LABELS, PREDICTED))
    np.testing.assert_allclose(share, [[200 / 3, 100 / 3, 0, 0], [0, 100, 0, 0], [0, 0, 0, 0], [100, 0, 0, 0]])
    assert figure.axes[0].get_ylabel() == "true class"
    assert figure.axes[0].get_xlabel() == "predicted class"
    assert "samples" in figure.axes[1].get_ylabel()


def test_confusion_matrix_of_logits_counts_and_results():
    logits = torch.nn.functional.one_hot(torch.tensor(PREDICTED), 5).to(torch.bfloat16)
    labels = torch.tensor(LABELS)
    np.testing.assert_array_equal(
        image(hs.plots.confusion_matrix(labels, logits, normalize="none")), np.pad(COUNTS, ((0, 1), (0, 1)))
    )
    np.testing.assert_array_equal(image(hs.plots.confusion_matrix(COUNTS, normalize="none")), COUNTS)
    result = hs.metrics.classification(logits.float(), labels, classes=list("abcde"))
    figure = hs.plots.confusion_matrix(result, normalize="none")
    np.testing.assert_array_equal(image(figure)[:4, :4], COUNTS)
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == list("abcde")


def test_many_classes_have_fewer_ticks_and_no_numbers():
    y = torch.arange(100)
    (axes, _) = hs.plots.confusion_matrix(y, y).axes
    assert not axes.texts
    assert len(axes.get_xticklabels()) == 20


def test_cosine_confusion_matrix_is_the_mean_cosine():
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=(30, 4)), np.arange(30) % 3, rng.normal(size=(5, 4))
    figure = hs.plots.cosine_confusion_matrix(torch.tensor(x).float(), y, torch.tensor(w))
    found = image(figure)
    for i in range(3):
        for j in range(5):
            cosines = [a @ w[j] / np.linalg.norm(a) / np.linalg.norm(w[j]) for a in x[y == i]]
            assert found[i, j] == pytest.approx(np.mean(cosines), abs=1e-6)
    assert np.isnan(found[3:]).all()  # classes without samples are blank
    assert figure.axes[0].images[0].get_clim() == (-1, 1)
    assert len(figure.axes[0].texts) == 15
    own = image(hs.plots.cosine_confusion_matrix(x, y))
    for j in range(3):
        mean = x[y == j].mean(0)
        cosines = [a @ mean / np.linalg.norm(a) / np.linalg.norm(mean) for a in x[y == 0]]
        assert own[0, j] == pytest.approx(np.mean(cosines))


def test_a_value_that_rounds_to_zero_has_no_minus_sign():
    x, w = torch.tensor([[1.0, 0.0], [-1e-4, 1.0]]), torch.tensor([[1.0, 0.0], [-1e-4, 1.0]])
    axes = hs.plots.cosine_confusion_matrix(x, [0, 1], w).axes[0]
    assert [t.get_text() for t in axes.texts] == ["1.00", "0.00", "0.00", "1.00"]
    assert hs.plots.cosine_confusion_matrix(-x, [0, 1], w).axes[0].texts[0].get_text() == "−1.00"


FAR, TAR = [0.0, 0.001, 0.1, 1.0], [0.2, 0.5, 0.9, 1.0]
AREA = 0.001 * 0.35 + 0.099 * 0.7 + 0.9 * 0.95


def test_roc_on_both_axes():
    figure = hs.plots.roc({"ours": (FAR, TAR), "theirs": (torch.tensor(FAR), torch.tensor([0.0, 0.1, 0.4, 1.0]))})
    linear, log = figure.axes
    np.testing.assert_allclose(linear.lines[0].get_data(), [FAR, TAR])
    np.testing.assert_allclose(log.lines[0].get_data(), [FAR[1:], TAR[1:]])  # FAR 0 has no place there
    assert (linear.get_xscale(), log.get_xscale()) == ("linear", "log")
    assert [line.get_color() for line in log.lines] == list(_style.PALETTE[:2])
    texts = [t.get_text() for t in linear.get_legend().get_texts()]
    assert texts[0] == f"ours (AUC {AREA:.4f})"
    assert len(texts) == 2
    assert log.get_xlim()[0] == pytest.approx(0.001)
    assert "FAR" in log.get_xlabel()
    assert "TAR" in linear.get_ylabel()


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_roc_on_one_axis_and_in_falling_order(scale):
    (axes,) = hs.plots.roc((FAR[::-1], TAR[::-1]), scale=scale).axes
    assert axes.get_xscale() == scale
    assert (np.diff(axes.lines[0].get_xdata()) > 0).all()


def test_results_of_the_metrics_are_drawn_as_they_are():
    scores, same = torch.rand(200), torch.rand(200) > 0.5
    result = hs.metrics.verification(scores + 0.3 * same, same)
    (axes,) = hs.plots.roc({"net": result}, scale="linear").axes
    np.testing.assert_array_equal(axes.lines[0].get_data(), [result.roc.fpr.numpy(), result.roc.tpr.numpy()])
    assert f"AUC {result.auc:.4f}" in axes.lines[0].get_label()
    (bare,) = hs.plots.roc(result.roc, scale="linear").axes
    np.testing.assert_array_equal(bare.lines[0].get_data(), axes.lines[0].get_data())
    found = hs.metrics.identification(torch.randn(30, 4), torch.arange(30) % 5)
    (axes,) = hs.plots.cmc(found).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 100 * found.cmc.numpy())
    assert f"rank-1 {100 * found.rank(1):.1f}%" in axes.lines[0].get_label()


def test_cmc_ranks_and_rates():
    (axes,) = hs.plots.cmc({"a": [0.5, 0.7, 1.0], "b": ([1, 5, 10], torch.tensor([0.6, 0.8, 0.9]))}).axes
    np.testing.assert_allclose(axes.lines[0].get_data(), [[1, 2, 3], [50, 70, 100]])
    np.testing.assert_allclose(axes.lines[1].get_data(), [[1, 5, 10], [60, 80, 90]])
    assert axes.lines[0].get_marker() != axes.lines[1].get_marker()
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["a (rank-1 50.0%)", "b (rank-1 60.0%)"]
    (axes,) = hs.plots.cmc({"a": [0.5, 0.7, 1.0]}, max_rank=2).axes
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [1, 2])
    (axes,) = hs.plots.cmc(torch.linspace(0.1, 1, 1000)).axes
    assert axes.get_xscale() == "log"
    assert "%" in axes.get_ylabel()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: hs.plots.roc({}), "curves is empty"),
        (lambda: hs.plots.roc({"a": 3}), "curves\\['a'\\] is not a pair"),
        (lambda: hs.plots.roc({"a": ([0.0, float("nan")], [0.0, 1.0])}), "NaN"),
        (lambda: hs.plots.roc({"a": ([0.0, 2.0], [0.0, 1.0])}), "rates in \\[0, 1\\]"),
        (lambda: hs.plots.roc({"a": ([0.0, 1.0], [1.0])}), "2 FARs and 1 TARs"),
        (lambda: hs.plots.roc({"a": ([0.0, 0.5, 1.0], [0.0, 0.9, 0.5])}), "does not rise"),
        (lambda: hs.plots.roc((FAR, TAR), scale="loglog"), "scale='loglog'"),
        (lambda: hs.plots.cmc([]), "empty"),
        (lambda: hs.plots.cmc([0.5, 0.4]), "must not fall"),
        (lambda: hs.plots.cmc(([0, 1], [0.4, 0.5])), "rise from 1"),
        (lambda: hs.plots.cmc([0.5], max_rank=0), "max_rank"),
        (lambda: hs.plots.cmc({"a": ([5, 6], [0.5, 0.6]), "b": [0.1]}, max_rank=3), "no rank up to 3"),
        (lambda: hs.plots.confusion_matrix([], []), "labels is empty"),
        (lambda: hs.plots.confusion_matrix([0, 1], [0]), "predictions has shape"),
        (lambda: hs.plots.confusion_matrix([0, 1], torch.full((2, 3), float("nan"))), "NaN"),
        (lambda: hs.plots.confusion_matrix(torch.zeros(2, 2)), "no sample"),
        (lambda: hs.plots.confusion_matrix(torch.ones(2, 3)), "num_classes, num_classes"),
        (lambda: hs.plots.confusion_matrix([0, 1], [1, 0], classes=["a"]), "classes names 1"),
        (lambda: hs.plots.cosine_confusion_matrix(torch.randn(2, 3), [0, 1], torch.randn(2, 4)), "dimension 3"),
        (lambda: hs.plots.cosine_confusion_matrix(torch.randn(2, 3) / 0, [0, 1]), "NaN"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_a_confusion_matrix_of_arrays_that_torch_cannot_share():
    labels, scores = np.array([0, 1, 2, 2]), np.eye(3)[[0, 1, 2, 0]]
    wanted = image(hs.plots.confusion_matrix(labels, scores.argmax(1)))
    for predicted in (scores[::-1], scores[::-1].argmax(1), scores.argmax(1)[::-1]):
        assert np.array_equal(image(hs.plots.confusion_matrix(labels[::-1], predicted)), wanted)
