"""Recipes to the letter: a setting that the documents print is the recipe's, or a deviation that its note states.

What they do not print is ours, by a row that names the value: no setting is what it is unnoticed.
"""

import inspect
from fnmatch import fnmatchcase
from functools import cache

import pytest
import torch
from printed_cells import CELLS
from printed_settings import PRINTED
from torch import nn
from unprinted_settings import BESIDE, CORE, DEVIATIONS, UNPRINTED

from hypersphere import functional, magnitude, metrics, models, recipes
from hypersphere.config import Config, changed, with_values
from hypersphere.train.penalty import make_penalty

DOCUMENTS = [name for name in recipes.list_recipes() if name.startswith(("paper.", "thesis."))]
WORDS = [(*row, {}) for row in CELLS]
ROWS = [*PRINTED, *UNPRINTED, *WORDS]
UNLIKE = (
    "paper.table1.sigmoid0.3.a-softmax",
    "thesis.figure2.7.m4",
    "thesis.table5.10.sphereface+.lfw",
    "thesis.tableC.2.tanh.cosine",
    "thesis.table4.8.ball.fgsm.bim",
    "thesis.tableD.4.mhe+sn",
    "thesis.table6.7.rp-comhe.resnet34",
    "thesis.sectionE.8.learned",
    "thesis.table7.11.cp.cora",
)
BUILT = {}
AS_BUILT = {"model": "network", "regularizer": "penalty"}  # the group in which a setting is asked for as it is built


@cache
def config_of(name):
    return recipes.get(name)


@cache
def matched(patterns):
    every = patterns.split()
    return dict.fromkeys(name for name in DOCUMENTS if any(fnmatchcase(name, pattern) for pattern in every))


@cache
def rows_of():
    """The rows that stand for each recipe, whether their condition holds or not."""
    found = {name: [] for name in DOCUMENTS}
    for row in ROWS:
        for name in matched(row[1]):
            found[name].append(row)
    return found


def value_of(config, setting):
    """A field of the configuration, of the network with its defaults, or of its h or the regularizer as built."""
    group, field = setting.split(".")
    if setting == "optim.projects":
        return config.optim.projection_every > 0
    if group == "network":
        value = getattr(config.model, field, None) if hasattr(config.model, field) else None
        value = config.model.extra.get(field, value)
        value = models.options(config.model.name).get(field) if value is None else value
        return "none" if value == "off" else value
    if group == "magnitude":
        return getattr(magnitude.resolve(config.model.magnitude), field)
    if group == "penalty":
        return getattr(penalty(config), field, None)
    return getattr(getattr(config, group), field)


def penalty(config):
    """The regularizer on a tiny network; None without one."""
    key = repr((config.regularizer, config.orthogonal))
    if key not in BUILT:
        tiny = nn.Sequential(nn.Conv2d(16, 8, 3), nn.Flatten(), nn.Linear(8, 6))
        BUILT[key] = next(iter(make_penalty(config.regularizer, config.orthogonal, tiny, None, 0).parts), None)
    return BUILT[key]


def asked(name, row):
    """The settings that a row asks a recipe for: its own, or ours where we deviate from its section."""
    section = row[0].removeprefix("paper ")
    for setting, value in row[2].items():
        ours = [one[3] for one in DEVIATIONS if (section, setting) == (one[0], one[2]) and name in matched(one[1])]
        yield setting, ours[0] if ours else value


def holds(config, where):
    return all(value_of(config, setting) == value for setting, value in where.items())


def named(name, config, rows):
    """What rows ask a recipe for; a row counts where its condition holds."""
    found = [row for row in rows if name in matched(row[1]) and holds(config, row[3])]
    return [one for row in found for one in asked(name, row)]


def names_of(setting):
    """What a setting is called in rows: as it is given, or as it is built."""
    group, field = setting.split(".")
    return {setting, f"{AS_BUILT.get(group, group)}.{field}"}


def given(config):
    """What the settings are called that are not what they are without a word."""
    for setting, (_, value) in changed(Config(), config).items():
        group, _, field = setting.partition(".")
        if field == "extra":  # options of the network, the loss or the regularizer
            yield from ({f"{group}.extra", f"{AS_BUILT.get(group)}.{option}"} for option in value)
        elif field and setting not in BESIDE:
            yield names_of(setting)


def faults(name, config):
    """What is wrong with the settings of a recipe: they are unlike a row, or no row names what it has to."""
    rows = named(name, config, rows_of()[name])
    needed = [names_of(setting) for settings, applies in CORE if applies(config) for setting in settings.split()]
    known = {setting for setting, _ in rows}
    wrong = [(setting, value) for setting, value in rows if value_of(config, setting) != value]
    return wrong + [(*names, "is in no row") for names in (*given(config), *needed) if not names & known]


@pytest.mark.parametrize(
    "table",
    [table for name, table in recipes.tables().items() if name.startswith(("paper.", "thesis."))],
    ids=lambda table: table.name,
)
def test_every_setting_is_printed_or_named_as_ours(table):
    for name in {f"{table.name}.{cell.name}" for cell in table.cells}:
        assert not faults(name, config_of(name)), name


