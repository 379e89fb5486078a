"""Who released it: Ed25519 signatures over the manifest, which holds the payload's hash."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from suffice.errors import SignatureError, StorageError
from suffice.releases.file import read_bounded, write_whole
from suffice.releases.release import Release, Signature, manifest_bytes

_MOST_KEY_BYTES = 1 << 16
_END = b"-----END PUBLIC KEY-----"


def generate_keys(stem: str | Path) -> tuple[Path, Path]:
    """Write a new private key to ``stem.key`` and its public key to ``stem.pub``.

    Only the owner of the file can read the private key.

    Raises
    ------
    StorageError
        If one of the files exists.
    """
    private, public = Path(f"{stem}.key"), Path(f"{stem}.pub")
    for path in (private, public):
        if path.exists():
            raise StorageError(f"{path} exists already. A key is never overwritten.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption())
    shared = key.public_key().public_bytes(ser.Encoding.PEM, ser.PublicFormat.SubjectPublicKeyInfo)
    write_whole(private, secret, mode=0o600, overwrite=False)
    write_whole(public, shared, overwrite=False)
    return private, public


def sign(release: Release, private_key: str | Path) -> Release:
    """Return the release with a signature.

    Parameters
    ----------
    release
        The release; an earlier signature is replaced.
    private_key
        The file of the private key.

    Raises
    ------
    SignatureError
        If the file holds no Ed25519 private key.
    """
    manifest = manifest_bytes(release)
    return replace(release, signature=sign_message(private_key, lambda _: manifest))


def sign_message(private_key: str | Path, message: Callable[[bytes], bytes]) -> Signature:
    """Return the signature of a message with the private key in a file.

    Parameters
    ----------
    private_key
        The file of the private key.
    message
        Returns the signed bytes; it gets the public key, which they may contain.

    Raises
    ------
    SignatureError
        If the file holds no Ed25519 private key.
    """
    key = signing_key(private_key)
    public = key.public_key().public_bytes_raw()
    return Signature(public, key.sign(message(public)))


def signing_key(path: str | Path) -> Ed25519PrivateKey:
    """Return the private key in a file, or raise a SignatureError."""
    try:
        data = read_bounded(Path(path), _MOST_KEY_BYTES)
        key = ser.load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path} holds no Ed25519 private key. Make one with suffice keygen.")
    return key


def trusted_keys(path: str | Path) -> list[Ed25519PublicKey]:
    """Return the public keys in a file, one after the other, or raise a SignatureError.

    Whoever trusts several keys of an owner, such as an old and a new one, keeps them in one file.
    A key that is taken out of it is trusted no more.
    """
    data = read_bounded(Path(path), _MOST_KEY_BYTES)
    blocks = [part + _END for part in data.split(_END)[:-1]]
    try:
        keys = [ser.load_pem_public_key(block) for block in blocks]
    except (ValueError, UnsupportedAlgorithm):
        keys = []
    good = [key for key in keys if isinstance(key, Ed25519PublicKey)]
    if not good or len(good) < len(keys):
        raise SignatureError(f"{path} holds no Ed25519 public key. Make one with suffice keygen.")
    return good


def check_signature(signature: Signature, manifest: bytes) -> None:
    """Raise unless the signature is valid for its own key."""
    try:
        Ed25519PublicKey.from_public_bytes(signature.key).verify(signature.value, manifest)
    except (InvalidSignature, ValueError):
        raise SignatureError("The signature does not belong to this manifest.") from None


def verify(release: Release, public_key: str | Path) -> None:
    """Raise unless the release is signed with the private key that belongs to this public key.

    Parameters
    ----------
    release
        The release.
    public_key
        The file of the public key. If it holds several, one of them must have signed.

    Raises
    ------
    SignatureError
        If the release is not signed, or with another key.
    """
    if release.signature is None:
        trusted_keys(public_key)  # a file without a key is the first thing to mend
        raise SignatureError("The release is not signed.")
    check_signer(release.signature, public_key, "release")
    check_signature(release.signature, manifest_bytes(release))


def check_signer(signature: Signature, public_key: str | Path, noun: str) -> None:
    """Raise unless a signature is of a key in this file; ``noun`` names what is signed."""
    if signature.key not in {key.public_bytes_raw() for key in trusted_keys(public_key)}:
        raise SignatureError(f"The {noun} is signed, but with another key.")


def fingerprint(signature: Signature) -> str:
    """Return a short name of the signing key, for people to compare."""
    return _short_hash(signature.key)


def key_fingerprint(data: bytes) -> tuple[str, bool]:
    """Return the short name of the key in a file, and whether it is a private one.

    Both keys of a pair have the same name, which is that of the signatures they belong to.
    """
    private = data.startswith(b"-----BEGIN PRIVATE KEY-----")
    try:
        key = (
            ser.load_pem_private_key(data, password=None).public_key()
            if private
            else ser.load_pem_public_key(data)
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError("This file holds no Ed25519 key. Make one with `suffice keygen`.")
    return _short_hash(key.public_bytes_raw()), private


def _short_hash(key: bytes) -> str:
    import hashlib

    return hashlib.sha256(key).hexdigest()[:16]
