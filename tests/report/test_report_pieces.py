"""The parts of a report against slow references: pictures, curves, sphere, confusion, examples, words."""

import base64
import io
import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from report_examples import outputs

import hypersphere as hs
from hypersphere import recipes
from hypersphere.evaluation import layer_energies
from hypersphere.report.charts import bars, histograms
from hypersphere.report.confusion import confusion_view, worst_classes, worst_pairs
from hypersphere.report.curves import thin
from hypersphere.report.examples import data_uri, hardest, png, slowest
from hypersphere.report.findings import learned_k, learned_rho
from hypersphere.report.markup import Html, element, number, table
from hypersphere.report.sphere import projection, sphere_view
from hypersphere.report.subject import finite, mean_and_spread
from hypersphere.report.words import in_words
from hypersphere.report.write import runs_in


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 5, 9), (1, 1, 1), (3, 1, 7)])
def test_png_is_what_pillow_reads(shape):
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    read = Image.open(io.BytesIO(png(image)))
    assert read.mode == ("L" if shape[0] == 1 else "RGB")
    back = torch.tensor(list(read.tobytes()), dtype=torch.uint8).view(shape[1], shape[2], shape[0]).permute(2, 0, 1)
    assert torch.equal(back, image)


@pytest.mark.parametrize("image", [torch.rand(1, 4, 4), torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(1, 0, 4)])
def test_png_refuses_other_tensors(image):
    with pytest.raises(ValueError, match="pass uint8"):
        png(image)


def test_large_images_shrink_and_other_channels_are_averaged():
    image = torch.full((3, 300, 150), 77, dtype=torch.uint8)
    assert _opened(data_uri(image, 96)).size == (48, 96)
    two = torch.stack([torch.zeros(4, 4), torch.full((4, 4), 100)]).to(torch.uint8)
    assert _opened(data_uri(two)).getpixel((0, 0)) == 50


def _opened(uri):
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(body)))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(10, 60))
def test_thinning_keeps_ends_and_extremes(values, points):
    kept = thin(values, points)
    assert kept == sorted(set(kept))
    assert {0, len(values) - 1} <= set(kept)
    assert len(kept) <= max(points, 10) + 2
    known = [value for value in values if value is not None]
    if known:
        assert {min(known), max(known)} <= {values[i] for i in kept}


def test_markup_escapes_everything_but_its_own():
    evil = '<script>alert("1")</script>'
    assert "<script" not in element("p", evil, title=evil)
    assert element("p", Html("<b>x</b>"), class_="a", hidden=True, id=None) == '<p class="a" hidden><b>x</b></p>'
    assert "<script" not in table([evil], [[evil, evil]], evil)


def test_numbers_for_people():
    assert [number(None), number(-1.239), number(0.0), number(1e-7)] == ["–", "−1.24", "0.00", "1e−07"]
    assert [finite(v) for v in (1, math.nan, math.inf, None, True, "3")] == [1.0, None, None, None, None, None]


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9))
def test_mean_and_spread(values):
    mean, spread = mean_and_spread(values)
    assert mean == pytest.approx(statistics.fmean(values), abs=1e-9)
    assert spread == pytest.approx(statistics.stdev(values), abs=1e-6)


# Sphere -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 5, 12])
def test_projection_is_orthonormal_and_says_what_it_keeps(classes):
    found = outputs(240, classes, dim=6)
    axes, text = projection(found, torch.arange(240), list(range(classes)))
    torch.testing.assert_close(axes @ axes.mT, torch.eye(3, dtype=torch.float64))
    total = 0.0
    for feature in found.features.double():
        direction = feature / feature.norm()
        total += sum(float(direction @ axis) ** 2 for axis in axes)
    assert f"keeps {100 * total / 240:.0f}%" in text


def test_axes_are_those_of_the_class_means():
    """The projection captures the most of the spread of the class means among all linear ones."""
    found = outputs(400, 8, dim=7)
    axes, _ = projection(found, torch.arange(400), list(range(8)))
    units = torch.nn.functional.normalize(found.features.double())
    means = torch.stack([units[found.labels == c].mean(0) for c in range(8)])
    spread = means - means.mean(0)
    best = torch.linalg.eigvalsh(spread.mT @ spread)[-3:].sum()
    assert float((spread @ axes.mT).square().sum()) == pytest.approx(float(best))


def test_three_dimensions_are_shown_as_they_are():
    view = sphere_view(outputs(dim=3))
    points = torch.tensor(view["points"]).view(-1, 3) / 1000
    torch.testing.assert_close(points, torch.nn.functional.normalize(outputs(dim=3).features), atol=6e-4, rtol=0)
    assert view["kind"] == "sphere"
    assert "as they are" in view["note"]


def test_two_dimensions_keep_their_lengths():
    found = outputs(dim=2)
    view = sphere_view(found)
    points = torch.tensor(view["points"]).view(-1, 2) / 1000
    torch.testing.assert_close(points, found.features / found.features.norm(dim=1).max(), atol=6e-4, rtol=0)
    assert view["kind"] == "plane"


def test_points_are_capped_and_drawn_alike_each_time():
    found = outputs(500)
    view = sphere_view(found, 100)
    assert len(view["labels"]) == 100 == len(view["points"]) / 3
    assert view == sphere_view(found, 100)
    assert view["note"].startswith("100 of 500 test samples")


