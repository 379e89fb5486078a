"""What states, log entries and policies are called where people read them."""

from collections.abc import Mapping

from suffice.owner.ledger.policy import Policy
from suffice.plain_text import listed

__all__ = ["KINDS", "STATES", "policy_lines"]

# What the store calls a charge without output is not for people.
STATES: Mapping[str, str] = {"burnt": "charged, output lost"}
# Nor is what the audit log calls an entry.
KINDS: Mapping[str, str] = {
    "debit": "charge",
    "finish": "release stored",
    "burnt": "output lost",
    "grant": "proposal granted",
    "refusal": "refused",
    "budget": "budget set",
    "classes": "classes declared",
    "opened": "ledger made",
    "frozen": "ledger frozen",
    "recovered": "ledger recovered",
    "minted": "token made",
    "revoked": "token revoked",
}


def policy_lines(policy: Policy) -> list[tuple[str, str]]:
    """Return what a policy allows, each with its heading.

    Examples
    --------
    >>> policy_lines(Policy(1.0, features=("age",)))[0]
    ('one request', 'epsilon 1, delta 0')
    """
    features = "all but the label" if policy.features is None else listed(policy.features)
    classes = "those of the ledger" if policy.classes is None else listed(policy.classes)
    return [
        ("one request", f"epsilon {policy.largest_epsilon:g}, delta {policy.largest_delta:g}"),
        ("mechanisms", listed(policy.mechanisms)),
        ("kinds", listed(policy.kinds)),
        ("columns", features),
        ("classes", classes),
        ("rows", f"{policy.least_rows:,} or more"),
        ("feature maps", "allowed" if policy.maps else "not allowed"),
        ("coordinates", f"at most {policy.most_coordinates:,}"),
    ]
