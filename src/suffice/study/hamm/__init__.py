"""Hamm, Cao & Belkin 2016: many parties train one classifier without pooling their records."""

from suffice.study.hamm import party_accuracy
from suffice.study.reproduction import Reproduction

__all__ = ["ENTRIES", "LEFT_OUT", "PAPER"]

PAPER = "Hamm, Cao & Belkin 2016"

ENTRIES = (
    Reproduction(
        "parties-har",
        "Activity recognition by many parties",
        f"{PAPER}, Figure 2",
        party_accuracy.recognise_activities,
        files={"uci-har": party_accuracy.ACTIVITIES},
        seeds=3,
    ),
    Reproduction(
        "parties-kdd99",
        "Intrusion detection by many parties",
        f"{PAPER}, Figure 3",
        party_accuracy.detect_intrusions,
        files={"kddcup99": party_accuracy.INTRUSIONS},
    ),
)

LEFT_OUT = (
    (
        "Figure 1",
        "a drawing of how it works, without data",
    ),
    (
        "Figure 4: malicious URLs",
        "data not at hand; KDD-99 is the paper's other experiment of that size",
    ),
)
