"""The settings of every cell: they survive JSON, make a network, and say what the protocols of the documents say."""

import functools
import importlib
import json
import pkgutil
import re
from dataclasses import replace

import pytest
import torch

from hypersphere import recipes
from hypersphere.config import changed, check_used
from hypersphere.runs import Facts
from hypersphere.runs.model import make_head, make_model
from hypersphere.train import Config, from_dict, to_dict, with_values
from hypersphere.train.build import make_objective
from hypersphere.train.optimizer import make_optimizers, make_projection
from hypersphere.train.penalty import make_penalty

FACTS = {
    "cifar10": Facts(10, 3, (32, 32)),
    "cifar100": Facts(100, 3, (32, 32)),
    "mnist": Facts(10, 1, (28, 28)),
    "imagenet": Facts(1000, 3, (224, 224)),
    "digits": Facts(10, 1, (8, 8)),
    "cora": Facts(7, in_features=1433),
    "citeseer": Facts(6, in_features=3703),
    "pubmed": Facts(3, in_features=500),
    "modelnet40": Facts(40),
    "lfw": Facts(4038, 3, (112, 96)),
    "omniglot": Facts(964, 1, (35, 35)),
    "casia": Facts(10575, 3, (112, 96)),
    "imdb_face": Facts(56000, 3, (112, 96)),
    "ms_celeb": Facts(96000, 3, (112, 96)),
    "miniimagenet": Facts(64, 3, (84, 84)),
    "folder": Facts(50, 3, (112, 112)),
}
built: set[str] = set()
POWER_METHOD = "torch.nn.utils.parametrizations._SpectralNorm._power_method"


@functools.cache
def configs(name):
    """The cells of a table with their settings."""
    return [(cell, cell.config(name)) for cell in recipes.tables()[name].cells]


