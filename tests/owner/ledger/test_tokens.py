"""Tokens in a ledger: stored as hashes, good until they end or are revoked, and in the log."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from suffice.errors import LedgerError, ParameterError
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.tokens import mint, parse, utc_now
from suffice.privacy.guarantee import Budget

FIXTURES = Path(__file__).parents[2] / "fixtures"
SMUGGLED = """INSERT INTO tokens SELECT 'smuggled', hash, role, scope, holder, made, expires, NULL,
    NULL, 1, NULL FROM tokens"""


@pytest.fixture
def ledger(place) -> Ledger:
    return Ledger(place("l"), {"d": Budget(1.0)})


def add(ledger: Ledger, role: str = "learner", **options) -> tuple[str, str]:
    """Mint a token into a ledger; return its id and its text."""
    token, text = mint(role, **options)
    with ledger.store.writing() as records:
        records.add_token(token)
    return token.id, text


def stored(ledger: Ledger, identity: str):
    with ledger.store.reading() as records:
        return records.token(identity)


def revoke(ledger: Ledger, identity: str) -> bool:
    with ledger.store.writing() as records:
        return records.revoke_token(identity, utc_now())


def test_a_token_comes_back_as_it_was_made_until_it_is_revoked(ledger):
    token, text = mint("learner", scope=("d", "e"), holder="Ada, Example Ltd", days=2)
    assert re.fullmatch(r"suffice_[0-9a-f]{12}_[0-9a-f]{64}", text)
    with ledger.store.writing() as records:
        records.add_token(token)
    assert stored(ledger, token.id) == token
    assert stored(ledger, "nobody") is None
    assert stored(ledger, token.id).opens_with(parse(text)[1])
    assert not stored(ledger, token.id).opens_with(parse(text)[1][:-1])
    with ledger.store.writing() as records:
        records.use_token(token.id, utc_now().replace(hour=0, minute=0, second=0))
    assert stored(ledger, token.id).used.hour == 0
    assert revoke(ledger, token.id)
    assert not stored(ledger, token.id).is_good(utc_now())
    assert not revoke(ledger, "nobody")


def test_a_token_ends_with_its_days():
    token, _ = mint("officer", days=1)
    assert token.is_good(token.made)
    assert token.is_good(token.expires - timedelta(seconds=1))
    assert not token.is_good(token.expires)
    assert not token.is_good(token.made - timedelta(seconds=1))
    for role, days in (("admin", 1), ("party", 1), ("owner", 0), ("owner", 10_000), (3, 1)):
        with pytest.raises(ParameterError):
            mint(role, days=days)


def test_the_ledger_stores_no_token_and_the_log_says_who_was_given_what(ledger):
    identity, text = add(ledger, "officer", holder="Bo", scope=("d",))
    revoke(ledger, identity)
    revoke(ledger, identity)  # the second time changes nothing, and says nothing
    with ledger.store.reading() as records:
        rows = records.db.execute("SELECT * FROM tokens").fetchall()
        assert text.split("_")[2] not in repr([rows, records.log()])
        assert records.token(identity).hash in repr(rows)
        assert records.token(identity).hash not in repr(records.log())
    minted, revoked = ledger.log()[-2:]
    assert (minted.kind, revoked.kind) == ("minted", "revoked")
    assert [minted.facts[name] for name in ("token", "role", "scope", "holder")] == [
        identity, "officer", ["d"], "Bo",
    ]  # fmt: skip
    assert revoked.facts == {"token": identity}
    assert len({add(ledger)[1] for _ in range(3)}) == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tokens SET role = 'owner'",
        "UPDATE tokens SET scope = '[]'",
        "UPDATE tokens SET hash = 'another'",
        "UPDATE tokens SET holder = 'Eve'",
        "UPDATE tokens SET revoked = NULL, ended = NULL",
        "UPDATE tokens SET expires = '2999-01-01T00:00:00+00:00'",
        "DELETE FROM tokens",
        SMUGGLED,
    ],
)
def test_an_altered_token_is_noticed(ledger, statement):
    identity, _ = add(ledger, scope=("d",))
    revoke(ledger, identity)
    ledger.verify()
    with ledger.store.writing() as records:
        records.db.execute(statement)
    with pytest.raises(LedgerError, match="a token"):
        ledger.verify()


def test_a_token_of_a_role_that_this_version_does_not_know_is_no_traceback(ledger):
    identity, _ = add(ledger)
    with ledger.store.writing() as records:
        records.db.execute("UPDATE tokens SET role = 'referee'")
    with pytest.raises(LedgerError, match="newer version"):
        stored(ledger, identity)


def test_a_token_is_good_for_the_data_sets_of_its_scope_alone():
    token, _ = mint("learner", scope=("labs",))
    assert [token.covers(name) for name in ("labs", "labs2", "lab", "", "LABS")] == [
        True, False, False, False, False,
    ]  # fmt: skip
    assert mint("owner")[0].covers("labs2")


def test_only_the_whole_text_of_a_token_is_one():
    _, text = mint("learner")
    assert parse(text) is not None
    longest = text + "0" * (200 - len(text))
    assert parse(longest) is not None
    for other in (text + " ", text + "\n", f" {text}", text + ";", longest + "0", "suffice__a"):
        assert parse(other) is None


def test_a_holder_and_a_scope_are_lines_that_people_read():
    for holder in ("Ada\x1b[2J", "Ada\nBo", "A" * 201):
        with pytest.raises(ParameterError, match="holder"):
            mint("learner", holder=holder)
    for scope in (("",), ("d", ""), ("d\n",), ("d" * 201,)):
        with pytest.raises(ParameterError, match="scope"):
            mint("learner", scope=scope)
    token, _ = mint("learner", holder="Ada", scope=("d" * 200,))
    assert vars(token.record()).keys() == {
        "id", "role", "scope", "holder", "made", "expires", "revoked", "used",
    }  # fmt: skip
    assert token.hash not in str(token.record())
    used = replace(token, used=utc_now().replace(hour=13)).record().used
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", used)
