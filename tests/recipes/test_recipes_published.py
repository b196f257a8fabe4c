"""Published numbers beside the cells, and the documents' tables: present, or named here with what stands in the way."""

import pytest
from recipe_published import SINGLES, TABLES, published
from torch import nn

from hypersphere import recipes
from hypersphere.recipes import results
from hypersphere.runs import attach

DOCUMENTS = ("paper.", "thesis.")
# what the documents have, by the names of our tables
WANTED = [
    *(f"paper.table{i}" for i in range(1, 5)),
    *(f"paper.figure{i}" for i in ("3a", "3b", "3c", "3d", 4, 5, 6)),
    "paper.section4.3",
    "thesis.sectionD.6",
    "thesis.sectionE.8",
    *(f"thesis.table2.{i}" for i in (2, 3, 4, 5, 8, 9, 10)),
    *(f"thesis.table4.{i}" for i in range(1, 9)),
    *(f"thesis.table5.{i}" for i in range(1, 11)),
    *(f"thesis.table6.{i}" for i in range(1, 9)),
    *(f"thesis.table7.{i}" for i in range(1, 13)),
    *(f"thesis.table{i}" for i in ("A.1", "A.2", "C.2", "D.3", "D.4", "D.6", "D.7", "D.8", "E.4", "E.5", "E.6")),
    *(f"thesis.table{i}" for i in ("F.4", "F.5")),
    # pictures, curves
    *(f"thesis.figure{i}" for i in ("2.2", "2.7", "2.10", "A.1", "A.2", "A.3", "A.4", "A.5", "C.1", "C.2", "C.3")),
    *(f"thesis.figure{i}" for i in ("2.11", "4.4", "5.3", "5.4", "6.2", "7.3", "E.2", "E.3", "E.4", "E.5")),
]
# Each entry would say what its recipe needs that the training program does not have.
MISSING: dict[str, str] = {}


UNPRINTED = ".log-odds"  # attacks by another loss than the documents': measured beside theirs


def ours(table):
    cells = {cell.name: cell.published for cell in recipes.tables()[table].cells}
    assert not any(value for name, value in cells.items() if name.endswith(UNPRINTED))
    return {name: value for name, value in cells.items() if not name.endswith(UNPRINTED)}


def test_every_table_of_the_documents_is_there_or_named_as_missing():
    assert {name for name in WANTED if name not in recipes.tables()} == set(MISSING)


@pytest.mark.parametrize("table", sorted({*TABLES, *SINGLES}))
def test_the_numbers_are_those_that_are_printed(table):
    assert ours(table) == published(table)


def test_every_published_number_is_checked():
    for name in recipes.tables():
        if name.startswith(DOCUMENTS) and not {name} & {*TABLES, *SINGLES, *MISSING}:
            assert set(ours(name).values()) == {None}, name  # curves or pictures


def test_a_number_that_differs_between_tables_is_that_of_its_table():
    assert (ours("paper.table1")["original.softmax"], ours("paper.table2")["original.cnn9"]) == (90.58, 90.68)
    assert (ours("thesis.table5.1")["mhe.s2.cifar100"], ours("thesis.table5.2")["mhe.64-128-256"]) == (27.15, 26.75)
    assert (ours("thesis.table7.4")["ogd.cnn6"], ours("thesis.table7.7")["ogd.plain"]) == (33.33, 33.37)


# Tables F.4 and F.5: parameters of R in a layer of 3x3x64, in thousands, for blocks that are shared and that are not
PARAMETERS = {1: (331.7, 331.7), 2: (82.9, 165.9), 4: (20.7, 82.9), 8: (5.2, 41.5), 16: (1.3, 20.7), 32: (0.3, 10.4)}
PARAMETERS |= {64: (0.1, 5.2)}


@pytest.mark.parametrize("blocks", PARAMETERS)
def test_blocks_have_the_parameters_that_the_documents_print(blocks):
    for table, printed in zip(("thesis.tableF.4", "thesis.tableF.5"), PARAMETERS[blocks], strict=True):
        config = recipes.get(f"{table}.gs.k{blocks}")
        model = nn.Sequential(nn.Conv2d(64, 4, 3), nn.Flatten(), nn.Linear(4, 2))
        attach(config.orthogonal, model, None, 0)
        count = sum(p.numel() for name, p in model.named_parameters() if ".parametrizations." in f".{name}")
        assert count / 1000 == pytest.approx(printed, abs=0.1)  # 331.776 is printed as 331.7


def test_numbers_have_the_digits_that_are_printed(tmp_path):
    lines = results.render(recipes.tables()["thesis.table7.6"], tmp_path, ["gs.mhe", "energy.mhe"]).splitlines()
    assert {line.split()[1] for line in lines[2:4]} == {"32.99", "3.5003"}
