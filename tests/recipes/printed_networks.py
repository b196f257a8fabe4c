"""The networks that the documents print: rows (section, recipes, network, its filters), as in ``printed_settings``.

The filters are a set of widths, which ``tests/models/model_tables.py`` compares with the tables, or numbers.
"""

_WIDTHS = ("16-32-64", "32-64-128", "128-256-512", "256-512-1024")
_D1 = "thesis.table5.[147].* thesis.figure5.3.* thesis.tableD.[36].*"
_E1 = "thesis.table6.[123].* thesis.figure6.2.* thesis.tableE.[45].* thesis.sectionE.8.*"

NETWORKS: list[tuple[str, str, str, str | tuple[int, ...]]] = [
    # paper A, Tables 5 and 6; thesis Tables B.1 and B.2
    ("paper A", "paper.table1.* paper.figure3b.* paper.figure[45].* paper.section4.3.*", "cnn9", "paper"),
    *(
        ("paper A", f"paper.table2.*.{name}", name, "paper")
        for name in ("cnn3", "cnn9", "cnn18", "cnn45", "cnn60", "resnet32")
    ),
    ("paper A", "paper.table3.*", "cnn18", "paper"),
    ("paper A", "paper.figure3a.*", "resnet32", "paper"),
    ("paper A", "paper.figure3d.*", "cnn69", "paper"),
    ("paper A", "paper.table4.*", "resnet32", "paper_wide"),
    ("paper A", "paper.figure6.resnet18.*", "resnet18", "wide"),
    ("paper A", "paper.figure6.*_v1.*", "sphere_resnet18_v1", "wide"),
    ("paper A", "paper.figure6.*_v2.*", "sphere_resnet18_v2", "wide"),
    ("paper 4.2", "paper.figure3c.*.16-32-48", "cnn9", "16,32,48"),
    # Table C.1
    ("C.1.1", "thesis.table4.[23].*", "cnn9", "c1"),
    ("C.1.1", "thesis.table4.[78].* thesis.figureC.1.*", "cnn9", "c1_adversarial"),
    ("C.1.1", "thesis.table4.[45].* thesis.figure4.4.* thesis.tableC.2.*", "resnet32", "paper_wide"),
    ("C.1.1", "thesis.table4.6.*.standard", "resnet18", "standard"),
    ("C.1.1", "thesis.table4.6.*.modified*", "resnet18_modified", (128, 256, 512, 1024)),
    # Tables D.1 and D.2
    ("D.1", _D1, "cnn9", "d1"),
    ("D.1", "thesis.table5.2.*.64-128-256", "cnn9", "d1"),
    *(("5.5.1", f"thesis.table5.2.*.{widths}", "cnn9", widths.replace("-", ",")) for widths in _WIDTHS),
    *(("5.5.1", f"thesis.table5.3.*.{name}", name, "d1") for name in ("cnn6", "cnn9", "cnn15")),
    ("D.1", "thesis.table5.5.*", "resnet32", "d2"),
    *(("D.1", f"thesis.table5.6.*.{name}", name, "standard") for name in ("resnet18", "resnet34")),
    # Tables E.1, E.2 and E.3
    ("E.1", _E1, "cnn9", "d1"),
    *(
        ("6.6.1", f"thesis.table6.4.*.t{t}", "cnn9", f"{16 * t},{32 * t},{64 * t}" if t != 4 else "d1")
        for t in (1, 2, 4, 8, 16, 20)
    ),
    *(("6.6.1", f"thesis.table6.5.*.{name}", name, "d1") for name in ("cnn6", "cnn9", "cnn15")),
    ("E.1", "thesis.table6.6.*", "resnet32", "d2"),
    *(("E.1", f"thesis.table6.7.*.{name}", name, "standard") for name in ("resnet18", "resnet34", "resnet50")),
    ("E.2.1", "thesis.figureE.[245].*", "cnn9", "e3"),
    ("E.2.1", "thesis.figureE.3.*", "cnn3", "e3"),
    # Tables F.1 and F.2
    *(("F.3", f"thesis.table7.[14].*.{name}", name, "f1") for name in ("cnn6", "cnn9")),
    ("F.3", "thesis.table7.[2567].* thesis.figure7.3.* thesis.tableF.[45].*", "cnn6", "f1"),
    *(("F.3", f"thesis.table7.8.*.{name}", name, "f2") for name in ("resnet20", "resnet32")),
    ("F.3", "thesis.table7.9.*", "cnn10", "f1_imagenet"),
]
