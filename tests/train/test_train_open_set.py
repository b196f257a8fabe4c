"""Trained on some classes, evaluated on pairs of others."""

from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score
from tiny import tiny

import hypersphere as hs
from hypersphere import data
from hypersphere.evaluation import evaluate, outputs_of
from hypersphere.train import EvaluationConfig, LossConfig, Run, run


def settings(folder, **parts):
    config = tiny(folder, "open", 60, loss=LossConfig(name="am_softmax"))
    evaluation = EvaluationConfig(protocol="verification", folds=3, pairs=20)
    model = replace(config.model, widths="8,8,8", feature_dim=32)
    config = replace(config, model=model, data=replace(config.data, name="omniglot", pad=0), evaluation=evaluation)
    return replace(config, **parts)


def test_verification_of_unseen_classes_is_measured_and_learned(characters, tmp_path):
    result = run(settings(tmp_path))["seeds"][0]
    model = hs.load(tmp_path / "open")
    images = (characters.test.images.float() - 127.5) / 128
    with torch.no_grad():
        features = torch.nn.functional.normalize(model.features(images))
    pairs = data.make_pairs(characters.test.labels, 3, 20)
    scores = (features[pairs.left] * features[pairs.right]).sum(1)
    shares = []
    for fold in range(3):  # the threshold of the other folds, by trying all
        others, own = pairs.fold != fold, pairs.fold == fold
        best = max(
            sorted(scores[others].tolist()), key=lambda cut: ((scores[others] >= cut) == pairs.same[others]).sum()
        )
        cuts = [cut for cut in scores[others].tolist() if cut < best]
        middle = (best + max(cuts)) / 2 if cuts else best
        shares.append(float(((scores[own] >= middle) == pairs.same[own]).float().mean()))
    assert result["final_accuracy"] == pytest.approx(100 * sum(shares) / 3, abs=1e-4)
    assert result["final_accuracy"] > 75
    assert result["metrics"]["auc"] == pytest.approx(100 * roc_auc_score(pairs.same, scores), abs=1e-3)
    assert set(result["metrics"]) >= {"accuracy", "accuracy_std", "auc", "eer", "tar@0.01"}
    assert result["test_loss"] is None
    found = outputs_of(Run(tmp_path / "open"))
    assert found.logits is None
    assert found.classes[0] == "pattern 12"
    assert torch.equal(found.images, characters.test.images)


def test_mirrors_and_centring_change_what_is_compared(characters, tmp_path):
    plain = settings(tmp_path)
    plain = replace(plain, schedule=replace(plain.schedule, steps=6))
    values = {
        run(replace(plain, recipe=f"{flip}{center}", evaluation=replace(plain.evaluation, flip=flip, center=center)))[
            "seeds"
        ][0]["metrics"]["auc"]
        for flip in (False, True)
        for center in (False, True)
    }
    assert len(values) == 4


def test_classification_of_other_classes_is_refused(characters, tmp_path):
    with pytest.raises(ValueError, match=r"evaluate by verification"):
        run(settings(tmp_path, evaluation=EvaluationConfig()))


@pytest.mark.parametrize("name", ["fgsm", "deepfool", "pgd_transfer"])
def test_attacks_on_labels_of_other_classes_are_refused(characters, tmp_path, name):
    """The logits are those of the training classes: comparing them with the labels of others says nothing."""
    asked = settings(tmp_path)
    asked = replace(asked, schedule=replace(asked.schedule, steps=2))
    also = replace(asked, evaluation=replace(asked.evaluation, also=(name,)))
    also = replace(also, adversarial=replace(also.adversarial, source="open"))
    with pytest.raises(ValueError, match=r"test classes of omniglot are not the training classes"):
        run(replace(also, recipe="also"))
    run(asked)
    with pytest.raises(ValueError, match=r"test classes of omniglot are not the training classes"):
        evaluate(tmp_path / "open", parts=name)


def test_images_can_be_shrunk(characters, tmp_path):
    half = characters.shrunk(2)
    assert half.test.images.shape == (120, 1, 4, 4)
    block = characters.test.images[3, 0, 2:4, 4:6].float().mean().round()
    assert half.test.images[3, 0, 1, 2] == block
    assert characters.shrunk(1).train is characters.train
    with pytest.raises(ValueError, match="8×8 pixels cannot be shrunk by 3"):
        characters.shrunk(3)
