"""How `make docs` builds the site: the pages of this folder, and docstrings as they stand."""

import dataclasses
import inspect
import re
from pathlib import Path

from suffice import __version__

project = "suffice"
author = "the suffice project"
version = release = __version__
html_title = "suffice"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
highlight_language = "none"  # blocks without a language are commands and output
smartquotes = False  # D' and "auto" are names
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # `Ledger` in a docstring leads to the class, `x` is set as code

html_theme = "furo"
html_theme_options = {"light_css_variables": {"code-font-size": ".75rem"}}  # 100 columns of code
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False

autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request,set_score_request",  # scikit-learn writes these
}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 120
napoleon_google_docstring = False
napoleon_custom_sections = [
    ("Attributes", "params_style"),  # listed: properties follow anyway
    ("Fields", "params_style"),  # those of a dataclass that its docstring does not list
]

_LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)]+)\)")
_UNDERLINE = re.compile(r"-{3,}$")


def _escaped(line: str) -> str:
    """Return a line in which |x| and mu_ are set as they stand, *words* with emphasis."""
    parts = _LITERAL.split(line)
    parts[::2] = [re.sub(r"(\||(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _fields(app, what, name, obj, options, lines):
    """List the fields of a dataclass that its docstring does not list, with their types.

    A field that can be set from outside is described by the help of its option.
    """
    if not (isinstance(obj, type) and dataclasses.is_dataclass(obj)):
        return
    listed = {line.split(":")[0].strip() for line in lines if re.match(r"[\w, ]+(?: : |$)", line)}
    listed = {name for names in listed for name in names.split(", ")}
    missing = [
        item
        for item in dataclasses.fields(obj)
        if item.name not in listed and not item.name.startswith("_") and item.repr
    ]
    if missing:
        lines += ["", "Fields", "------"]
    for item in missing:
        kind = re.sub(r"\b(?:\w+\.)+(\w)", r"\1", inspect.formatannotation(item.type))
        option = item.metadata.get("option")
        lines += [f"{item.name} : {kind}", *([f"    {option.help}"] if option else [])]
    if missing:
        lines.append("")


def _plain_text(app, what, name, obj, options, lines):
    """Set what is indented in a docstring as it stands: formulas are."""
    out = ["..", ""] if what == "property" else []  # lest words before a colon become its type
    sections, margin, literal = False, 0, 0  # the last line's indent; the formula's, or none
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if _UNDERLINE.match(line):
            sections = True  # from here on names of parameters stand at the margin
        if line and literal and indent < literal:
            literal = 0
        opens = out and not out[-1] and indent >= margin + 4 and not literal and not sections
        if opens:
            out += [" " * margin + "::", ""]
            literal = indent
        margin = indent if line and not literal else margin
        is_name = sections and not indent  # napoleon escapes those
        out.append(line if literal or is_name else _escaped(line))
    lines[:] = out


def _without_folders(app, page, source):
    """Set links to folders of the repository as plain words: a site cannot show a folder."""
    folder = Path(app.env.doc2path(page)).parent
    source[0] = _LINK.sub(
        lambda link: link[1] if (folder / link[2]).is_dir() else link[0], source[0]
    )


def setup(app):  # noqa: D103
    app.connect("source-read", _without_folders)
    app.connect("autodoc-process-docstring", _fields, priority=300)
    app.connect("autodoc-process-docstring", _plain_text, priority=400)  # before napoleon
