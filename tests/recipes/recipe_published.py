"""The tables as the documents print them, row by row: what the recipes' numbers are checked against.

The first line of a table names its columns, the first word of a line its row; ``N/C`` is "not converged", ``-`` and
``N/A`` no entry.
"""

from published_appendices import APPENDICES
from published_early import EARLY
from published_late import LATE

TABLES = EARLY | LATE | APPENDICES

# numbers that stand for several columns or for none
SINGLES: dict[str, dict[str, float | None]] = {
    "paper.section4.3": {"sigmoid0.3": 91.22, "learnable": 91.64},
    "thesis.sectionE.8": {"learned": 26.5, "shared": 24.6, "independent": 26.05},
    "thesis.sectionD.6": {"am-softmax": 99.26, "am-softmax+mhe": 99.37},
    "thesis.figure2.11": {  # of the text; the figure has no numbers
        **{f"{m}.{d}.{c}": None for m in ("m4", "softmax") for d in (10, 20, 36) for c in ("lfw", "ytf")},
        "m4.4.lfw": 98.20,
        "m4.64.lfw": 99.42,
        "m4.4.ytf": 93.4,
        "m4.64.ytf": 95.0,
        "softmax.4.lfw": 96.60,
        "softmax.64.lfw": 97.75,
        "softmax.4.ytf": 91.1,
        "softmax.64.ytf": 93.1,
    },
    "paper.figure4": {"learnable": 91.64},
    "thesis.table4.2": {"baseline": 35.30},
    "thesis.table4.3": {"baseline.no-relu": 58.24, "baseline.relu": 26.01},
    "thesis.table4.4": {"baseline": 26.69},
    "thesis.table4.8": {"source": None},  # what the attacks are made on
    "thesis.tableC.2": {"baseline": 21.55},
    "thesis.table5.1": {"baseline.cifar10": 7.75, "baseline.cifar100": 28.13},
    "thesis.table5.4": {"baseline": 28.13},
    "thesis.tableD.3": {
        "orthonormal.cifar10": 6.13,
        "orthonormal.cifar100": 27.95,
        "baseline.cifar10": 6.37,
        "baseline.cifar100": 28.10,
    },
    "thesis.tableF.4": {"baseline": 37.59, "fixed": 73.81},
    "thesis.tableF.5": {"baseline": 37.59, "fixed": 73.81},
    "thesis.figure4.4": {  # of Table 4.4
        "baseline": 26.69,
        "sphere": 21.44,
        "ball": 21.12,
        "tanh": 21.17,
        "linear": 22.17,
        "segment": 20.91,
        "log": 21.08,
        "mix": 21.28,
    },
    "thesis.figure5.4": {"baseline": 88.5, "mhe": 98.0},
    "thesis.figure6.2": {  # of Table 6.1
        "baseline": 28.03,
        "orthogonal": 27.01,
        "hs-mhe": 25.96,
        "rp-comhe": 24.39,
        "ap-comhe": 24.33,
    },
    "thesis.figure7.3": {"baseline": 37.59, "hs-mhe": 34.97, "gs": 33.02, "cp": 33.53, "or": 34.70},  # of Table 7.4
}


def published(table: str) -> dict[str, float | None]:
    """What the documents print for each cell of a table, by the cell's name; None where it did not converge."""
    found: dict[str, float | None] = dict(SINGLES.get(table, {}))
    name, text = TABLES.get(table, ("", ""))
    lines = [line.split() for line in text.strip().splitlines()]
    for row, *values in lines[1:]:
        for column, value in zip(lines[0][1:], values, strict=True):
            if value not in ("-", "N/A"):
                found[name.format(row=row, column=column)] = None if value == "N/C" else float(value)
    return found
