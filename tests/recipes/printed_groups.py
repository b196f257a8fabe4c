"""Groups of recipes that are trained alike, as patterns, and settings that several rows have."""

from typing import Any

Row = tuple[str, str, dict[str, Any], dict[str, Any]]

CIFAR_CNNS_D = "thesis.table5.[1-57].* thesis.figure5.3.* thesis.tableD.[36].*"
CIFAR_CNNS_E = "thesis.table6.[1-6].* thesis.figure6.2.* thesis.tableE.4.* thesis.sectionE.8.*"
CIFAR_CNNS_F = "thesis.table7.[1245678].* thesis.figure7.3.* thesis.tableF.[45].*"
DRAWN_R = CIFAR_CNNS_F + " thesis.table7.9.* thesis.table7.12.*"
CIFAR_CNNS_E2 = "thesis.figureE.[2-5].*"
DECOUPLED = "thesis.table4.[1-5].* thesis.figure4.4.*"
ATTACKED = "thesis.table4.[78].* thesis.figureC.1.*"
DECOUPLED_CIFAR = f"{DECOUPLED} {ATTACKED} thesis.tableC.2.*"
PROJECTED = "thesis.table4.[34].* thesis.figure4.4.* thesis.table4.6.*.standard thesis.tableC.2.*"
FACES = "thesis.table2.[89].* thesis.table2.10.* thesis.figure2.11.* thesis.tableA.[12].*"
CASIA_PLUS = "thesis.table5.[89].* thesis.table5.10.* thesis.tableD.7.* thesis.sectionD.6.*"
FACES_PLUS = CASIA_PLUS + " thesis.tableD.8.*"
IMAGENET = "thesis.table4.6.* thesis.table5.6.* thesis.table6.7.* thesis.table7.9.* paper.figure6.*"
PAPER_ABLATIONS = "paper.table[123].* paper.figure3?.* paper.figure5.*"
PAPER_NETS = "paper.table[1-4].* paper.figure3[acd].* paper.figure4.* paper.section4.3.* paper.figure6.*"
PAPER_NORMS = "paper.figure5.*.sphere* paper.figure5.*.both"
PAPER_CIFAR = "paper.table[1-4].* paper.figure3?.* paper.figure4.* paper.section4.3.*"
ADAM_CIFAR = f"{PAPER_CIFAR} paper.figure5.* {DECOUPLED_CIFAR}"
L_SOFTMAX = "thesis.table2.[2-5].* thesis.figure2.2.*"
SGD = {"optim.name": "sgd", "optim.momentum": 0.9}
LEARNED_RADIUS = {"magnitude.learnable": True, "magnitude.running": True}
KIPF = {
    "network.hidden": 16,
    "network.dropout": 0.5,
    "optim.weight_decay": 5e-4,
    "optim.undecayed": ("*classifier.weight",),
}
MHE = ("mhe", "comhe")
TRAINED_ANEW: dict[str, Any] = {"model.start": None}
# SphereFace+, with {} for what follows the sphereface of its name
PLUS = ("table5.10.{}", *(f"table{table}.{{}}.m{m}" for table in ("5.8", "5.9", "D.7") for m in (1, 2, 3, 4)))
PLUS += tuple(f"tableD.8.{{}}.{dataset}" for dataset in ("imdb_face", "ms_celeb", "casia"))
BEYOND_THE_END = ()  # "every 200k iterations" of trainings that have fewer
