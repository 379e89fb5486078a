"""Slips in advice: it would look at private cells."""

from mutant import Mutant

_NEIGHBOURS = "cli/test_advise_cli.py::test_no_byte_depends_on_a_private_cell"
_FRAMES = "owner/advice/test_advise.py::test_labels_of_a_frame_are_not_even_converted"

MUTANTS = (
    Mutant(
        "advice-types-from-private-cells",
        "owner/advice.py",
        "return row_count(open_declared(data), column)",
        "return row_count(open_table(data), column)",
        (_NEIGHBOURS,),
        "How a private CSV file is written is told by private cells, and printed.",
    ),
    Mutant(
        "advice-converts-labels",
        "owner/advice.py",
        "        return data[features]",
        "        return data",
        (_FRAMES,),
        "The labels of a frame are converted, and an error tells what they hold.",
    ),
)
