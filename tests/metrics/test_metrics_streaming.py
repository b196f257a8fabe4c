"""The torchmetrics: batch by batch, copied, gathered from several processes, they give what the functions give."""

import copy
import importlib
import multiprocessing
import pickle
import sys

import pytest
import torch
from sklearn.metrics import roc_auc_score

from hypersphere.metrics import retrieval, verification
from sharing import Later

streaming, torchmetrics = Later("hypersphere.metrics.streaming"), Later("torchmetrics")


def scored(count=600):
    same = torch.rand(count) < 0.5
    return (0.3 * torch.randn(count) + 0.4 * same).clamp(-1, 1), same


def test_verification_batch_by_batch():
    scores, same = scored()
    metric = streaming.Verification(far=(0.1, 0.01))
    for part, kinds in zip(scores.split(64), same.split(64), strict=True):
        metric.update(part, kinds)
    found, expected = metric.compute(), verification(scores, same)
    assert found.keys() == {"accuracy", "std", "auc", "eer", "tar@0.1", "tar@0.01"}
    assert found["accuracy"].item() == pytest.approx(expected.accuracy)
    assert found["std"].item() == pytest.approx(expected.std, rel=1e-5)
    assert found["auc"].item() == pytest.approx(expected.auc)
    assert found["tar@0.01"].item() == pytest.approx(expected.tar_at(0.01))
    metric.reset()
    fold = torch.arange(600) % 3
    for part, kinds, numbers in zip(scores.split(64), same.split(64), fold.split(64), strict=True):
        metric.update(part, kinds, numbers)
    assert metric.compute()["accuracy"].item() == pytest.approx(verification(scores, same, fold).accuracy)
    with pytest.raises(ValueError, match="always or never"):
        metric.update(scores, same)
    metric.reset()
    metric.update(scores.tolist(), same.numpy())  # arrays and lists, as everywhere in metrics
    assert metric.compute()["auc"].item() == pytest.approx(expected.auc)
    metric.update(scores, 2 * same)
    with pytest.raises(ValueError, match="other than 0 and 1"):
        metric.compute()


def test_no_sigmoid_on_raw_cosines():
    """A batch of cosines in [0, 1], then one with negative ones: torchmetrics squashes the second alone."""
    scores = torch.tensor([0.1, 0.2, 0.35, 0.9, -0.3, -0.2, 0.5, 0.6])
    same = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])
    theirs, ours = torchmetrics.classification.BinaryAUROC(), streaming.Verification(folds=2)
    for part in (slice(0, 4), slice(4, 8)):
        theirs.update(scores[part], same[part])
        ours.update(scores[part], same[part])
    assert roc_auc_score(same, scores) == 1
    assert ours.compute()["auc"] == 1
    assert theirs.compute() < 1  # σ(−0.2) = 0.45 of a different pair passes the raw 0.35 of a same pair
    mixed = torch.cat([scores[:4], scores[4:].sigmoid()])
    assert theirs.compute().item() == pytest.approx(roc_auc_score(same, mixed))


def test_retrieval_batch_by_batch():
    x, labels = torch.randn(90, 8), torch.arange(90) % 7
    metric = streaming.Retrieval(ks=(1, 3))
    for part, own in zip(x.split(20), labels.split(20), strict=True):
        metric.update(part, own)
    found, expected = metric.compute(), retrieval(x, labels)
    assert found.keys() == {"map", "map@r", "r_precision", "recall@1", "recall@3"}
    assert found["map"].item() == pytest.approx(expected.map, rel=1e-5)
    assert found["recall@3"].item() == pytest.approx(expected.recall_at(3))


def test_copies_carry_what_was_seen():
    scores, same = scored()
    metric = streaming.Verification()
    metric.update(scores, same)
    for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        assert twin.compute()["auc"] == metric.compute()["auc"]


def gather_half(rank, meeting, scores, same, fold, send):
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    metric = streaming.Verification()
    for part in range(rank, 10, 2):
        rows = slice(60 * part, 60 * part + 60)
        metric.update(scores[rows], same[rows], fold[rows])
    send.put(metric.compute()["accuracy"].item())
    torch.distributed.destroy_process_group()


def test_gathered_over_processes(tmp_path):
    """Two processes with half the pairs each; fold numbers make the order irrelevant."""
    scores, same = scored()
    fold = torch.arange(600) % 5
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    given = (tmp_path / "meeting", scores, same, fold, queue)
    processes = [context.Process(target=gather_half, args=(rank, *given)) for rank in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert [queue.get(), queue.get()] == pytest.approx([verification(scores, same, fold).accuracy] * 2)


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "hypersphere.metrics.streaming", raising=False)
    with pytest.raises(ImportError, match=r"hypersphere\[metrics\]"):
        importlib.import_module("hypersphere.metrics.streaming")
