"""Slips in the sign-in at a provider, and in what whoever runs the service is told."""

from mutant import Mutant, Place

_FILE = "service/sign_in.py"
_TESTS = "transport/http/test_sign_in.py::"
_OURS = f"{_TESTS}test_a_token_that_is_not_ours_is_refused"
_SIGNED = f"{_TESTS}test_a_token_that_the_provider_did_not_sign_is_refused"
_CODE = f"{_TESTS}test_a_code_is_good_once_and_for_the_browser_that_began"
_ROTATED = f"{_TESTS}test_rotated_keys_are_followed_and_old_ones_forgotten"
_REMOVED = f"{_TESTS}test_a_session_ends_when_its_person_is_removed_or_gets_another_role"
_OPERATION = "transport/http/test_operation.py::"

MUTANTS = (
    Mutant(
        "expired-sign-in",
        _FILE,
        "jwt.JWTClaimsRegistry(now=now, exp",
        "jwt.JWTClaimsRegistry(now=0, exp",
        (_OURS,),
        "A token that somebody kept opens the owner's pages for ever.",
    ),
    Mutant(
        "sign-in-without-an-end",
        _FILE,
        'exp={"essential": True}',
        'exp={"essential": False}',
        (_OURS,),
        "A token without an end is good for ever.",
    ),
    Mutant(
        "another-issuer",
        _FILE,
        'if claims.get("iss") != provider.issuer:',
        'if not claims.get("iss"):',
        (_OURS,),
        "Another issuer's person signs in.",
    ),
    Mutant(
        "another-audience",
        _FILE,
        "if provider.client_id not in audiences:",
        "if not audiences:",
        (_OURS,),
        "A token that a person gave to another application opens the owner's pages.",
    ),
    Mutant(
        "another-client",
        _FILE,
        'len(audiences) > 1 and claims.get("azp") != provider.client_id',
        'len(audiences) > 9 and claims.get("azp") != provider.client_id',
        (_OURS,),
        "Another application that is trusted a little signs in as its users.",
    ),
    Mutant(
        "any-nonce",
        _FILE,
        'hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode())',
        "hmac.compare_digest(nonce.encode(), nonce.encode())",
        (_OURS,),
        "A token of an earlier sign-in is put into another one.",
    ),
    Mutant(
        "any-subject",
        _FILE,
        '(person.issuer, person.subject) == (claims["iss"], claims.get("sub"))',
        'person.issuer == claims["iss"] and claims.get("email")',
        (_OURS,),
        "Whoever has an account at the provider is the first person of the settings.",
    ),
    Mutant(
        "unsigned-tokens",
        _FILE,
        'ASYMMETRIC = ("RS256",',
        'ASYMMETRIC = ("none", "RS256",',
        (_SIGNED,),
        "Whoever knows a subject writes a token for it, without a key.",
    ),
    Mutant(
        "code-used-twice",
        _FILE,
        'response.delete_cookie(_COOKIE, path=f"{self._server.prefix}/sign-in")',
        "del response",
        (_CODE,),
        "An address in a browser's history signs the next reader in.",
    ),
    Mutant(
        "old-keys-believed",
        _FILE,
        "self._keys = jwk.KeySet.import_key_set(keys)",
        "kept = [] if self._keys is None else self._keys.keys\n"
        "                    new = jwk.KeySet.import_key_set(keys).keys\n"
        "                    self._keys = jwk.KeySet([*kept, *new])",
        (_ROTATED,),
        "Whoever stole a key that the provider took back signs in as anybody.",
    ),
    Mutant(
        "keys-never-looked-at-again",
        _FILE,
        "self._about, self._keys = (time.monotonic(), about), None",
        "self._about = (time.monotonic(), about)",
        (f"{_TESTS}test_a_key_that_the_provider_took_back_is_believed_for_an_hour_at_most",),
        "A key that was stolen is believed until somebody signs in with its successor.",
    ),
    Mutant(
        "symmetric-algorithms",
        _FILE,
        'ASYMMETRIC = ("RS256",',
        'ASYMMETRIC = ("HS256", "none", "RS256",',
        (_SIGNED,),
        "Whoever reads the provider's public keys signs with one of them.",
    ),
    Mutant(
        "any-state",
        _FILE,
        'hmac.compare_digest(given.get("state", "").encode(), state.encode())',
        "hmac.compare_digest(state.encode(), state.encode())",
        (_CODE,),
        "A reader is signed in as an attacker, and decides under that name.",
    ),
    Mutant(
        "any-browser",
        _FILE,
        "if len(kept) != 3:",
        'kept = kept if len(kept) == 3 else [given.get("state", ""), "", ""]\n        if len(kept) != 3:',
        (_CODE,),
        "An address that an attacker sends signs a reader in.",
    ),
    Mutant(
        "no-proof-of-the-code",
        _FILE,
        '            "code_verifier": verifier,\n',
        "",
        (f"{_TESTS}test_a_named_person_signs_in_and_decides_under_that_name",),
        "A code that leaked on its way is enough.",
    ),
    Mutant(
        "another-provider",
        _FILE,
        'if given.get("iss", self.provider.issuer) != self.provider.issuer:',
        "if not self.provider.issuer:",
        (_CODE,),
        "A code of one provider is sent to another one.",
    ),
    Mutant(
        "keys-for-ever",
        _FILE,
        "if self._keys is None or not known:",
        "if self._keys is None:",
        (_ROTATED,),
        "Nobody signs in after the provider changed its keys.",
    ),
    Mutant(
        "provider-without-tls",
        _FILE,
        'check_secure(f"The provider\'s {name}", str(about.get(name)))',
        "str(about.get(name))",
        (f"{_TESTS}test_a_provider_that_lies_or_is_away_lets_nobody_in",),
        "Others on the network read codes, and answer in the provider's name.",
    ),
    Mutant(
        "removed-person",
        "service/auth.py",
        "return not is_person or (token.holder, token.role, token.scope) in known",
        "return not is_person or bool(known)",
        (_REMOVED,),
        "Whoever left the clinic decides until the evening.",
    ),
    Mutant(
        "long-working-day",
        "service/auth.py",
        "or now >= expires or",
        "or",
        (f"{_TESTS}test_a_session_ends_with_the_working_day",),
        "A browser that was left open decides on the next day.",
        also=(
            Place(
                "service/auth.py",
                "expires = token.made + timedelta(hours=_HOURS)",
                "expires = token.made + timedelta(days=7)",
            ),
        ),
    ),
    Mutant(
        "person-by-token",
        "owner/ledger/tokens.py",
        "if holder.startswith(SIGNED_IN):",
        'if holder == "":',
        (f"{_TESTS}test_nobody_makes_a_token_that_looks_like_a_person",),
        "An owner's token makes another that decides in somebody else's name.",
    ),
    Mutant(
        "decision-without-a-name",
        "service/records.py",
        'return {**about, "token": by.id, "by": by.holder}',
        'return {**about, "token": by.id, "by": ""}',
        (f"{_TESTS}test_a_named_person_signs_in_and_decides_under_that_name",),
        "Nobody can say who granted.",
    ),
    Mutant(
        "words-for-strangers",
        "service/app.py",
        "return Response(status_code=200 if (await readiness.report()).ready else 503)",
        "return json_response(await readiness.report())",
        (f"{_OPERATION}test_metrics_and_reasons_are_for_the_operator_alone",),
        "A learner reads what fails over the private table, and how many proposals others sent.",
    ),
    Mutant(
        "locked-out-by-others",
        "service/auth.py",
        "            # A good token is never counted: others at the same address lock nobody out.\n",
        "            pass\n        self._unauthenticated.check(address_of(request))\n        if token is None:\n",
        (f"{_OPERATION}test_good_sign_ins_are_not_counted_and_bad_ones_lock_nobody_out",),
        "Bad sign-ins from one address keep the owner out.",
    ),
    Mutant(
        "a-token-approves",
        "service/workers.py",
        "            person = self.person(by)\n",
        "            person = self.person(by) or self.settings.sign_in.people[-1]\n",
        (
            "transport/http/test_second_approver.py::test_no_token_agrees_neither_the_first_nor_one_that_the_first_made",
        ),
        "The first approver makes a token, and is the second one with it.",
    ),
    Mutant(
        "a-new-name-is-another-person",
        "service/records.py",
        "any(holder.endswith(identity) for holder in earlier)",
        "by.holder in earlier",
        (
            "transport/http/test_second_approver.py::test_one_person_who_signs_in_twice_is_one_person",
        ),
        "Whoever is renamed in the settings approves a second time.",
    ),
)
