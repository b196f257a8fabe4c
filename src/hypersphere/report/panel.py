"""One run at a time: how it was trained, its sphere, energy, learned numbers, confusion, examples, provenance.

Each panel is declared once, by name and title, as a function from a :class:`View` to what stands under the title, or to
None where there is nothing to show. ``hs.register("panel", name, function, label="Title")`` adds one of your own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._core.registries import PANELS
from ..evaluation.verification import in_percent
from ..runs import WARNINGS
from ..runs.quantities import quantity
from .charts import bars, histograms
from .confusion import worst_classes, worst_pairs
from .examples import Example, hardest, slowest
from .findings import Findings
from .markup import Html, definitions, details, element, join, number, table
from .overview import flat, shown
from .subject import Subject
from .verification import PairExample, hardest_pairs, own_pairs
from .words import in_words


@dataclass(frozen=True)
class View:
    """What a panel is given: the run of the page, what was found of it, and how many pictures to show at most."""

    index: int
    subject: Subject
    found: Findings
    pictures: int


Draw = Callable[[View], object]


def panels(view: View, only: bool) -> Html:
    """The sections of a run; charts are drawn by the page's script into the empty elements."""
    drawn = [(entry, entry.value(view)) for entry in PANELS.entries()]
    parts = [_section(view.index, entry.name, entry.label, content) for entry, content in drawn if content is not None]
    hidden = not only and view.index > 0
    return element("div", *parts, class_="panel", data_run=view.index, id=f"run-{view.index}", hidden=hidden)


def panel(name: str, title: str) -> Callable[[Draw], Draw]:
    """Declare the decorated function."""
    return lambda draw: PANELS.add(name, draw, label=title)


def _section(index: int, name: str, title: str, *content: object) -> Html:
    return element("section", element("h2", title, id=f"{name}-{index}"), *content, aria_labelledby=f"{name}-{index}")


@panel("trained", "What was trained")
def _trained(view: View) -> Html:
    """The settings in sentences, and all of them by their names on the command line."""
    settings = flat(view.subject)
    rows = [[element("code", name), shown(value)] for name, value in settings.items()]
    full = table(["setting", "value"], rows, "All settings, by their names on the command line")
    return join([definitions(in_words(view.subject.run.config)), details(f"All {len(settings)} settings", full)])


@panel("warnings", "Warnings")
def _warnings(view: View) -> Html | None:
    """What training found suspicious, such as a margin that has collapsed, and logs that were changed since."""
    file = view.subject.run.folder(view.subject.shown_seed).path / WARNINGS
    lines = file.read_text(encoding="utf-8", errors="replace")[:4000].splitlines() if file.is_file() else []
    lines += [seed.doubt for seed in view.subject.seeds if seed.doubt is not None]
    return join(element("p", line, class_="warning") for line in lines if line.strip()) if lines else None


@panel("missing", "Missing")
def _missing(view: View) -> Html | None:
    """What could not be shown, and why."""
    return join(element("p", text, class_="warning") for text in view.found.missing) if view.found.missing else None


@panel("plane", "Features in the plane")
def _plane(view: View) -> Html | None:
    """Test features of two dimensions, class vectors and wrong predictions."""
    return _features(view, flat=True)


@panel("sphere", "Features on the sphere")
def _sphere(view: View) -> Html | None:
    """Test features on a sphere that can be turned, class vectors and wrong predictions."""
    return _features(view, flat=False)


def _features(view: View, flat: bool) -> Html | None:
    found = view.found.found
    if found is None or (found.features.shape[1] == 2) != flat:
        return None
    return element("div", class_="sphere-view", data_run=view.index)


@panel("energy", "Energy")
def _energy(view: View) -> Html | None:
    """Hyperspherical energy over time, and of every layer of the final network."""
    logged = any(key.startswith("energy") for seed in view.subject.seeds for record in seed.log for key in record)
    energies = view.found.energies
    if not logged and not energies:
        return None
    about = element(
        "p",
        "Hyperspherical energy of the neurons' directions (s = 2), divided by the number of pairs: lower means that "
        "the neurons of a layer are spread more evenly over their sphere. The mean is over the hidden layers.",
        class_="note",
    )
    chart = element("div", class_="energy-view", data_run=view.index) if logged else ""
    now = details("Every layer of the final network", bars(energies, "energy")) if energies else ""
    return join([about, chart, now], "")


@panel("learned", "Learned operators")
def _learned(view: View) -> Html | None:
    """Histograms of the learned k and ρ of every layer."""
    parts: list[Html] = []
    if view.found.k:
        text = "The learned k of the sigmoid, one histogram per layer; smaller k is steeper. The line marks the mean."
        parts += [element("h3", "Curvature k"), element("p", text, class_="note"), histograms(view.found.k, "k")]
    if view.found.rho:
        text = (
            "The learned radius ρ of h. Patches longer than ρ (times their mean norm, where that is tracked) saturate."
        )
        parts += [element("h3", "Radius ρ"), element("p", text, class_="note"), histograms(view.found.rho, "ρ")]
    return join(parts, "") if parts else None


@panel("confusion", "Confusion")
def _confusion(view: View) -> Html | None:
    """Predictions by class, mean cosines to the class vectors, and the most frequent mistakes."""
    found = view.found.found
    if found is None or found.logits is None:
        return None
    pairs = [[true, other, f"{count} of {total}"] for true, other, count, total in worst_pairs(found)]
    classes = [
        [name, f"{right} of {total}", number(100 * right / total)] for name, right, total in worst_classes(found)
    ]
    tables = element(
        "div",
        table(["true class", "taken for", "how often"], pairs, "Most frequent mistakes")
        if pairs
        else element("p", "No test sample is classified wrongly.", class_="note"),
        table(["class", "right", "%"], classes, "Classes with the lowest accuracy", "numbers"),
        class_="pair",
    )
    return join([element("div", class_="matrix-view", data_run=view.index), tables], "")


