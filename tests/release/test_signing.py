"""Signatures: the right key verifies, everything else is a SignatureError."""

import dataclasses
import stat

import pytest

from suffice.errors import SignatureError, StorageError
from suffice.releases.codec import decode
from suffice.releases.release import Signature, encode
from suffice.releases.signing import fingerprint, generate_keys, sign, verify


@pytest.fixture
def keys(tmp_path):
    return generate_keys(tmp_path / "owner")


def test_a_signed_release_verifies_after_travelling(keys, release):
    signed = decode(encode(sign(release, keys[0])))
    verify(signed, keys[1])
    assert signed.unsigned() == release
    assert len(fingerprint(signed.signature)) == 16


def test_another_key_or_no_signature_is_refused(keys, release, tmp_path):
    other = generate_keys(tmp_path / "other")
    with pytest.raises(SignatureError, match="not signed"):
        verify(release, keys[1])
    with pytest.raises(SignatureError, match="another key"):
        verify(sign(release, keys[0]), other[1])


def test_a_signature_does_not_move_to_another_release(keys, release):
    from builders import make_release

    signature = sign(release, keys[0]).signature
    forged = dataclasses.replace(make_release(seed=9), signature=signature)
    with pytest.raises(SignatureError, match="does not belong"):
        decode(encode(forged))
    with pytest.raises(SignatureError, match="does not belong"):
        verify(forged, keys[1])
    nonsense = dataclasses.replace(release, signature=Signature(signature.key, bytes(64)))
    with pytest.raises(SignatureError):
        decode(encode(nonsense))


def test_the_private_key_is_for_its_owner_alone_and_never_overwritten(keys, tmp_path):
    assert stat.S_IMODE(keys[0].stat().st_mode) == 0o600
    with pytest.raises(StorageError, match="exists"):
        generate_keys(tmp_path / "owner")


def test_a_file_that_is_no_key_is_named(tmp_path, release, keys):
    path = tmp_path / "no.key"
    path.write_text("hello")
    for wrong in (path, keys[1]):
        with pytest.raises(SignatureError, match="no Ed25519 private key"):
            sign(release, wrong)
    for wrong in (path, keys[0]):
        with pytest.raises(SignatureError, match="no Ed25519 public key"):
            verify(sign(release, keys[0]), wrong)


def test_a_file_of_several_keys_trusts_each_and_no_other(keys, release, tmp_path):
    newer, stranger = generate_keys(tmp_path / "newer"), generate_keys(tmp_path / "stranger")
    trusted = tmp_path / "trusted.pub"
    trusted.write_bytes(keys[1].read_bytes() + newer[1].read_bytes())
    for pair in (keys, newer):
        verify(sign(release, pair[0]), trusted)
    with pytest.raises(SignatureError, match="another key"):
        verify(sign(release, stranger[0]), trusted)
    trusted.write_bytes(newer[1].read_bytes())  # the older key was stolen
    with pytest.raises(SignatureError, match="another key"):
        verify(sign(release, keys[0]), trusted)
    trusted.write_bytes(newer[1].read_bytes() + b"-----END PUBLIC KEY-----")
    with pytest.raises(SignatureError, match="holds no Ed25519 public key"):
        verify(sign(release, newer[0]), trusted)
