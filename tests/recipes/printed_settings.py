"""The settings that the documents print, section by section.

``PRINTED`` has rows (section, recipes, settings, where): every recipe that a pattern matches, and for which the
settings ``where`` hold, must have these settings. Sections are those of the thesis, or of the paper if they start with
``paper``. A setting is a field of the configuration (``optim.lr``), of the network with its own defaults
(``network.norm``), of its function h (``magnitude.beta``), or of the regularizer as it is built (``penalty.hidden``).
``optim.projects`` is whether weights are projected. ``unprinted_settings`` has what is not printed, and what we do
otherwise.
"""

from printed_early import EARLY
from printed_groups import Row
from printed_late import LATE
from printed_networks import NETWORKS

PRINTED: list[Row] = [
    *EARLY,
    *LATE,
    *(
        (section, names, {"model.name": name, "network.widths": widths}, {})
        for section, names, name, widths in NETWORKS
    ),
]
