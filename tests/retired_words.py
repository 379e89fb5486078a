"""The words that docs/glossary.md replaced, as patterns that find the retired use of each.

Many retired words also have an ordinary meaning ("a set of options", "bags that share rows"). Each
entry therefore has a pattern for the retired use, a phrase that it must catch, and a harmless one.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Retired:
    """One retired word: ``pattern`` finds it, ``say`` is the word to use instead."""

    pattern: str
    say: str
    caught: str
    harmless: str

    def search(self, text: str) -> re.Match[str] | None:
        """Return the first retired use in ``text``."""
        return re.search(self.pattern, text, re.IGNORECASE)


@dataclass(frozen=True)
class Allowed:
    """An exception: in files that match ``where``, texts that match ``phrase`` may stay."""

    where: str
    phrase: str
    reason: str

    def covers(self, file: str, text: str) -> bool:
        """Say whether this exception is about ``text`` in ``file``."""
        return fnmatch(file, self.where) and re.search(self.phrase, text) is not None


_NUMERALS = r"two|three|four|few|many|more|\d+"

RETIRED = (
    Retired(r"\b(?:label|class) codes?\b", "label", "the label codes", "the code of a label"),
    Retired(
        r"\b(?:of|the|over|on|plain|private|training) examples\b",
        "rows, records",
        "boosting over plain examples",
        "a confidence level, for example 0.95",
    ),
    Retired(r"\bcrowds?\b", "parties", "two crowds of one size", "a crowded table"),
    Retired(
        r"\bsaniti[sz]ed\b|\bwhat leaves\b|\bsmall statistic\b",
        "release",
        "one sanitised statistic",
        "the exact statistic is a sum",
    ),
    Retired(r"\bpromis\w*", "guarantee", "what was promised about it", "this is a compromise"),
    Retired(r"\bclaim(?:s|ed|ing)?\b", "guarantee, state", "it claims epsilon 1", "reclaimed"),
    Retired(
        r"\bstatements? (?:per|about) (?:an?|each|one|any) (?:label|value|record|party)\b",
        "guarantee",
        "a statement about each record",
        "a statement of SQL",
    ),
    Retired(r"\bthings?\b", "unit", "the thing that is protected", "everything, nothing"),
    Retired(r"\bprices?\b", "epsilon", "propose a price", "priceless"),
    Retired(
        r"\b(?:may|to) (?:ever )?(?:be lost|lose)\b|\bever lost\b",
        "budget",
        "a data set may lose epsilon 2",
        "its output was lost",
    ),
    Retired(r"\bpa(?:y|ys|id|yer|yments?|ying)\b", "charge", "the ledger that pays", "a pair"),
    Retired(r"\bdebit\w*", "charge", "the debit is recorded", "credit"),
    Retired(r"\bburn(?:t|s|ed)?\b", "charged, output lost", "the request is burnt", "Bernoulli"),
    Retired(
        r"\b(?:index|public|skewed|overlapping) sets?\b|\bsets? of rows\b|\bnew sets\b",
        "bag",
        "class proportions of public sets",
        "the test set; a data set; set the budget",
    ),
    Retired(
        r"\b(?:class|true|noisy|released|estimated|largest|label|what|or|their) shares?\b"
        r"|\bshares of\b|\bshares (?:are|is|in)\b|\ba share\b|\bthe shares?\b",
        "proportion",
        "the class shares of a ward",
        "bags that share no row",
    ),
    Retired(r"\bclass ratios?\b", "class proportions", "class ratios of a table", "a ratio of 2"),
    Retired(r"\bfrequenc(?:y|ies)\b", "proportion", "the frequency of yes", "frequent"),
    Retired(
        r"\bthe better way\b|\bways? (?:to|of) (?:releas|publish|protect|add)\w*",
        "mechanism, method",
        "a way to release labels",
        "the other way round",
    ),
    Retired(r"\bchannels?\b", "mechanism", "the channel of a cell", "channelled"),
    Retired(r"\bspread\b", "noise", "noise beside the spread", "widespread"),
    Retired(
        r"(?<!standard )\bdeviations?\b",
        "standard deviation",
        "noise of deviation 2",
        "a standard deviation of 2",
    ),
    Retired(r"\bkernels?\b", "noise type", "the kernel of a number", "kernelled"),
    Retired(
        r"(?<!mean[ -])\boperators?\b",
        "mean operator",
        "an operator of d numbers",
        "the noisy mean operator",
    ),
    Retired(r"\bedges?\b", "subset sums", "noise on edges", "acknowledged"),
    Retired(r"\bobservations?\b", "subset sums", "of one observation", "observed"),
    Retired(r"\blattices?\b", "rounding grid", "on a public lattice", "latticework"),
    Retired(r"^step$", "rounding step", "step", "rounding step"),
    Retired(r"noise of the K-norm", "K-norm noise", "noise of the K-norm", "K-norm noise"),
    Retired(r"\bpure\b", "delta = 0", "epsilon = 1, pure", "purely"),
    Retired(
        r"^condition$|\bcondition (?:\(|[\d{])|\(Q in",
        "condition number",
        "condition 189 (Q in Theorem 1)",
        "the condition number is 189",
    ),
    Retired(r"\bmargin noise\b", "score noise", "the margin noise", "the margin of a row"),
    Retired(
        r"\bopen data\b|\bplain (?:labels?|data|records?|rados?)\b",
        "without privacy",
        "a model on open data",
        "plain text",
    ),
    Retired(
        r"\bblind(?:ly)?\b|\bignorant\b|\bknowing nothing\b",
        "without the release",
        "as good as a blind guess",
        "without the release",
    ),
    Retired(
        rf"\b(?:declared|discrete|of|with|other|the|possible|its|all|{_NUMERALS}) states\b"
        r"|\b(?:a|each|every|another|one|no) state\b|^states?$",
        "possible values",
        "a column with three states",
        "the file states a guarantee",
    ),
    Retired(r"\btwins?\b", "broken copy", "a broken twin", "between"),
    Retired(r"\bdrown\w*", "hide in noise", "noise would drown it", "brown"),
    Retired(r"\bhad (?:any|a) single\b", "if any one ... were", "had any single label", "had one"),
    Retired(
        r"cannot be overspent|never leave\b|hides? everything|nobody can learn"
        r"|except with probability|never holds? a true|whatever else they know"
        r"|who knows less learns less|chance that is left out",
        "no more than the mathematics",
        "a budget that cannot be overspent",
        "the ledger refuses to exceed the budget",
    ),
)

ALLOWED = (
    Allowed("docs/*", r"^step$", "the head of a table of steps, one after the other"),
    Allowed("*", r"ranks\+kernel", "the name of a feature map"),
    Allowed("docs/learner.md", r"kernel", "the kernel of the method mmd, a word of the paper"),
    Allowed("src/suffice/learner/ratio/*", r"kernel", "the kernel of the method mmd"),
    Allowed("*", r"operator, vote-table", "the values of --method"),
    Allowed("src/suffice/owner/ledger/*", r"\b(SELECT|INSERT|UPDATE|CREATE|WHERE)\b", "SQL"),
    Allowed("src/suffice/*", r"^operator$", "a value of --method"),
    Allowed("src/suffice/*", r"^states?$", "the name of a parameter and of a JSON field"),
    Allowed("src/suffice/cli/*", r"^(learner\.)?frequencies$", "the name of a command"),
    Allowed("src/suffice/cli/building.py", r"--methods operator", "a value of --methods"),
    Allowed("src/suffice/cli/ledgers.py", r"^(STATES|burnt|debits?)$", "names in stored files"),
    Allowed("src/suffice/cli/learner.py", r"^condition$", "the name of a JSON field"),
    Allowed("src/suffice/cli/learner.py", r"--method mmd", "the kernel of the method mmd"),
    Allowed("suffice ratio", r"--method mmd", "the kernel of the method mmd"),
    Allowed("docs/threat-model.md", r"side channels", "the field's word for other leaks"),
    Allowed(
        "src/suffice/owner/scaling.py",
        r"nothing is promised about them$",
        "stored in releases: the same request keeps its text",
    ),
    Allowed("src/suffice/participant.py", r"\{kernel\}", "names of numbers within a text"),
    Allowed("src/suffice/pages/card.py", r"^Pure DP$", "the word of the registry of deployments"),
    Allowed("src/suffice/audit/cases_whole.py", r"^spread of the labels$", "what it measures"),
)


def exception(file: str, text: str) -> Allowed | None:
    """Return the exception that lets ``text`` stand in ``file``."""
    return next((entry for entry in ALLOWED if entry.covers(file, text)), None)
