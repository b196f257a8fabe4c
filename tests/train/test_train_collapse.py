"""When a training counts as collapsed, and what is said of it."""

import pytest
import torch

from hypersphere import losses
from hypersphere.evaluation import mean_length
from hypersphere.losses import ArcFace, Softmax
from hypersphere.train.collapse import Collapse, sign_of_collapse


def signs(step=500, warmup=100, classes=100, accuracy=0.01, samples=12_800):
    return Collapse(step, warmup, classes, accuracy, samples)


@pytest.mark.parametrize(
    ("change", "collapsed"),
    [
        ({}, True),
        ({"accuracy": 0.0}, True),
        ({"accuracy": 0.03}, False),
        ({"accuracy": 0.03, "samples": 100}, False),  # three standard errors, but never more than twice of chance
        ({"accuracy": 0.019, "samples": 100}, True),
        ({"accuracy": 0.019}, False),
        ({"step": 100}, False),  # the warm-up is just over
        ({"step": 50, "warmup": 0}, False),  # too early to tell
        ({"classes": 2, "accuracy": 0.52, "samples": 200}, True),
        ({"classes": 2, "accuracy": 0.95}, False),
    ],
)
def test_a_collapse_is_an_accuracy_at_chance_level_after_warm_up(change, collapsed):
    assert signs(**change).at_chance == collapsed


def test_naming_the_most_frequent_class_is_a_sign_only_with_features_of_one_direction():
    """LFW: one of 4,038 people is on 5.6 % of the images, and a collapsed network is right as often as he is there."""
    told = Collapse(500, 100, 4038, accuracy=0.023, samples=25_600, frequent=0.056)
    assert not told.at_chance
    assert told.one_answer
    assert not Collapse(500, 100, 4038, accuracy=0.065, samples=25_600, frequent=0.056).one_answer
    assert not Collapse(100, 100, 4038, accuracy=0.023, samples=25_600, frequent=0.056).one_answer
    head = ArcFace(4, 100, 0.8, scale=64.0)
    assert "always naming the most frequent one gives 5.60 %" in sign_of_collapse(told, 0.99, head)
    assert sign_of_collapse(told, 0.5, head) == ""
    assert "every feature is 0" in sign_of_collapse(told, 0.0, head)


def test_length_of_the_mean_direction():
    assert mean_length(torch.tensor([[3.0, 0], [0.5, 0]])) == pytest.approx(1)
    assert mean_length(torch.tensor([[3.0, 0], [-0.5, 0]])) == pytest.approx(0)
    assert mean_length(torch.tensor([[1.0, 0], [0, 7]])) == pytest.approx(0.5**0.5)


def test_the_cause_is_named():
    large = sign_of_collapse(signs(), 0.99, ArcFace(4, 100, 0.8, scale=64.0))
    assert "all features point in one direction" in large
    assert "the margin 0.8 is more than this network can follow" in large
    assert "a smaller --loss.margin" in large
    small = sign_of_collapse(signs(), 0.99, ArcFace(4, 100, 0.5, scale=2.0))
    assert "the scale 2 is below 6.5" in small
    assert "a larger --loss.scale" in small
    plain = sign_of_collapse(signs(), 0.99, Softmax(4, 100))
    assert "margin" not in plain
    assert "Lower --optim.lr" in plain
    assert "Raise --optim.lr" in sign_of_collapse(signs(), 0.3, None)
    assert "every feature is 0" in sign_of_collapse(signs(), mean_length(torch.zeros(5, 3)), None)


@pytest.mark.parametrize(
    ("head", "told", "missing"),
    [
        (
            losses.MagFace(4, 100),
            ("the margin 0.8 is", "--loss.extra 'lower_margin=", "--loss.warmup"),
            "--loss.margin",
        ),
        (
            losses.SphereFacePlus(losses.ASoftmax(4, 100, annealing="sphereface")),
            ("the margin 4 is more", "a smaller --loss.margin,", "--loss.annealing"),
            "--loss.warmup",  # with annealing it is refused
        ),
        (losses.AMSoftmax(4, 100, 0.5), ("--loss.margin, e.g. 0.4",), "fitting"),
        (losses.ContrastiveLoss(Softmax(4, 100)), ("Lower --optim.lr",), "--loss.margin"),
        (losses.TripletLoss(4, 100), ("a smaller --loss.margin,",), "e.g."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_advice_is_of_the_head_whose_margin_it_is(head, told, missing):
    text = sign_of_collapse(signs(), 0.99, head)
    assert all(part in text for part in told), text
    assert missing not in text


def test_a_real_collapse():
    """ArcFace with a margin of 1.5 and a small scale on a linear map, at a high rate: every feature goes one way."""
    torch.manual_seed(0)
    network, head = torch.nn.Linear(8, 4), ArcFace(4, 20, 1.5, scale=4.0)
    with torch.no_grad():
        network.bias.fill_(50.0)  # features that are all bias
    x, labels = torch.randn(200, 8), torch.arange(200) % 20
    features = network(x)
    accuracy = float((head.logits(features).argmax(1) == labels).float().mean())
    told = signs(classes=20, accuracy=accuracy, samples=200)
    assert told.at_chance
    assert "has collapsed" in sign_of_collapse(told, mean_length(features), head)
