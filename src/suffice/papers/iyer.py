"""Iyer, Nath & Sarawagi 2016: private label proportions, and class ratios learnt from them."""

from suffice.papers.iyer_distortion import measure_distortion
from suffice.papers.iyer_many_classes import TASKS
from suffice.papers.iyer_many_classes import measure_errors as measure_many_classes
from suffice.papers.iyer_two_classes import measure_errors as measure_two_classes
from suffice.papers.reproduction import Reproduction, files_of

__all__ = ["ENTRIES", "LEFT_OUT", "PAPER"]


PAPER = "Iyer, Nath & Sarawagi 2016"

ENTRIES = (
    Reproduction(
        "proportions-distortion",
        "How far private label proportions move",
        f"{PAPER}, Figure 1",
        measure_distortion,
        seeds=3,
    ),
    Reproduction(
        "ratio-binary",
        "Class ratios of two classes from two bags",
        f"{PAPER}, Figure 2",
        measure_two_classes,
        files=files_of("adult", "higgs", "spambase"),
        seeds=20,
    ),
    Reproduction(
        "ratio-multiclass",
        "Class ratios of many classes from private proportions",
        f"{PAPER}, Figure 3",
        measure_many_classes,
        files={name: task.file for name, task in TASKS.items()},
        seeds=2,
    ),
)

LEFT_OUT = (
    (
        "Figure 1: a distortion of .06 by Scaled Dirichlet",
        "no sigma gives it at (.05, .05) by either printed rule (proportions-distortion)",
    ),
    (
        "Table 1 and Figures 2, 3: YouTube, Acoustic",
        "data not at hand; Spambase and Covertype in their place",
    ),
)