@pytest.mark.parametrize("name", list(recipes.tables()))
def test_every_recipe_survives_json_and_uses_its_settings(name):
    table = recipes.tables()[name]
    assert len({cell.name for cell in table.cells}) == len(table.cells)
    for cell, config in configs(name):
        again = from_dict(Config, json.loads(json.dumps(to_dict(config))))
        assert again == config
        assert recipes.get(f"{name}.{cell.name}") == config
        check_used(config, [setting for setting in changed(Config(), config) if "." in setting])
        assert cell.published is None or 0 < cell.published < 100


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Weights on the meta device have no values; drawing them would take most of the time."""
    for name in ("normal_", "uniform_"):
        monkeypatch.setattr(torch.Tensor, name, lambda self, *args, **options: self)
    monkeypatch.setattr(POWER_METHOD, lambda self, weight, steps: None)


@pytest.fixture
def drawn_quickly(monkeypatch):
    """Of weights with many numbers a few thousand are drawn, and repeated: a prime number, so that rows differ."""

    def repeating(genuine):
        def draw(self, *args, **options):
            if self.numel() < 20_000:
                return genuine(self, *args, **options)
            few = genuine(self.new_empty(9973), *args, **options)
            with torch.no_grad():
                return self.copy_(few.repeat(-(-self.numel() // 9973))[: self.numel()].view(self.shape))

        return draw

    for name in ("normal_", "uniform_"):
        monkeypatch.setattr(torch.Tensor, name, repeating(getattr(torch.Tensor, name)))


@pytest.mark.usefixtures("nothing_drawn")
@pytest.mark.parametrize("name", list(recipes.tables()))
def test_every_cell_makes_its_network(name):
    """On the meta device, each network once; what is to be projected has something to project."""
    for _, config in configs(name):
        classifier = config.loss.name == "cross_entropy"
        key = json.dumps([to_dict(config.model), config.data.name, classifier, config.optim.projection_every])
        if key in built:
            continue
        built.add(key)
        with torch.device("meta"):
            network = make_model(config.model, FACTS[config.data.name], classifier)
            make_projection(config.optim, network)
        assert sum(p.numel() for p in network.parameters()) > 100


def small(facts):
    """Fewer classes and pixels: to draw a hundred thousand class vectors takes seconds."""
    size = facts.image_size and tuple(min(side, 64) for side in facts.image_size)
    return replace(facts, num_classes=min(facts.num_classes, 200), image_size=size)


@pytest.mark.usefixtures("drawn_quickly")
@pytest.mark.parametrize("name", list(recipes.tables()))
def test_a_cell_of_every_table_can_be_trained(name):
    """The last one: loss, penalty, orthogonal matrices, optimizer and projection fit together."""
    _, config = configs(name)[-1]
    facts = small(FACTS[config.data.name])
    if config.model.widths == "320,640,1280":  # a hundred million numbers: a narrower one will do
        config = with_values(config, {"model.widths": "32,64,128"})
    if config.model.name.startswith(("sphere_resnet18", "resnet18_modified")):
        config = with_values(config, {"model.widths": "16,32,48,64"})
    config = with_values(config, {"orthogonal.refine_steps": min(config.orthogonal.refine_steps, 10)})
    objective = make_objective(config, facts, 0)
    make_penalty(config.regularizer, config.orthogonal, objective.model, objective.head, 0)
    make_optimizers(config.optim, objective, [1.0], torch.device("cpu"))
    make_projection(config.optim, objective.model)
    assert sum(p.numel() for p in objective.parameters()) > 100


def test_names_of_tables_and_cells_are_unique():
    names = recipes.list_recipes()
    assert len(set(names)) == len(names)
    assert all(" " not in name for name in names)
    assert sum(len(module.TABLES) for module in modules()) == len(recipes.tables())


def test_cells_that_share_a_training_share_its_settings():
    for name, table in recipes.tables().items():
        for training in {cell.training for cell in table.cells}:
            found = [config for cell, config in configs(name) if cell.training == training]
            assert all(config == found[0] for config in found), (name, training)


def test_what_a_cell_compares_is_measured():
    for name in recipes.tables():
        for cell, config in configs(name):
            asked = config.evaluation
            known = ("accuracy", "seconds_per_100_steps", "initial_energy", asked.protocol, *asked.also)
            known += ("class_",) if "classes" in asked.also else ()
            scores = ("inception_score", "classifier_score", "real_classifier_score")
            known += scores if asked.protocol == "generation" else ()
            assert cell.measure.startswith(known), (name, cell.name)
            if cell.measure.startswith("few_shot"):
                assert asked.protocol == "few_shot"
                assert int(cell.measure.split("_")[2]) in asked.shots, (name, cell.name)


def test_a_table_is_in_the_file_of_its_chapter():
    """``thesis.table5.1`` is in ``thesis5.py``, ``thesis.tableD.3`` in ``appendices.py``, ``open.lfw`` in its own."""
    for module in modules():
        file = module.__name__.rpartition(".")[2]
        for table in module.TABLES:
            assert table.title
            assert table.metric
            chapter = re.match(r"thesis\.(?:table|figure|section)(\w)\.", table.name)
            files = {"paper": "paper", "open": "open_sets", "digits": "digits", "released": "released"}
            files |= dict.fromkeys(("faces", "products", "few_shot", "classify"), "own")
            wanted = files.get(table.name.split(".")[0])
            if chapter:
                late = "_ef" if chapter[1] in "EF" else ""
                wanted = f"thesis{chapter[1]}" if chapter[1].isdigit() else f"appendices{late}"
            assert file == wanted, table.name


def test_spherenets_of_the_paper_project_their_weights():
    for name in recipes.list_recipes("paper.table[1234].*"):
        config = recipes.get(name)
        spherical = config.model.conv == "sphere"
        assert config.optim.projection_every == (100 if spherical else 0), name
        assert (config.optim.name, config.optim.lr, config.data.batch_size) == ("adam", 1e-3, 128)
        assert (config.schedule.steps, config.schedule.milestones) == (64000, (34000, 54000))


def protocol(name):
    config = recipes.get(name)
    optim, schedule = config.optim, config.schedule
    return config.data.batch_size, optim.name, optim.lr, optim.weight_decay, schedule.steps, schedule.milestones


def test_the_protocols_are_those_of_the_appendices():
    cifar = (128, "sgd", 0.1, 1e-4, 42500, (20000, 30000, 37500))
    assert protocol("thesis.table5.1.mhe.s2.cifar10") == protocol("thesis.table6.1.ap-comhe") == cifar  # D.1, E.1
    assert protocol("thesis.table7.4.gs.cnn6") == (128, "sgd", 0.1, 5e-4, 42500, (20000, 30000, 37500))  # F.3
    assert protocol("thesis.table5.6.mhe.resnet18") == (64, "sgd", 0.1, 1e-4, 500_000, (150_000, 300_000, 400_000))
    assert protocol("paper.figure6.resnet18.top1") == (40, "sgd", 0.1, 1e-4, 550_000, (200_000, 375_000))  # paper B
    assert protocol("thesis.table7.9.cp.top5")[:5] == (128, "sgd", 0.1, 5e-4, 700_000)  # F.3
    assert protocol("thesis.table2.2.m4") == (256, "sgd", 0.1, 5e-4, 18000, (12000, 15000))  # 2.2.7
    assert protocol("thesis.table7.10.baseline++.opt") == (16, "adam", 1e-3, 5e-4, 200 * 2400, ())  # F.3
    assert protocol("thesis.table7.3.gs.xavier") == (100, "sgd", 0.01, 0.0, 100 * 600, ())  # F.3
    assert protocol("thesis.table6.8.mhe.pointnet")[:5] == (32, "adam", 1e-3, 0.0, 250 * (9843 // 32))  # E.1
    assert protocol("thesis.table6.8.mhe.pointnet2")[:5] == (16, "adam", 1e-3, 0.0, 251 * (9843 // 16))


def test_orthogonal_descent_is_for_r_only():
    """F.3: the original optimizer trains the other variables."""
    seen = 0
    for name in recipes.list_recipes("thesis.*.ogd*"):
        config, seen = recipes.get(name), seen + 1
        assert config.orthogonal.method == "gradient", name
        assert config.optim.name == ("adam" if ".table7.11." in name else "sgd"), name
        assert config.optim.manifold_lr == (0.01 if ".table7.3." in name else 0.02), name
        stated = re.search(r"R of `?ogd`? has (the rate )?0\.02", recipes.find(name)[0].note)
        assert config.optim.manifold_lr == config.optim.lr or stated, name
    assert seen == 23
    assert protocol("thesis.table7.11.ogd.cora") == protocol("thesis.table7.11.baseline.cora")
    assert protocol("thesis.table7.4.ogd.cnn9") == protocol("thesis.table7.4.baseline.cnn9")


def test_weights_whose_lengths_count_decay():
    for name in recipes.list_recipes("thesis.table4.1.*"):
        config = recipes.get(name)
        objective = make_objective(with_values(config, {"model.widths": "4,4,4"}), FACTS["cifar100"], 0)
        groups = make_optimizers(config.optim, objective, [1.0], torch.device("cpu")).parts[0].param_groups
        first = next(objective.model.parameters())
        (decay,) = {g["weight_decay"] for g in groups if any(p is first for p in g["params"])}
        assert decay == (5e-4 if config.model.weighted else 0.0), name
    assert "decay like the baseline's" in recipes.tables()["thesis.table4.1"].note


def test_graph_networks_decay_their_first_layer_alone():
    """Kipf and Welling's code, which 7.5.4 and E.10 follow; OrthogonalSGD keeps the length of R, so nothing decays."""
    for name in recipes.list_recipes("thesis.tableE.6.*") + recipes.list_recipes("thesis.table7.11.*"):
        config = recipes.get(name)
        objective = make_objective(config, replace(FACTS[config.data.name], in_features=40), 0)
        names = {id(parameter): name for name, parameter in objective.named_parameters()}
        groups = [
            g
            for part in make_optimizers(config.optim, objective, [1.0], torch.device("cpu")).parts
            for g in part.param_groups
        ]
        assert sum(len(group["params"]) for group in groups) == 2, name
        decayed = [names[id(p)] for group in groups if group["weight_decay"] for p in group["params"]]
        assert [layer.startswith("model.layers.0.") for layer in decayed] == [True] * (".ogd." not in name), name