@pytest.mark.parametrize("row", [*PRINTED, *UNPRINTED], ids=lambda row: row[0].replace(" ", "-"))
def test_every_row_is_of_a_recipe(row):
    for pattern in row[1].split():
        assert matched(pattern), pattern
    assert any(holds(config_of(name), row[3]) for name in matched(row[1])), "no recipe is under this row"


@pytest.mark.parametrize("row", CELLS, ids=lambda row: row[0].replace(" ", "-"))
def test_every_word_of_a_table_is_of_a_recipe(row):
    assert matched(row[1]), "no recipe is under this row"


def test_what_is_printed_is_not_called_unprinted():
    for name in DOCUMENTS:
        printed, ours = (
            {setting for setting, _ in named(name, config_of(name), rows)} for rows in (PRINTED, UNPRINTED)
        )
        assert not printed & ours, name


def as_before(setting, config, other):
    """Whether a setting is built as it was, because it is now given what it is without a word."""
    built = [(value_of(config, name), value_of(other, name)) for name in names_of(setting) - {setting}]
    return any(one is not None and one == two for one, two in built)


@pytest.mark.parametrize("name", UNLIKE)
def test_a_setting_of_another_recipe_is_noticed(name):
    config, noticed = config_of(name), 0
    for other in UNLIKE:
        for setting, (_, value) in changed(config, config_of(other)).items():
            if setting in ("recipe", *BESIDE):
                continue
            try:
                mistaken = with_values(config, {setting: value})
                assert faults(name, mistaken) or as_before(setting, config, mistaken), (setting, value)
            except ValueError:  # refused
                continue
            noticed += 1
    assert noticed > 100


def test_no_two_trainings_of_a_table_can_be_exchanged_unnoticed():
    always = [row for row in ROWS if not row[3]]
    for table in recipes.tables().values():
        found = {}
        for name in {cell.training: f"{table.name}.{cell.name}" for cell in table.cells}.values():
            if name in DOCUMENTS:
                pinned = dict(named(name, config_of(name), always))
                found.setdefault(str(sorted(pinned.items())), []).append(name)
        assert all(len(names) == 1 for names in found.values()), [names for names in found.values() if len(names) > 1]


@pytest.mark.parametrize(("section", "patterns", "setting", "ours"), DEVIATIONS)
def test_deviations_are_real_and_stated(section, patterns, setting, ours):
    printed = {
        settings[setting]
        for place, rows, settings, _ in PRINTED
        if setting in settings and place.removeprefix("paper ") == section and {*matched(rows)} & {*matched(patterns)}
    }
    assert printed - {ours}, "that is what the text prints"
    for name in matched(patterns):
        assert section in recipes.find(name)[0].note, name


def test_clipped_gradients_are_stated():
    """No section prints them."""
    clipped = {recipes.find(name)[0] for name in DOCUMENTS if config_of(name).optim.clip is not None}
    assert len(clipped) > 10
    for table in clipped:
        assert "is clipped at" in table.note, table.name


def test_few_shot_classifiers_are_trained_as_f_3_prints(monkeypatch):
    """5 ways; SGD 1e-2, decay 1e-3, batches of 4, 100 epochs, c = 2: the defaults of the metric, which recipes use.

    Momentum and dampening are 0.9.
    """
    printed = {"ways": 5, "lr": 1e-2, "weight_decay": 1e-3, "batch_size": 4, "epochs": 100, "scale": 2.0}
    defaults = inspect.signature(metrics.few_shot).parameters
    assert {name: defaults[name].default for name in printed} == printed
    made = []

    class Watched(torch.optim.SGD):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            made.append(self.defaults)

    monkeypatch.setattr(torch.optim, "SGD", Watched)
    metrics.few_shot(torch.randn(60, 4), torch.arange(60) % 5, queries=4, episodes=2, epochs=1)
    assert [(one["momentum"], one["dampening"], one["weight_decay"]) for one in made] == [(0.9, 0.9, 1e-3)]


def test_learned_projections_of_e_8_take_the_step_of_a_parameter():
    """One step of SGD with the network's first rate on the penalty, which is a mean over the projections."""
    config = config_of("thesis.sectionE.8.learned")
    torch.manual_seed(0)
    tiny = nn.Sequential(nn.Linear(40, 6), nn.Linear(6, 2)).double()
    (part,) = make_penalty(config.regularizer, config.orthogonal, tiny, None, 0).parts
    basis = part.basis_40.clone().requires_grad_()
    images = functional.unit(tiny[0].weight.detach()) @ basis.mT
    functional.energy(images, half_space=True).mean().backward()
    part()
    torch.testing.assert_close(part.basis_40, basis.detach() - config.optim.lr * basis.grad)


def test_a_row_that_is_wrong_is_found():
    """The check itself can fail: a value that no recipe has."""
    config = config_of("thesis.table2.2.m4")
    assert value_of(config, "data.normalize") == "mean"
    assert value_of(config, "network.activation") == "prelu"
    assert value_of(config_of("thesis.table4.7.baseline.natural.none"), "network.norm") == "none"
    assert value_of(config_of("thesis.table5.2.mhe.16-32-64"), "penalty.hidden") == 10.0
