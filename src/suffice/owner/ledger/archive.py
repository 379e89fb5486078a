"""Archives of a ledger: old releases and proposals in one signed file, which the log names.

An archive is a zip file. ``releases/N.suffice`` are the bytes of the charge of number N, and
``proposals/N/`` has body, answer, signature and record of a service's proposal. ``manifest.json``
has the SHA-256 of each of them, and ``signature.txt`` signs the manifest (Ed25519). What is in it
is no more secret than releases and proposals are.

The ledger that it was taken from keeps every charge, every digest and the whole log. Its log holds
the SHA-256 of the whole file, so that it takes nothing from another one.
"""

import hashlib
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from suffice import strict_json
from suffice.errors import (
    CorruptFileError,
    ParameterError,
    SignatureError,
    StorageError,
    SufficeError,
)
from suffice.owner.ledger.log import digest_of_bytes
from suffice.owner.ledger.store import whole_folder
from suffice.releases.release import Signature
from suffice.releases.signing import check_signature, check_signer, fingerprint, sign_message

SUFFIX = ".archive"
_MANIFEST, _SIGNATURE = "manifest.json", "signature.txt"
_SIGNED_BY = re.compile(rb"key ([0-9a-f]{64})\nsignature ([0-9a-f]{128})\n")
_DIGESTS: dict[tuple[str, int, int, int], str] = {}  # of files, as long as they do not change


@dataclass(frozen=True)
class Manifest:
    """What an archive holds, and of which ledger."""

    suffice: Literal["archive"]
    version: Literal[1]
    ledger: str  # its name
    charges: int  # the releases are of charges up to this number
    members: Mapping[str, str]  # SHA-256 by name


@dataclass(frozen=True)
class Archive:
    """An archive whose signature and contents were checked."""

    manifest: Manifest
    signature: Signature
    digest: str  # SHA-256 of the whole file, as the log of its ledger has it

    @property
    def key_id(self) -> str:
        """The short name of the signing key, as `suffice inspect` shows it for key files."""
        return fingerprint(self.signature)

    @property
    def releases(self) -> int:
        """How many releases it holds."""
        return sum(name.startswith("releases/") for name in self.manifest.members)

    @property
    def proposals(self) -> int:
        """How many proposals it holds."""
        return sum(name.endswith("/record.json") for name in self.manifest.members)

    @classmethod
    def load(cls, path: str | Path, key: str | Path | None = None) -> Self:
        """Return an archive, after checking all of it; with a public key, it must be of that key.

        Raises
        ------
        CorruptFileError
            If this is no archive, or something in it is not what its manifest says.
        SignatureError
            If the signature does not belong to it, or is of another key.
        """
        try:
            with zipfile.ZipFile(path) as file:
                if any(member.compress_type or member.flag_bits for member in file.infolist()):
                    raise zipfile.BadZipFile  # noqa: TRY301  # three MB could become three GB
                data = file.read(_MANIFEST)
                signed = _SIGNED_BY.fullmatch(file.read(_SIGNATURE))
                manifest = strict_json.read(Manifest, strict_json.parse(data), "manifest")
                names = {*file.namelist()} - {_MANIFEST, _SIGNATURE}
                same = names == manifest.members.keys() and all(
                    digest_of_bytes(file.read(name)) == digest
                    for name, digest in manifest.members.items()
                )
        except SufficeError:
            raise
        except (OSError, LookupError, EOFError, RuntimeError, ValueError, zipfile.BadZipFile):
            raise CorruptFileError("This is not an archive of a suffice ledger.") from None
        if not same or signed is None:
            raise CorruptFileError("The archive does not hold what its manifest says.")
        signature = Signature(*(bytes.fromhex(part.decode()) for part in signed.groups()))
        try:
            check_signature(signature, _message(data))
        except SignatureError:
            raise SignatureError("The signature does not belong to this archive.") from None
        if key is not None:
            check_signer(signature, key, "archive")
        return cls(manifest, signature, _digest(Path(path)))


def _message(manifest: bytes) -> bytes:
    """Return what is signed of an archive with this manifest."""
    return f"suffice archive 1 sha256 {digest_of_bytes(manifest)}\n".encode()


def write_archive(
    path: Path,
    members: Iterable[tuple[str, bytes]],
    ledger: str,
    charges: int,
    private_key: str | Path,
) -> Archive:
    """Write a new archive, signed, and make it durable under its name; overwrite nothing."""
    if path.suffix != SUFFIX:
        raise ParameterError(f"Let the name of an archive end with {SUFFIX}, to be found again.")
    digests: dict[str, str] = {}
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        with (
            whole_folder(path.parent),
            os.fdopen(os.open(path, flags, 0o600), "wb") as raw,
        ):
            try:
                with zipfile.ZipFile(raw, "w") as file:
                    for name, data in members:
                        digests[name] = digest_of_bytes(data)
                        file.writestr(zipfile.ZipInfo(name), data)
                    manifest = Manifest("archive", 1, ledger, charges, digests)
                    written = strict_json.canonical(vars(manifest))
                    file.writestr(zipfile.ZipInfo(_MANIFEST), written)
                    signature = sign_message(private_key, lambda _: _message(written))
                    lines = f"key {signature.key.hex()}\nsignature {signature.value.hex()}\n"
                    file.writestr(zipfile.ZipInfo(_SIGNATURE), lines)
                raw.flush()
                os.fsync(raw.fileno())
            except BaseException:
                path.unlink()
                raise
    except FileExistsError:
        raise StorageError(f"{path} exists. An archive overwrites nothing: name another.") from None
    except OSError as error:
        raise StorageError(f"The archive {path} cannot be written: {error.strerror}.") from None
    return Archive(manifest, signature, _digest(path))


def read_member(folder: Path, name: str, digests: Collection[str]) -> bytes | None:
    """Return what an archive in a folder holds under a name, or None.

    Only files whose SHA-256 is one of ``digests`` are believed.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")) if digests else ():
        with suppress(OSError, KeyError, zipfile.BadZipFile):
            if _digest(path) in digests:
                with zipfile.ZipFile(path) as file:
                    return file.read(name)
    return None


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; it is read once, as long as it does not change."""
    about = path.stat()
    place = (str(path), about.st_ino, about.st_size, about.st_mtime_ns)
    if place not in _DIGESTS:
        with path.open("rb") as file:
            _DIGESTS[place] = hashlib.file_digest(file, "sha256").hexdigest()
    return _DIGESTS[place]
