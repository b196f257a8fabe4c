"""Panels and plots from outside the package."""

import hypersphere as hs
from hypersphere import report
from hypersphere._core.registries import PANELS, PLOTS
from hypersphere.cli import main
from hypersphere.report.markup import element
from hypersphere.runs import Run


def test_a_panel_and_a_plot_of_ones_own(runs, monkeypatch, capsys):
    for table in (PANELS, PLOTS):
        list(table)
        monkeypatch.setattr(table, "_entries", dict(table._entries))

    @hs.register("panel", "steps", label="How far it came")
    def steps(view):
        return element("p", f"{view.subject.seeds[0].step} steps of <me>")

    hs.register("panel", "nothing", lambda view: None)
    page = report.build([runs / "flat"], data=False)
    done = Run(runs / "flat").log()[-1]["step"]
    assert f"How far it came</h2><p>{done} steps of &lt;me&gt;</p>" in page
    assert 'id="nothing-0"' not in page
    hs.register("plot", "my_picture", lambda: None, about="a picture of mine")
    assert main(["list", "plots", "my*"]) == 0
    assert "a picture of mine" in capsys.readouterr().out