def test_what_chapter_6_regularizes():
    for name in recipes.list_recipes("thesis.tableE.6.*"):
        part = recipes.get(name).regularizer
        assert part.name == "none" or part.output == 0.0, name  # E.10: W0 only
    for name in ("thesis.table6.1.ap-comhe-alter", "thesis.table6.2.ap-comhe-alter.dim20"):
        assert recipes.get(name).regularizer.extra == {"inner_every": 10}  # 6.6.1
    for name in recipes.list_recipes("thesis.table6.8.*"):
        weight = 0.032 if name.endswith(".pointnet_tnet") else 0.0  # 0.001 times the sum over 32 clouds
        assert recipes.get(name).regularizer.transform == weight, name


def test_cnns_without_normalisation_are_clipped():
    for name in ("thesis.table7.5.baseline", "thesis.table7.5.gs", "thesis.figureE.4.hs-mhe"):
        assert recipes.get(name).optim.clip == 1.0, name
    assert recipes.get("thesis.table7.4.baseline.cnn6").optim.clip is None


def test_powers_of_the_energy():
    assert recipes.get("thesis.table6.1.hs-mhe").regularizer.s == 2.0
    assert recipes.get("thesis.table6.8.rp-comhe.pointnet").regularizer.s == 1.0  # E.1
    assert recipes.get("thesis.figureE.2.ap-comhe").regularizer.s == 1.0  # E.2


