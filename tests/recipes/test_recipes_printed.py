"""Recipes to the letter: a setting that the documents print is the recipe's, or a deviation that its note states."""

import inspect
from fnmatch import fnmatchcase
from functools import cache

import pytest
import torch
from printed_cells import CELLS
from printed_settings import CORE, DEVIATIONS, PRINTED, UNPRINTED
from torch import nn

from hypersphere import functional, magnitude, metrics, models, recipes
from hypersphere.train.penalty import make_penalty

DOCUMENTS = [name for name in recipes.list_recipes() if name.startswith(("paper.", "thesis."))]


@cache
def config_of(name):
    return recipes.get(name)


@cache
def matched(patterns):
    return [name for name in DOCUMENTS if any(fnmatchcase(name, pattern) for pattern in patterns.split())]


def value_of(config, setting):
    """A field of the configuration, of the network with its defaults, or of its h or the regularizer as built."""
    group, field = setting.split(".")
    if setting == "optim.projects":
        return config.optim.projection_every > 0
    if group == "network":
        value = getattr(config.model, field, None) if hasattr(config.model, field) else None
        value = config.model.extra.get(field, value)
        value = models.options(config.model.name)[field] if value is None else value
        return "none" if value == "off" else value
    if group == "magnitude":
        return getattr(magnitude.resolve(config.model.magnitude), field)
    if group == "penalty":
        tiny = nn.Sequential(nn.Conv2d(16, 8, 3), nn.Flatten(), nn.Linear(8, 6))
        (part,) = make_penalty(config.regularizer, config.orthogonal, tiny, None, 0).parts
        return getattr(part, field)
    return getattr(getattr(config, group), field)


def deviation(name, setting):
    found = [row for row in DEVIATIONS if setting == row[2] and name in matched(row[1])]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize("row", range(len(PRINTED)), ids=lambda row: f"{PRINTED[row][0]}-{row}".replace(" ", "-"))
def test_recipes_have_the_settings_that_the_documents_print(row):
    section, patterns, settings, where = PRINTED[row]
    seen = 0
    for pattern in patterns.split():
        assert matched(pattern), pattern
    for name in matched(patterns):
        config = config_of(name)
        if any(value_of(config, setting) != value for setting, value in where.items()):
            continue
        seen += 1
        for setting, printed in settings.items():
            other = deviation(name, setting)
            assert value_of(config, setting) == (printed if other is None else other[3]), (name, setting, section)
    assert seen, "no recipe is under this row"


@pytest.mark.parametrize("row", range(len(CELLS)), ids=lambda row: f"{CELLS[row][0]}-{row}".replace(" ", "-"))
def test_recipes_have_the_settings_that_their_cells_name(row):
    word, patterns, settings = CELLS[row]
    assert matched(patterns), "no recipe is under this row"
    for name in matched(patterns):
        for setting, named in settings.items():
            assert value_of(config_of(name), setting) == named, (name, setting, word)


def test_no_two_trainings_of_a_table_can_be_exchanged_unnoticed():
    always = [row[1:3] for row in PRINTED if not row[3]] + [row[1:] for row in CELLS]
    for table in recipes.tables().values():
        found = {}
        for name in {cell.training: f"{table.name}.{cell.name}" for cell in table.cells}.values():
            if name in DOCUMENTS:
                pinned = {
                    key: value for patterns, row in always if name in matched(patterns) for key, value in row.items()
                }
                ours = {key: other[3] for key in pinned if (other := deviation(name, key)) is not None}
                found.setdefault(str(sorted((pinned | ours).items())), []).append(name)
        assert all(len(names) == 1 for names in found.values()), [names for names in found.values() if len(names) > 1]


@pytest.mark.parametrize(("section", "patterns", "setting", "ours"), DEVIATIONS)
def test_deviations_are_real_and_stated(section, patterns, setting, ours):
    printed = {
        settings[setting]
        for _, rows, settings, _ in PRINTED
        if setting in settings and set(matched(rows)) & set(matched(patterns))
    }
    assert printed - {ours}, "that is what the text prints"
    for name in matched(patterns):
        assert section in recipes.find(name)[0].note, name


def test_what_every_recipe_needs_is_printed_or_its_source_is_named():
    for setting in CORE:
        printed = set()
        for _, patterns, settings, where in PRINTED:
            for name in matched(patterns) if setting in settings else ():
                if all(value_of(config_of(name), one) == value for one, value in where.items()):
                    printed.add(name)
        named = {name for patterns, one, _ in UNPRINTED for name in matched(patterns) if one == setting}
        missing = [name for name in DOCUMENTS if name not in printed | named]
        assert not missing, (setting, missing[:5])


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
