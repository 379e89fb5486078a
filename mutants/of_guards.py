"""Slips in small guards: merging, the bytes of a file, text on a page, and the names of labels.

Left out, since safetensors and the kinds refuse the same: a shape that does not fit its bytes.
"""

from mutant import Mutant

_CODEC, _MERGE = "release/test_codec.py", "release/test_merge.py"
_TEXT, _LABELS = "test_plain_text.py", "tables/test_labels.py"
MUTANTS = (
    Mutant(
        "rows-merged-twice",
        "release/merge.py",
        "    if len(set(hashes)) < len(hashes):",
        "    if len(set(hashes)) < 1:",
        (f"{_MERGE}::test_rows_are_merged_once",),
        "Two releases of the same rows become one that claims the epsilon of each.",
    ),
    Mutant(
        "merged-origin-of-the-first",
        "release/merge.py",
        "    return replace(releases[0].pipeline, origin=weakest(origins))",
        "    return releases[0].pipeline",
        (f"{_MERGE}::test_a_merged_pipeline_comes_from_the_weakest_place",),
        "Scales from one owner's private rows pass for declared ones.",
    ),
    Mutant(
        "manifest-of-any-length",
        "release/container.py",
        "    if manifest > _MOST_MANIFEST or signature",
        "    if signature",
        (f"{_CODEC}::test_a_manifest_is_not_longer_than_people_read",),
        "A stranger's file fills the memory of whoever reads it.",
    ),
    Mutant(
        "empty-arrays-allowed",
        "release/container.py",
        "    if 0 in shape and not lacks and name not in _MAY_BE_EMPTY:",
        "    if False:",
        (f"{_CODEC}::test_an_array_is_empty_only_where_a_release_may_lack_it",),
        "A header of a few bytes names arrays of any length.",
    ),
    Mutant(
        "file-named-before-it-is-durable",
        "release/files.py",
        "            os.fsync(file.fileno())\n",
        "",
        ("release/test_files.py::test_bytes_are_on_the_disk_before_they_have_their_name",),
        "After a power failure a release is empty, and another draw is asked for.",
    ),
    Mutant(
        "marks-without-limit",
        "plain_text.py",
        " and marks <= _MARKS",
        "",
        (f"{_TEXT}::test_few_marks_stand_on_one_letter",),
        "A name paints over the guarantee in the lines above it.",
    ),
    Mutant(
        "markup-leaves-attributes",
        "plain_text.py",
        'for line in text.split("\\n")))',
        'for line in text.split("\\n")), quote=False)',
        (f"{_TEXT}::test_markup_cannot_leave_an_attribute",),
        "A name from a file becomes an attribute of the owner's page, such as a handler.",
    ),
    Mutant(
        "leading-zero-dropped",
        "tables/labels.py",
        "(-?(?:0|[1-9][0-9]{0,15}))",
        "(-?[0-9]{1,16})",
        (f"{_LABELS}::test_a_code_with_a_leading_zero_is_no_number",),
        "Two codes of diseases, 01 and 1, are counted as one label.",
    ),
)