def test_gans_regularize_the_discriminator():
    assert protocol("thesis.tableD.4.mhe") == (64, "adam", 2e-4, 0.0, 100_000, ())
    both, sn, plain = (recipes.get(f"thesis.tableD.4.{name}") for name in ("mhe+sn", "sn", "mhe"))
    assert both.regularizer == plain.regularizer
    assert (both.regularizer.name, both.regularizer.half_space, both.regularizer.distance) == ("mhe", True, "euclidean")
    assert sn.regularizer.name == "none"
    assert both.model == sn.model != plain.model
    for config in (both, sn, plain):
        network = make_objective(config, FACTS["cifar10"], 0).model
        assert hasattr(network.body[0].op, "parametrizations") == (config is not plain)


def modules():
    """Every file of tables, whether the registry knows it or not."""
    found = pkgutil.walk_packages(recipes.__path__, "hypersphere.recipes.")
    return [m for m in (importlib.import_module(info.name) for info in found) if hasattr(m, "TABLES")]


def test_faces_are_trained_as_sphereface_says():
    """Thesis 2.3.6 and D.1."""
    for name in recipes.list_recipes("thesis.table[2A].*"):
        config = recipes.get(name)
        if config.data.name != "casia" or ".table2.5." in name:
            continue
        assert protocol(name) == (128, "sgd", 0.1, 5e-4, 28_000, (16_000, 24_000)), name
        assert (config.evaluation.data, config.evaluation.flip, config.data.hflip) == ("lfw", True, True)
        assert config.data.normalize == "symmetric"
    assert protocol("thesis.table2.5.m4")[:5] == (256, "sgd", 0.1, 5e-4, 57_600)  # 2.2.7: 30 epochs of 490k
    assert recipes.get("thesis.table2.8.m1.lfw").loss.margin == 1
    assert recipes.get("thesis.tableA.2.sphereface36.tar").model.name == "sphereface36"


