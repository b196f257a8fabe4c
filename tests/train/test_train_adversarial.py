"""Adversarial training, and the final network measured under attack."""

from dataclasses import replace

import pytest
import torch
from tiny import tiny

import hypersphere as hs
from hypersphere import attacks, data
from hypersphere.config import Config
from hypersphere.evaluation import evaluate, make_attack
from hypersphere.evaluation.robustness import _training
from hypersphere.train import AdversarialConfig, EvaluationConfig, LossConfig, ModelConfig, Run, run, with_values
from hypersphere.train.build import make_parts
from hypersphere.train.distributed import team
from hypersphere.train.step import Step

HARD = AdversarialConfig(eps=40.0, step=10.0, iterations=4)


@pytest.mark.slow
def test_training_on_attacked_batches_makes_the_network_hold(tmp_path):
    found = {}
    for name, kind, also in (("natural", None, ("fgsm", "bim", "deepfool", "top5")), ("hardened", "fgsm", ("fgsm",))):
        hard = {"evaluation": EvaluationConfig(also=also), "adversarial": replace(HARD, train=kind)}
        config = tiny(tmp_path, name, 300, **hard)  # after 100 the lead is 9 to 12 points, by how a CPU rounds
        config = with_values(
            config, {"optim.lr": 1e-2, "run.eval_every": 300, "model.widths": "8,8,8", "schedule.milestones": (240,)}
        )
        found[name] = run(config)["seeds"][0]["metrics"]
    assert found["hardened"]["fgsm_accuracy"] > found["natural"]["fgsm_accuracy"] + 10
    model = hs.load(tmp_path / "natural")
    digits = data.load("digits").test
    x = (digits.images.float() - 127.5) / 128
    budget = attacks.pixels("symmetric")
    changed = attacks.fgsm(model, x, digits.labels, budget.eps(40), clip=budget.clip)
    with torch.no_grad():
        held = (model(changed).argmax(1) == digits.labels).float().mean().item()
        top = (model(x).topk(5).indices == digits.labels[:, None]).any(1).float().mean().item()
    assert found["natural"]["fgsm_accuracy"] == pytest.approx(100 * held, abs=0.01)
    assert found["natural"]["top5_accuracy"] == pytest.approx(100 * top, abs=0.01)
    assert found["natural"]["bim_accuracy"] <= found["natural"]["fgsm_accuracy"] + 3
    assert found["natural"]["deepfool_accuracy"] < 5
    assert found["natural"]["deepfool_size"] > 0
    assert found["natural"]["deepfool_l2"] > found["natural"]["deepfool_linf"] > 0


def test_attacks_made_on_another_run_transfer(tmp_path):
    short = with_values(tiny(tmp_path, "source", 30), {"optim.lr": 1e-2})
    run(short)
    config = replace(
        short,
        recipe="evaluated",
        evaluation=EvaluationConfig(also=("fgsm", "fgsm_transfer")),
        adversarial=replace(HARD, source="source"),
    )
    metrics = run(with_values(config, {"run.seeds": (1,)}))["seeds"][0]["metrics"]
    assert metrics["fgsm_transfer_accuracy"] > metrics["fgsm_accuracy"]
    for name in ("source", "source/seed-0"):  # the seed that is told of may be beside this one
        with pytest.raises(ValueError, match=r"the same training from the same seed 0.* source/seed-100$"):
            run(with_values(config, {"recipe": "itself", "adversarial.source": name}))
    run(with_values(short, {"run.seeds": (100,)}))
    run(with_values(config, {"recipe": "other", "adversarial.source": "source/seed-100"}))
    hardened = make_parts(with_values(config, {"adversarial.train": "fgsm"}), 0, team("cpu"))
    assert hardened.adversary is not None  # trained otherwise, it is another network
    with pytest.raises(ValueError, match=r"needs --adversarial.source"):
        run(with_values(config, {"recipe": "none", "adversarial.source": None}))
    run(with_values(config, {"recipe": "again", "evaluation.also": ()}))  # evaluated later, it is found by its weights
    assert evaluate(Run(tmp_path / "again"), parts=["fgsm"])["fgsm"]
    with pytest.raises(ValueError, match="has the weights of this network"):
        evaluate(Run(tmp_path / "again"), parts=["fgsm_transfer"])


def test_own_data_of_another_folder_are_other_images():
    configs = [with_values(Config(), {"data.name": "mine:Data", "data.root": root}) for root in ("/a", "/b")]
    assert _training(configs[0]) != _training(configs[1])
    known = [with_values(Config(), {"data.name": "cifar10", "data.root": root}) for root in ("/a", "/b")]
    assert _training(known[0]) == _training(known[1])


def test_attacks_increase_the_loss_that_is_named(tmp_path):
    also = EvaluationConfig(also=("fgsm",))
    both = replace(HARD, losses=("cross_entropy", "log_odds"))
    config = with_values(tiny(tmp_path, "both", 30, evaluation=also, adversarial=both), {"optim.lr": 1e-2})
    metrics = run(config)["seeds"][0]["metrics"]
    assert {"fgsm_accuracy", "fgsm_cross_entropy_accuracy"} <= set(metrics)
    # in exact arithmetic the two gradients have the same signs
    assert metrics["fgsm_cross_entropy_accuracy"] == pytest.approx(metrics["fgsm_accuracy"], abs=1.0)
    with pytest.raises(ValueError, match=r"adversarial\.losses='hinge' is unknown"):
        AdversarialConfig(losses=("hinge",))
    with pytest.raises(ValueError, match=r"adversarial\.losses is empty"):
        AdversarialConfig(losses=())


def test_with_a_head_the_attack_is_on_the_head(tmp_path):
    loss = LossConfig(name="am_softmax")
    config = tiny(tmp_path, "head", 4, loss=loss, adversarial=replace(HARD, train="bim", mixture="replace"))
    assert run(config)["seeds"][0]["train_loss"] > 0
    assert Run(tmp_path / "head").config.adversarial.train == "bim"


@pytest.mark.slow
def test_the_attacked_step_compiles(tmp_path):
    model, losses = ModelConfig(name="mlp", norm="off", extra={"hidden": (8, 8)}), []
    for switch in ("off", "on"):
        config = with_values(
            tiny(tmp_path, "step", 4, adversarial=replace(HARD, train="fgsm"), model=model),
            {"run.compile": switch},
        )
        torch.compiler.reset()
        step = Step(make_parts(config, 0, team("cpu")))
        if switch == "on":
            step._forward_at = torch.compile(step._plain_forward_at, fullgraph=True, backend="aot_eager")
        for _ in range(3):
            step()
        losses.append(step.read()["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_what_cannot_be_attacked_is_refused(tmp_path):
    nodes = type("Nodes", (), {"pixels": None})()
    with pytest.raises(ValueError, match="not images"):
        make_attack("fgsm", HARD, nodes)
    for wrong in ({"train": "fgms"}, {"eps": 0.0}, {"fraction": 1.5}, {"mixture": "half"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            AdversarialConfig(**wrong)
    with pytest.raises(ValueError, match=r"evaluation.also"):
        EvaluationConfig(also=("fast",))
