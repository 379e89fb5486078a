"""What parties send follows from their own records, and an audit from records on sees if not."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from suffice.audit.auditor import audit_case
from suffice.audit.cases_parties import _RECORDS, _coupled, _Sent, _Trained
from suffice.audit.registry import case_named
from suffice.owner.parties.contribution import PartyContribution
from suffice.owner.parties.ensemble import PrivateEnsemble

ALPHA = 1e-7  # of each bound below: the chance that a sound mechanism is flagged here


def trained(method, **changed):
    return _Trained(PrivateEnsemble(4.0, delta=0.01, method=method, lam=20.0), **changed)


def total(mechanism, data):
    procedure = mechanism.procedure(data)
    make = partial(procedure.accumulator, identified=False)
    exact = mechanism.source(data).fold(procedure.public.parts(), make)
    return exact.result().total


@pytest.mark.parametrize("method", ["operator", "vote-table", "average"])
def test_a_sum_is_one_term_for_each_party(method):
    """sum(a, b) = sum(a, none) + sum(none, b): no party's records change another's term."""
    sound = trained(method)
    for a, b in product(_RECORDS, repeat=2):
        parts = [total(sound, data) for data in ((a, "no records"), ("no records", b))]
        assert np.array_equal(total(sound, (a, b)), parts[0] + parts[1])
    coupled = trained(method, training_records=_coupled)
    differing = [
        not np.array_equal(
            total(coupled, (a, b)),
            total(coupled, (a, "no records")) + total(coupled, ("no records", b)),
        )
        for a, b in product(_RECORDS, repeat=2)
    ]
    assert any(differing)


def test_what_a_party_sends_does_not_depend_on_the_others():
    sent = _Sent(PrivateEnsemble(4.0, delta=0.01, method="operator", lam=20.0))
    first = {
        sent.contributions(("mixed records", other))[0][0] for other in ("one class", "one record")
    }
    assert len(first) == 1
    assert PartyContribution.load(first.pop()).party == "a"


@pytest.mark.parametrize(
    ("name", "flagged"),
    [
        ("parties' records, operator", False),
        ("parties' records, operator / training coupled", True),
        ("parties' records, vote-table / seed from the records", True),
        ("parties' records, average", False),
        ("parties' records, average / not held to the ball", True),
        ("parties' records, contributions sent / records counted", True),
    ],
)
def test_an_audit_from_records_on_flags_the_broken_and_not_the_sound(name, flagged):
    finding = audit_case(case_named(name), seed=1, effort=0.4, alpha=ALPHA)
    assert finding.violated == flagged == finding.broken
