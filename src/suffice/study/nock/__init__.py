"""Nock, Patrini & Friedman 2015: learning from Rademacher observations (rados)."""

from suffice.study.data_sets import files_of
from suffice.study.nock import private_rados, table_one
from suffice.study.reproduction import Reproduction

__all__ = ["ENTRIES", "LEFT_OUT", "PAPER"]

PAPER = "Nock, Patrini & Friedman 2015"

_SMALL = (
    "haberman", "transfusion", "banknote", "breast", "ionosphere", "sonar", "wine-red",
    "fertility", "spambase",
)  # fmt: skip

ENTRIES = (
    Reproduction(
        "rados-table1",
        "Boosting over random rados, and over examples",
        f"{PAPER}, Table 1",
        table_one.compare_boosting,
        files=files_of(*table_one.PRINTED, *_SMALL),
    ),
    Reproduction(
        "rados-dp",
        "DP-Feat, and rados of noisy edges",
        f"{PAPER}, Table 2 and its plots",
        private_rados.measure_paper_mechanisms,
        files=files_of("transfusion", "ionosphere", "abalone", "magic"),
        uncompared="our copy of the paper holds the caption of Table 2, not its numbers; what its"
        " text says of them is answered in the notes",
    ),
    Reproduction(
        "rados-units",
        "Rados that protect labels, or records",
        f"{PAPER}, Section 5 (no figure of the paper: this noise is ours)",
        private_rados.measure_units,
        files=files_of("magic", "spambase", "wine-white", "abalone"),
        uncompared="the paper has no such figure",
    ),
)

LEFT_OUT = (
    (
        "Table 1: Hardware, Twitter (583K rows), SuSy; HIGGS in full",
        "data not at hand; HIGGS as a sample of 11 thousand rows",
    ),
    (
        "Table 2: numbers of DP-Feat and its plots, and the supplement",
        "our copy is text without them; the same experiments are run (rados-dp)",
    ),
    (
        "Figures 1 and 2",
        "drawings of how it works, without data",
    ),
)
