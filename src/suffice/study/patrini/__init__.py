"""Patrini, Nielsen & Nock 2016: the mean operator, and what label privacy costs with it."""

from suffice.study.data_sets import files_of
from suffice.study.patrini import factorisation, label_privacy
from suffice.study.reproduction import Reproduction

__all__ = ["ENTRIES", "LEFT_OUT", "PAPER"]

PAPER = "Patrini, Nielsen & Nock 2016"

ENTRIES = (
    Reproduction(
        "factorisation",
        "Losses as an even and an odd part",
        f"{PAPER}, Figure 1 and Table 1",
        factorisation.measure_odd_parts,
        repeats=False,
    ),
    Reproduction(
        "label-privacy",
        "What label privacy costs in accuracy",
        f"{PAPER}, Section 4 (no figure of the paper: it has no experiments)",
        label_privacy.measure_accuracies,
        files=files_of("spambase", "magic", "adult", "mnist-7v9", "uci-har"),
        uncompared="the paper has no experiments",
    ),
)

LEFT_OUT = (
    (
        "Section 1: multiple-instance learning as weak supervision",
        "out of scope; the paper names it and has no experiment",
    ),
)
