"""The auditor's page says what was found, with a panel for every finding."""

from types import SimpleNamespace

from suffice.pages.audit import audit_page


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
    assert "6 of 6 mechanisms" in text
    assert "1 of 1 broken twins" in text
    assert "Not as it should be" not in text
    assert "&lt;b&gt;half" in text
    assert text.count("<svg") == 2  # six panels are one figure
    odd = audit_page([finding("s", 2.0, broken=False)], ("name", "bound"), 0.001)
    assert "Not as it should be: s." in odd