def test_sphereface_plus_starts_from_its_sphereface():
    tables = [recipes.tables()[f"thesis.table{number}"] for number in ("5.8", "5.9", "5.10", "D.7", "D.8")]
    for table in tables:
        trained = set()
        for cell in table.cells:
            config = cell.config(table.name)
            plus = cell.name.startswith("sphereface+")
            assert config.loss.energy == (1.0 if plus else 0.0)
            assert config.model.start is None or config.model.start in trained  # it comes first
            assert plus == (config.model.start is not None)
            trained.add(config.recipe)


def test_what_faces_are_evaluated_on_is_measured():
    for name in recipes.list_recipes("thesis.table*"):
        table, index = recipes.find(name)
        cell = table.cells[index]
        config = cell.config(table.name)
        if config.data.name in ("casia", "imdb_face", "ms_celeb") and cell.measure != "accuracy":
            assert cell.measure.partition("_")[0] in config.evaluation.also, name


def test_the_network_of_table_a1_keeps_its_last_relu():
    with torch.device("meta"):
        kept, removed = (
            make_model(recipes.get(f"thesis.tableA.1.{name}.lfw").model, FACTS["casia"], False) for name in "AB"
        )
        first, second = (
            make_model(recipes.get(f"thesis.figureA.1.{name}").model, FACTS["mnist"], False)
            for name in ("relu", "no-relu")
        )
    last = [isinstance(network.body[-1], torch.nn.ReLU) for network in (kept, removed, first, second)]
    assert last == [True, False, True, False]
    assert (recipes.get("thesis.tableA.1.B.lfw").loss.bias, recipes.get("thesis.tableA.1.C.lfw").loss.bias) == (1, 0)


def test_cosineface_does_not_normalise_features():
    """D.1: the target's logit is ‖x‖(cos θ − m), the others' ‖x‖cos θ."""
    config = recipes.get("thesis.table5.10.cosineface.lfw")
    torch.manual_seed(0)
    head = make_head(config.loss, 6, 5).double()
    x, labels = torch.randn(4, 6, dtype=torch.float64), torch.tensor([0, 3, 1, 4])
    logits = x @ torch.nn.functional.normalize(head.weight, dim=1).T
    logits[torch.arange(4), labels] -= 0.35 * x.norm(dim=1)
    torch.testing.assert_close(head(x, labels), torch.nn.functional.cross_entropy(logits, labels))


def test_the_modified_resnet_starts_like_sphereface():
    """C.1.1: Xavier, but residual branches normal with deviation 0.01."""
    config = with_values(recipes.get("thesis.table4.6.baseline.modified"), {"model.widths": "16,32,48,64"})
    network = make_model(config.model, FACTS["imagenet"], True)
    convs = {name: m.weight for name, m in network.named_modules() if isinstance(m, torch.nn.Conv2d)}
    branches = [weight for name, weight in convs.items() if ".branch." in name]
    assert len(branches) == 12
    for weight in branches:
        assert weight.std().item() == pytest.approx(0.01, rel=0.1)
    for weight in (weight for name, weight in convs.items() if ".branch." not in name):
        spread = (2 / (weight[0].numel() + weight[:, 0].numel())) ** 0.5
        assert weight.std().item() == pytest.approx(spread, rel=0.1)


def test_columns_of_table_7_3_are_different_neurons():
    drawn = []
    for init in ("normal", "xavier"):
        config = recipes.get(f"thesis.table7.3.gs.{init}")
        network = make_objective(config, FACTS["mnist"], 0).model
        layer = next(m for m in network.modules() if hasattr(m, "parametrizations"))
        drawn.append(layer.parametrizations.weight.original.std().item())
    assert drawn == [pytest.approx(1.0, rel=0.05), pytest.approx((2 / (784 + 256)) ** 0.5, rel=0.05)]
