"""A ledger with a long history: what is kept of it decides, and nothing that was edited does."""

import threading

import pytest

from suffice.errors import BudgetError, LedgerError, StorageError
from suffice.owner.ledger import Ledger, Request
from suffice.privacy.accounting import Tally, fits, spent_epsilon
from suffice.privacy.events import Approximate, Gaussian, Laplace, Pure
from suffice.privacy.guarantee import Budget, Guarantee, Unit

COST, CHARGES = 0.125, 40  # more charges than one charge looks at
PROMISE = [Guarantee(unit=Unit.LABEL, event=Laplace(COST))]


@pytest.fixture
def address(place) -> str:
    """Return what a ledger in either store is opened by, whose budget is spent but for one."""
    ledger = Ledger(place("l"), {"d": Budget((CHARGES + 1) * COST)})
    for number in range(CHARGES):
        assert ledger.debit("d", PROMISE, Request(f"r{number}", {})) is None
        ledger.finish("d", f"r{number}", b"bytes %d" % number)
    return place("l")


def edit(ledger: Ledger, statement: str) -> None:
    """Change a table behind the back of those who use the ledger."""
    with ledger.store.writing() as records:
        assert records.db.execute(statement).rowcount > 0


def test_edited_rows_of_charges_change_no_decision(address):
    running = Ledger(address)
    assert running.debit("d", PROMISE, Request("the last", {})) is None
    edit(running, "UPDATE debits SET spent = '[]' WHERE number < 5")  # it has looked at these
    with pytest.raises(BudgetError, match="exceed"):
        running.debit("d", PROMISE, Request("one more", {}))
    assert running.balances()[0].spent == (CHARGES + 1) * COST
    with pytest.raises(LedgerError, match=r"frozen|disagree"):  # and the next opening notices
        Ledger(address).debit("d", PROMISE, Request("after a restart", {}))


def test_a_charge_that_was_deleted_is_not_drawn_anew(address):
    running = Ledger(address)
    with running.store.writing() as records:
        for table in ("outputs", "debits"):
            records.db.execute(f"DELETE FROM {table} WHERE number = {CHARGES}")
    with pytest.raises(LedgerError, match="disagree"):
        running.debit("d", PROMISE, Request(f"r{CHARGES - 1}", {}))


def test_every_charge_has_its_turn(address):
    """A running process notices an edited row after a few charges, wherever it is."""
    running = Ledger(address)
    edit(running, "UPDATE debits SET parameters = '{}', spent = '[]' WHERE number = 38")
    small = [Guarantee(unit=Unit.LABEL, event=Laplace(1e-6))]
    assert running.debit("d", small, Request("looks at the first of them", {})) is None
    with pytest.raises(LedgerError, match="'r37' of data set 'd'"):
        running.debit("d", small, Request("looks at the rest", {}))


@pytest.mark.parametrize("first", [Laplace(0.1), Gaussian(30.0, 1e-9, 1e-12)])
def test_a_tally_answers_as_the_list_does(first):
    others = [Laplace(0.1), Pure(0.3), Approximate(0.2, 1e-9), Gaussian(40.0, 1e-9), Pure(0.1)]
    charges = [first, *others * 7]
    tally = Tally()
    for charge in charges:
        tally.add(charge)
    spent = spent_epsilon(charges, 1e-5)
    assert spent_epsilon(tally, 1e-5) == spent
    for epsilon in (0.999 * spent, 1.001 * spent, 1.1 * spent, 2 * spent):
        assert fits(tally, epsilon, 1e-5) == fits(charges, epsilon, 1e-5) == (epsilon > spent)
        more = fits([*charges, Pure(0.5)], epsilon, 1e-5)
        assert fits(tally.plus(Pure(0.5)), epsilon, 1e-5) == more


def test_readers_do_not_wait_for_each_other(place):
    """Two read at once: each waits inside its block until the other is in its own."""
    ledger, both = Ledger(place("l"), {"d": Budget(1.0)}), threading.Barrier(2, timeout=60)

    def read() -> None:
        with ledger.store.reading() as records:
            records.datasets()
            both.wait()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not both.broken


def test_a_backup_opens_frozen_and_draws_nothing_again(place, tmp_path):
    """Thirty backups of a ledger that is in use: 0 second draws, and what is stored comes back."""
    ledger = Ledger(place("l"), {"d": Budget(100.0)}, anchor="none")
    drawn = 0
    for number in range(30):
        assert ledger.debit("d", PROMISE, Request(f"r{number}", {})) is None
        if number % 3:  # every third one is still being drawn when the backup is made
            ledger.finish("d", f"r{number}", b"bytes %d" % number)
        ledger.backup(tmp_path / f"backup{number}")
        copy = Ledger(tmp_path / f"backup{number}")
        assert "backup" in copy.frozen
        copy.verify()
        for name in (f"r{number}", "another"):
            try:
                data = copy.debit("d", PROMISE, Request(name, {}))
            except LedgerError:
                continue
            drawn += data is None
            assert data == b"bytes %d" % number
        if not number % 3:
            ledger.finish("d", f"r{number}", b"bytes %d" % number)
    assert drawn == 0
    assert copy.balances() == ledger.balances()
    assert ledger.frozen == ""
    with pytest.raises(StorageError, match="exists"):
        ledger.backup(tmp_path / "backup0")
    copy.recover()  # its owner states that this is the only copy from now on
    assert copy.debit("d", PROMISE, Request("another", {})) is None