def test_open_sets_show_no_class_vectors_and_few_classes():
    view = sphere_view(outputs(300, 50, logits=None, class_vectors=None))
    assert view["vectors"] is None
    assert view["wrong"] is None
    assert len(view["classes"]) == 20
    assert "from the 20 of 50 classes" in view["note"]
    assert sphere_view(outputs(dim=1)) is None


# Confusion and examples ---------------------------------------------------------------------------------


def test_confusion_by_hand():
    found = outputs(90, 5)
    view = confusion_view(found)
    counts = [[0] * 5 for _ in range(5)]
    for label, logits in zip(found.labels.tolist(), found.logits.tolist(), strict=True):
        counts[label][logits.index(max(logits))] += 1
    assert view["counts"] == [count for row in counts for count in row]
    for i in range(5):
        for j in range(5):
            cosines = [_cosine(x, found.class_vectors[j]) for x in found.features[found.labels == i]]
            assert view["cosines"][5 * i + j] == pytest.approx(1000 * statistics.fmean(cosines), abs=1)
    worst = worst_pairs(found, 3)
    wrong = sorted((counts[i][j] for i in range(5) for j in range(5) if i != j), reverse=True)
    assert [count for _, _, count, _ in worst] == [count for count in wrong[:3] if count]
    shares = [counts[i][i] / sum(counts[i]) for i in range(5)]
    assert [right / total for _, right, total in worst_classes(found)] == sorted(shares)


def test_of_many_classes_those_with_errors_are_shown():
    view = confusion_view(outputs(200, 20), most=6)
    assert len(view["classes"]) == 6
    assert (view["of"], len(view["counts"])) == (20, 36)


def test_a_class_without_samples_has_no_cosine():
    found = outputs(20, 4, labels=torch.zeros(20, dtype=torch.long))
    assert confusion_view(found)["cosines"][4:8] == [None] * 4


def test_examples_are_ranked_by_angle_and_hardness():
    found = outputs(40, 4)
    angles = [[math.acos(_cosine(x, w)) for w in found.class_vectors] for x in found.features]
    own = [row[label] for row, label in zip(angles, found.labels.tolist(), strict=True)]
    avh = [mine / sum(row) for mine, row in zip(own, angles, strict=True)]
    assert [one.index for one in slowest(found, 5)] == sorted(range(40), key=lambda i: -own[i])[:5]
    first = hardest(found, 5)
    assert [one.index for one in first] == sorted(range(40), key=lambda i: -avh[i])[:5]
    assert first[0].degrees == pytest.approx(math.degrees(own[first[0].index]), abs=1e-3)
    assert first[0].hardness == pytest.approx(max(avh), rel=1e-4)
    assert first[0].true == f"class {first[0].index % 4}"


def _cosine(x, w):
    x, w = x.double(), w.double()
    return float(x @ w / (x.norm() * w.norm()))


# Learned numbers, words ---------------------------------------------------------------------------------


def test_learned_numbers_of_a_network():
    g = hs.angular.Sigmoid(k=0.4, learnable=True)
    net = torch.nn.Sequential(
        hs.nn.SphereConv2d(1, 4, 3, angular=g), torch.nn.Flatten(), hs.nn.DecoupledLinear(16, 3, magnitude="tanh")
    )
    assert learned_k(net)["0"] == pytest.approx([0.4] * 4)
    assert learned_rho(net)["2"] == pytest.approx([1.0])
    assert (set(layer_energies(net).hidden), set(layer_energies(net).output)) == ({"0.weight"}, {"2.weight"})
    assert learned_k(torch.nn.Linear(2, 2)) == {}


def test_histograms_of_anything():
    text = histograms({"a": [0.5] * 8, "b": [0.1, math.nan, 0.9], "c": [2.0], "d": [math.inf, math.nan]}, "k")
    assert text.count("<svg") == 3
    assert 'aria-label="8 values of k in a, from 0.500 to 0.500, mean 0.500"' in text
    assert "nan" not in text.lower()
    assert "nan" not in bars({"x": math.nan, "y": 0.0}, "energy").lower()


def test_every_recipe_can_be_said_in_words():
    for name in recipes.list_recipes():
        rows = dict(in_words(recipes.get(name)))
        assert {"Data", "Network", "Loss", "Optimizer", "Schedule", "Evaluated by"} <= set(rows)
        assert "None" not in " ".join(rows.values())


def test_a_folder_of_runs_holds_those_that_have_begun(tmp_path):
    for name in ("begun", "not begun", "sweep/one", "sweep/deeper/two"):
        (tmp_path / name / "seed-0").mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
    for name in ("begun", "sweep/one", "sweep/deeper/two"):
        (tmp_path / name / "seed-0" / "facts.json").write_text("{}")
    assert runs_in(tmp_path) == [tmp_path / name for name in ("begun", "sweep/deeper/two", "sweep/one")]
    assert runs_in(tmp_path / "sweep") == [tmp_path / "sweep" / "deeper" / "two", tmp_path / "sweep" / "one"]
    assert runs_in(tmp_path / "not begun") == [tmp_path / "not begun"]