@panel("examples", "Hard examples")
def _examples(view: View) -> Html | None:
    """The hardest test samples, by angular visual hardness and by the angle to the own class vector."""
    found = view.found.found
    if not view.found.has_angles or found is None:
        return None
    parts = []
    for title, text, chosen in (
        (
            "Hardest",
            "Largest angular visual hardness: the angle to the vector of the correct class, divided by the sum of the "
            "angles to all class vectors.",
            hardest(found, view.pictures),
        ),
        (
            "Slowest angle",
            "Largest angle to the vector of the correct class after training. Features start at about a right angle to "
            "every class vector, so these samples have moved least.",
            slowest(found, view.pictures),
        ),
    ):
        shown_as = _gallery(chosen) if found.images is not None else _listing(chosen, title)
        parts += [element("h3", title), element("p", text, class_="note"), shown_as]
    return join(parts, "")


@panel("pairs", "Verification")
def _pairs(view: View) -> Html | None:
    """Verification of unseen classes: rates, and the pairs that are hardest to tell."""
    found, verified = view.found.found, view.found.verified
    if verified is None or found is None:
        return None
    result = verified.result
    caption = f"{result.pairs:,} pairs of classes that training never saw; ± is the standard error over the folds"
    hard = hardest_pairs(verified, found.images, found.classes, max(view.pictures // 2, 1))
    return join([_rates(in_percent(result), caption), *_hard_pairs(*hard)], "")


@panel("own_pairs", "Your own pairs")
def _own_pairs(view: View) -> Html | None:
    """The same of a user's own list of pairs."""
    kept = view.found.pairs
    if kept is None:
        return None
    values = dict(kept.numbers)
    count, folds = (int(values.pop(name, 0)) for name in ("pairs", "folds"))
    aids = [text for name, text in _AIDS.items() if values.pop(name, False)]
    caption = f"{count:,} pairs of {kept.name} in {folds} folds; ± is the standard error over them"
    told = [element("p", kept.warning, class_="warning")] if kept.warning else []
    rates = _rates(values, ", ".join([caption, *aids]))
    return join([*told, rates, *_hard_pairs(*own_pairs(kept, max(view.pictures // 2, 1)))], "")


_AIDS = {"flip": "mirror images added", "center": "mean feature subtracted"}


def _rates(values: dict[str, float], caption: str) -> Html:
    spread = f"{number(values.pop('accuracy'))} ± {number(values.pop('accuracy_std'))}"
    rows = [["accuracy, %", spread], *([quantity(key).heading, number(value)] for key, value in values.items())]
    return table(["measurement", "value"], rows, caption, "numbers")


def _hard_pairs(same: Sequence[PairExample], different: Sequence[PairExample]) -> list[Html]:
    parts: list[Html] = []
    for title, chosen in (("One class, furthest apart", same), ("Two classes, closest together", different)):
        parts += [element("h3", title), element("div", *map(_pair, chosen), class_="gallery pairs")]
    return parts


@panel("source", "Command and versions")
def _source(view: View) -> Html:
    """The command that trains it again; versions, device and commit of every seed."""
    subject = view.subject
    command = element("pre", element("code", subject.run.command), tabindex=0)
    button = element("button", "Copy", type="button", class_="copy", aria_label="Copy the command")
    skip = ("command",)
    names = dict.fromkeys(name for seed in subject.seeds for name in seed.environment if name not in skip)
    rows = [[name.replace("_", " "), *(shown(seed.environment.get(name)) for seed in subject.seeds)] for name in names]
    parts = [element("div", command, button, class_="command")]
    if rows:
        head = ["", *(f"seed {seed.number}" for seed in subject.seeds)]
        parts.append(table(head, rows, "Versions, device and commit of every seed"))
    others = {str(seed.environment.get("command") or subject.run.command) for seed in subject.seeds}
    others -= {subject.run.command}
    parts += [
        element("p", "Another seed was trained by: ", element("code", other), class_="note") for other in sorted(others)
    ]
    parts.append(element("p", "Run folder: ", element("code", subject.run.path.resolve()), class_="note"))
    return join(parts)


def _gallery(chosen: Sequence[Example]) -> Html:
    figures = []
    for one in chosen:
        verdict = "predicted correctly" if one.right else f"predicted {one.predicted}"
        alt = f"Test sample {one.index}: {one.true}, {verdict}, {one.degrees:.0f}° from its class vector"
        caption = join(
            [
                element("b", one.true),
                element("span", "✓ correct", class_="right")
                if one.right
                else element("span", f"→ {one.predicted}", class_="wrong"),
                element("span", f"{one.degrees:.0f}°", title=f"hardness {one.hardness:.4f}"),
            ],
            " ",
        )
        figures.append(element("figure", element("img", src=one.picture, alt=alt), element("figcaption", caption)))
    return element("div", *figures, class_="gallery")


def _listing(chosen: Sequence[Example], title: str) -> Html:
    rows = [[one.index, one.true, one.predicted, f"{one.degrees:.1f}", f"{one.hardness:.4f}"] for one in chosen[:10]]
    return table(["test sample", "true", "predicted", "angle, °", "hardness"], rows, title, "numbers")


def _pair(one: PairExample) -> Html:
    said = one.classes[0] if one.same else f"{one.classes[0]} / {one.classes[1]}"
    images = (
        [element("img", src=src, alt=f"Image of {name}") for src, name in zip(one.pictures, one.classes, strict=True)]
        if one.pictures is not None
        else []
    )
    return element("figure", element("div", *images), element("figcaption", element("b", said), f" {one.degrees:.0f}°"))
