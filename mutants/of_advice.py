"""Slips in advice: it would look at private cells."""

from mutant import Mutant, Place

_NEIGHBOURS = "cli/test_advise_cli.py::test_no_byte_depends_on_a_private_cell"
_FRAMES = "owner/advice/test_advise.py::test_labels_of_a_frame_are_not_even_converted"

MUTANTS = (
    Mutant(
        "advice-types-from-private-cells",
        "owner/advice/facts.py",
        "return row_count(open_declared(data), column)",
        "return row_count(open_table(data), column)",
        (_NEIGHBOURS,),
        "How a private CSV file is written is told by private cells, and printed.",
        (
            Place(
                "owner/advice/facts.py",
                "import Without, column_names, open_declared, row_count",
                "import Without, column_names, open_table, row_count",
            ),
        ),
    ),
    Mutant(
        "advice-converts-labels",
        "owner/advice/facts.py",
        "        return data[features]",
        "        return data",
        (_FRAMES,),
        "The labels of a frame are converted, and an error tells what they hold.",
    ),
)
