"""The audit's page says what the audit found, with a panel for every finding."""

import re
from types import SimpleNamespace

import numpy as np
from matplotlib.figure import Figure

from suffice.pages.report import _draw_scores, audit_page


def finding(name: str, bound: float, *, broken: bool) -> SimpleNamespace:
    violated = bound > 1.0
    return SimpleNamespace(
        name=name,
        claimed=1.0,
        lower_bound=bound,
        broken=broken,
        what="<b>half</b> the noise",
        losses=((-1.0, 0.0, 1.0), (3, 4), (1, 2)),
        violated=violated,
        expected=violated == broken,
        cells=lambda: (name, f"{bound:g}"),
    )


def test_the_page_counts_what_held_and_names_what_did_not():
    sound = [finding(f"s{n}", 0.5, broken=False) for n in range(6)]
    text = audit_page([*sound, finding("copy", 2.0, broken=True)], ("name", "bound"), 0.001)
    assert "The attack refutes 0 of 6 mechanisms. It catches 1 of 1 broken copies." in text
    assert "correct with probability 0.999 or more" in text
    assert "Not as expected" not in text
    assert "&lt;b&gt;half" in text
    assert text.count("<figure>") == 2  # six panels are one figure
    odd = audit_page([finding("s", 2.0, broken=False)], ("name", "bound"), 0.001)
    assert "Not as expected: s." in odd


def test_every_caption_is_a_sentence():
    text = audit_page([finding("s", 0.5, broken=False)] * 7, ("name", "bound"), 0.001)
    captions = re.findall(r"<(?:caption|figcaption)>([^<]*)<", text)
    assert len(captions) == 4
    assert all(caption.endswith(".") for caption in captions)
    assert "Results 1 to 6 of 7" in text
    assert "Result 7 of 7" in text


def test_a_spike_at_the_guarantee_is_drawn_in_front_of_its_line():
    """A randomised response has the loss -epsilon or +epsilon: two spikes, exactly at the lines."""
    spikes = finding("s", 1.0, broken=False)
    spikes.losses = (tuple(np.linspace(-1, 1, 61)), (0,) * 59 + (9,), (9,) + (0,) * 59)
    axes = Figure().subplots()
    _draw_scores(spikes, axes)
    lines = [line.get_zorder() for line in axes.get_lines()]
    bars = [patch.get_zorder() for patch in axes.patches]
    assert len(lines) == 3
    assert len(bars) == 4
    assert max(lines) < min(bars)
    outlines = [patch for patch in axes.patches if not patch.get_fill()]
    assert len(outlines) == 2
    assert all(patch.get_linewidth() >= 1 for patch in outlines)
