"""Barber 2020: learning from randomised responses by the spread likelihood."""

from suffice.study.barber import digit_accuracy, pictures, reconstruction, voting
from suffice.study.data_sets import files_of
from suffice.study.reproduction import Reproduction

__all__ = ["ENTRIES", "LEFT_OUT", "PAPER"]

PAPER = "Barber 2020"

ENTRIES = (
    Reproduction(
        "voting",
        "A vote from randomised answers",
        f"{PAPER}, Section 3, eq. 2 and 24",
        voting.estimate_votes,
        repeats=False,
    ),
    Reproduction(
        "spread-reconstruction",
        "Learning from reconstructed data is not consistent",
        f"{PAPER}, Figure 1",
        reconstruction.compare_maximisers,
        repeats=False,
    ),
    Reproduction(
        "spread-pictures",
        "Digits as they leave their owner",
        f"{PAPER}, Figures 2 and 4",
        pictures.corrupt_digits,
        files=files_of("mnist-7v9"),
        repeats=False,
    ),
    Reproduction(
        "spread-mnist",
        "Accuracy against flips of labels and pixels",
        f"{PAPER}, Figure 3",
        digit_accuracy.learn_from_flips,
        files=files_of("mnist-7v9"),
        seeds=2,
    ),
    Reproduction(
        "spread-gaussian",
        "Accuracy under Gaussian noise",
        f"{PAPER}, Section 6.1",
        digit_accuracy.learn_from_gaussian_noise,
        files=files_of("mnist-7v9"),
        seeds=1,
    ),
)

LEFT_OUT = (
    (
        "Section 4.4: other f-divergences",
        "out of scope; the paper has no experiment",
    ),
    (
        "Section 6: noise by downsampling images",
        "out of scope; the paper leaves it to future work",
    ),
)
