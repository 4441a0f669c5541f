"""A dossier given away: one byte of any file, one event, one row, another base, another key are each named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from testigo.cli import run
from testigo.dossier import in_fresh_process, signature, sums, verify_dossier
from testigo.errors import WorkspaceError


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private and a public key, as openssl writes them."""
    return write_keys(tmp_path_factory.mktemp("keys"))


def write_keys(folder: Path) -> tuple[Path, Path]:
    key = Ed25519PrivateKey.generate()
    private, public = folder / "key.pem", folder / "public.pem"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


@pytest.fixture(scope="module")
def given(told: Any, keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The signed dossier alone, in another folder, without its workspace: as on another machine."""
    folder = tmp_path_factory.mktemp("given") / "received"
    shutil.copytree(told.workspace.dossier, folder)
    signature.sign(folder, keys[0])
    return folder


@pytest.fixture
def restored(given: Path) -> Iterator[Path]:
    """The given dossier; whatever a test changes is put back."""
    kept = {path: path.read_bytes() for path in given.rglob("*") if path.is_file()}
    yield given
    for path in [path for path in given.rglob("*") if path.is_file() and path not in kept]:
        path.unlink()
    for path, content in kept.items():
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)


def every_file() -> list[str]:
    """The kinds of files of a dossier; a test says that no other is there."""
    return [
        "index.html", "dossier.json", "dossier.schema.json", "MODEL_CARD.md", "campaign.yaml", "events.jsonl",
        "ro-crate-metadata.json", "croissant.json", "SHA256SUMS", "SHA256SUMS.sig",
        "adapter/testigo.json", "adapter/adapter_model.safetensors", "adapter/adapter_config.json",
        "adapter/tokenizer.json", "adapter/chat_template.jinja", "adapter/generation_config.json",
        "predictions/baseline/validation.jsonl", "predictions/baseline/validation.meta.json",
        "predictions/runs/*/validation.jsonl", "predictions/runs/*/validation.meta.json",
        "evidence/corpus/manifest.json", "evidence/corpus/rows.jsonl", "evidence/corpus/validation.json",
        "evidence/pilot/phases.json", "evidence/pilot/findings.json", "evidence/runs/*/steps.jsonl",
        "evidence/runs/*/result.json", "evidence/runs/*/findings.jsonl",
    ]  # fmt: skip


def test_the_list_of_files_is_that_of_a_dossier(given: Path) -> None:
    named = {path for pattern in every_file() for path in given.glob(pattern)}
    assert named == {path for path in given.rglob("*") if path.is_file()}


def test_a_dossier_that_was_moved_is_whole_and_signed(given: Path, keys: tuple[Path, Path]) -> None:
    result = verify_dossier(given, key=keys[1])
    assert result.faults == ()
    assert "the signature" in result.checked
    assert verify_dossier(given).not_checked[0] == "the signature: give the public key with --key PUBLIC"


@pytest.mark.parametrize("pattern", every_file())
def test_one_changed_byte_in_any_file_is_named(restored: Path, keys: tuple[Path, Path], pattern: str) -> None:
    path = sorted(restored.glob(pattern))[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    result = verify_dossier(restored, key=keys[1])
    name = path.relative_to(restored).as_posix()
    assert any(fault.startswith(f"{name}: ") or f" {name} " in fault for fault in result.faults), result.faults


@pytest.mark.parametrize("pattern", every_file())
def test_a_file_that_is_gone_is_named(restored: Path, keys: tuple[Path, Path], pattern: str) -> None:
    path = sorted(restored.glob(pattern))[0]
    path.unlink()
    faults = verify_dossier(restored, key=keys[1]).faults
    assert any(fault.startswith(f"{path.relative_to(restored).as_posix()}: missing") for fault in faults), faults


def test_one_event_is_named_by_its_number_though_all_digests_are_written_again(restored: Path) -> None:
    path = restored / "events.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    event = json.loads(lines[4])
    event["body"]["added"] = "later"
    lines[4] = json.dumps(event)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sums.write_sums(restored)
    assert any(fault.startswith(f"events.jsonl: event {event['number']} ") for fault in verify_dossier(restored).faults)


def test_one_row_of_outputs_is_named_though_all_digests_are_written_again(restored: Path) -> None:
    record = json.loads((restored / "dossier.json").read_text(encoding="utf-8"))
    path = restored / record["comparison"]["tuned_file"]
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:3], *lines[4:]]) + "\n", encoding="utf-8")
    sums.write_sums(restored)
    faults = verify_dossier(restored).faults
    assert f"{record['comparison']['tuned_file']}: is not the file that the ledger recorded" in faults


def test_hashes_written_again_are_found_by_the_signature(restored: Path, keys: tuple[Path, Path]) -> None:
    (restored / "adapter" / "notes.txt").write_text("more", encoding="utf-8")
    sums.write_sums(restored)
    faults = verify_dossier(restored, key=keys[1]).faults
    assert "SHA256SUMS.sig: is not the signature of SHA256SUMS by this key" in faults


def test_another_key_and_a_missing_signature_are_named(restored: Path, tmp_path: Path) -> None:
    other = write_keys(tmp_path)[1]
    assert verify_dossier(restored, key=other).faults == (
        "SHA256SUMS.sig: is not the signature of SHA256SUMS by this key",
    )
    (restored / "SHA256SUMS.sig").unlink()
    assert verify_dossier(restored, key=other).faults == ("SHA256SUMS.sig: missing: the dossier is not signed",)


def test_another_base_is_named(given: Path, tmp_path: Path) -> None:
    result = verify_dossier(given, control=in_fresh_process(f"path:{tmp_path}"))
    assert [fault for fault in result.faults if "control inputs" in fault and str(tmp_path) in fault]


def test_the_commands_sign_and_check_the_signature(
    story: Any, keys: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["dossier", str(story.workspace.root), "--sign", str(keys[0])]) == 0
    moved = tmp_path / "elsewhere"
    shutil.move(story.workspace.dossier, moved)
    shutil.rmtree(story.workspace.root)
    capsys.readouterr()
    assert run(["verify", str(moved), "--no-control", "--key", str(keys[1]), "--json"]) == 0
    assert "the signature" in json.loads(capsys.readouterr().out)["checked"]
    assert run(["verify", str(moved), "--no-control", "--key", str(write_keys(tmp_path)[1])]) == 1
    assert "SHA256SUMS.sig: is not the signature" in capsys.readouterr().out


def test_openssl_reads_the_signature(given: Path, keys: tuple[Path, Path]) -> None:
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(keys[1])]
    command += ["-in", str(given / "SHA256SUMS"), "-sigfile", str(given / "SHA256SUMS.sig")]
    assert "Verified Successfully" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_key_of_another_kind_or_none_is_refused_before_anything_is_written(given: Path, tmp_path: Path) -> None:
    rsa = tmp_path / "rsa.pem"
    rsa.write_bytes(
        generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    for key, found in ((rsa, "another kind"), (given / "campaign.yaml", ""), (tmp_path / "none.pem", "No such file")):
        with pytest.raises(WorkspaceError) as caught:
            signature.check_key(key, public=False)
        assert found in caught.value.problems[0].found
        assert "openssl genpkey" in caught.value.problems[0].action
    with pytest.raises(WorkspaceError):
        verify_dossier(given, key=rsa)


def test_the_dossier_is_read_without_the_library_that_signs(given: Path) -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pathlib import Path; from testigo.dossier import verify_dossier\n"
        f"assert verify_dossier(Path({str(given)!r})).ok"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
