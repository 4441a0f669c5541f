"""A signature over SHA256SUMS, and thereby over every file: who holds the key said that this is the dossier.

The file SHA256SUMS.sig holds the 64 bytes of an Ed25519 signature (RFC 8032) of SHA256SUMS. Other tools read it too:

    openssl pkeyutl -verify -rawin -pubin -inkey public.pem -in SHA256SUMS -sigfile SHA256SUMS.sig
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from testigo.dossier import sums
from testigo.errors import MissingExtra, WorkspaceError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NAME = sums.SIGNATURE
_MAKE = "openssl genpkey -algorithm ed25519 -out KEY.pem; openssl pkey -in KEY.pem -pubout -out PUBLIC.pem"


def sign(folder: Path, key: Path) -> Path:
    """Sign the dossier's SHA256SUMS with a private key, and return the signature's file.

    Parameters
    ----------
    key
        An Ed25519 key without a password: PEM (PKCS#8) or OpenSSH.

    Raises
    ------
    WorkspaceError
        When the key is none of that kind.
    MissingExtra
        When the library that signs is not installed.
    """
    content = (folder / sums.NAME).read_bytes()
    made = _private(key).sign(content)
    path = folder / NAME
    path.write_bytes(made)
    return path


def faults_of(folder: Path, key: Path) -> Iterable[str]:
    """What is wrong with the dossier's signature under a public key.

    Raises
    ------
    WorkspaceError
        When the key is none.
    """
    from cryptography.exceptions import InvalidSignature

    public = _public(key)
    path = folder / NAME
    if not path.is_file():
        return [f"{NAME}: missing: the dossier is not signed"]
    try:
        public.verify(path.read_bytes(), (folder / sums.NAME).read_bytes())
    except InvalidSignature:
        return [f"{NAME}: is not the signature of {sums.NAME} by this key"]
    except OSError:
        return [f"{sums.NAME}: missing"]
    return []


def check_key(key: Path, *, public: bool) -> None:
    """Raise WorkspaceError when the file holds no key of the kind that is needed: asked before the long work."""
    if public:
        _public(key)
    else:
        _private(key)


def _private(path: Path) -> Ed25519PrivateKey:
    _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    content = _content(path)
    load = load_ssh_private_key if b"OPENSSH" in content[:60] else load_pem_private_key
    try:
        key = load(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _no_key(path, "private", str(error).splitlines()[0]) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key(path, "private", f"a key of another kind, {type(key).__name__.removesuffix('PrivateKey')}")
    return key


def _public(path: Path) -> Ed25519PublicKey:
    _library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

    content = _content(path)
    load = load_ssh_public_key if content.startswith(b"ssh-") else load_pem_public_key
    try:
        key = load(content)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _no_key(path, "public", str(error).splitlines()[0]) from error
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key(path, "public", f"a key of another kind, {type(key).__name__.removesuffix('PublicKey')}")
    return key


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WorkspaceError(
            expected="a file with a key", found=error.strerror or str(error), where=str(path), action=_MAKE
        ) from error


def _no_key(path: Path, which: str, found: str) -> WorkspaceError:
    return WorkspaceError(
        expected=f"an Ed25519 {which} key without a password", found=found, where=str(path), action=_MAKE
    )


def _library() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise MissingExtra("cryptography", "sign", "signs dossiers") from error
