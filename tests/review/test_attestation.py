"""`gates attest` and `gates verify --signers`: a signed statement holds for the very run, and for nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import RECORDED, ROOT
from runs_kit import SWEEPS, sign

from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core import jsonio
from gates.evidence.run_directory import list_runs
from gates.review.attestation import NAMESPACE, PREDICATE_TYPE, attestation_of

FULL = list_runs(RECORDED / "h200" / "stage2_wmma_pv")[-1]
CPU = list_runs(RECORDED / "cpu" / "stage2_wmma_pv")[-1]
needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed (openssh-client)")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FULL, tmp_path / "run"))


def key_pair(folder: Path, name: str) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True)
    return folder / name


def signers_of(folder: Path, *lines: tuple[str, Path]) -> Path:
    """A file of allowed signers: each with its principal and options, and the key."""
    path = folder / "signers"
    path.write_text("".join(f"{who} {key.with_suffix('.pub').read_text()}" for who, key in lines))
    return path


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = guard(lambda: cli.main([str(argument) for argument in arguments], standalone_mode=False))
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_the_statement(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in run.rglob("*"))
    code, out, _ = told(capsys, "attest", run)
    statement = json.loads((tmp_path / "run.attestation.json").read_text())
    info = json.loads((run / "run.json").read_text())
    assert code == 0 and f"ssh-keygen -Y sign -f KEY -n {NAMESPACE}" in out and sorted(path.name for path in run.rglob("*")) == before
    assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", PREDICATE_TYPE)
    assert statement["subject"] == [{"name": "manifest.json", "digest": {"sha256": jsonio.sha256(run / "manifest.json")}}]
    predicate = statement["predicate"]
    assert (predicate["decision"], predicate["device"], predicate["tool_version"]) == ("merge", info["device"], info["tool_version"])
    assert predicate["task"]["digest"] == info["task"]["digest"] and predicate["builds"]["candidate"]["build_json_sha256"] == jsonio.sha256(
        run / "build.json"
    )
    assert (
        told(capsys, "attest", run, "-o", tmp_path / "other.json")[0] == 0
        and (tmp_path / "other.json").read_text() == (tmp_path / "run.attestation.json").read_text()
    )


def test_no_statement_about_a_run_that_is_not_sound_or_into_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "attest", run, "-o", run / "x.json")
    assert code == 2 and "whose files are evidence" in err
    (run / "notes.txt").write_text("x")
    sign(run)
    code, _, err = told(capsys, "attest", run)
    assert code == 2 and "notes.txt is not a file of a run" in err and not attestation_of(run).exists()


@needs_ssh_keygen
def test_signed_and_checked(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = key_pair(tmp_path, "judge")
    signers = signers_of(tmp_path, (f'judge@example.org namespaces="{NAMESPACE}"', key))
    assert told(capsys, "attest", run, "--key", key)[0] == 0
    code, out, err = told(capsys, "verify", run, "--signers", signers)
    assert (code, err) == (0, "") and "run: sound\n" in out and "note: signed by judge@example.org" in out
    by_hand = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        str(signers),
        "-I",
        "judge@example.org",
        "-n",
        NAMESPACE,
        "-s",
        f"{attestation_of(run)}.sig",
    ]
    assert subprocess.run(by_hand, input=attestation_of(run).read_bytes(), capture_output=True, check=False).returncode == 0


@needs_ssh_keygen
def test_signed_by_hand_as_the_command_says(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = key_pair(tmp_path, "judge")
    told(capsys, "attest", run)
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(attestation_of(run))], capture_output=True, check=True
    )
    assert told(capsys, "verify", run, "--signers", signers_of(tmp_path, ("judge", key)))[0] == 0


def edited(statement: Path, change) -> None:
    data = json.loads(statement.read_text())
    change(data)
    statement.write_text(json.dumps(data))


def signed_anew(run: Path, key: Path, change) -> None:
    edited(attestation_of(run), change)
    Path(f"{attestation_of(run)}.sig").unlink()
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(attestation_of(run))], capture_output=True, check=True
    )


def of_another_run(run: Path, key: Path, other: Path) -> None:
    for ending in ("", ".sig"):
        shutil.copyfile(f"{attestation_of(other)}{ending}", f"{attestation_of(run)}{ending}")


CHANGES = {
    "no statement": (lambda run, key, other: attestation_of(run).unlink(), "it has no attestation"),
    "unsigned": (lambda run, key, other: Path(f"{attestation_of(run)}.sig").unlink(), "an attestation without a signature"),
    "edited statement": (
        lambda run, key, other: edited(attestation_of(run), lambda data: data["predicate"].update(decision="hold")),
        "is not valid for judge",
    ),
    "an edited statement signed anew": (
        lambda run, key, other: signed_anew(run, key, lambda data: data["predicate"].update(decision="reject")),
        "differs from the run in: decision",
    ),
    "another subject signed": (
        lambda run, key, other: signed_anew(run, key, lambda data: data["subject"][0]["digest"].update(sha256="0" * 64)),
        "is about another run",
    ),
    "another kind signed": (
        lambda run, key, other: signed_anew(run, key, lambda data: data.update(predicateType="x")),
        "is a statement of another kind",
    ),
    "no object signed": (
        lambda run, key, other: signed_anew(run, key, lambda data: data.update(predicate=[])),
        "is not an in-toto statement",
    ),
    "another run's statement": (of_another_run, "is about another run"),
    "no signature": (lambda run, key, other: Path(f"{attestation_of(run)}.sig").write_text("x"), "has no valid signer"),
    "a huge file for a signature": (
        lambda run, key, other: Path(f"{attestation_of(run)}.sig").write_bytes(b"A" * 2**17),
        "is larger than 64 KiB: it is no signature",
    ),
    "a run written again": (lambda run, key, other: _written_again(run), "is about another run"),
}


def _written_again(run: Path) -> None:
    (run / "build.log").write_text((run / "build.log").read_text() + "\n")
    sign(run, rendered=False)


@needs_ssh_keygen
@pytest.mark.parametrize("name", CHANGES)
def test_what_does_not_hold(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    key, other = key_pair(tmp_path, "judge"), Path(shutil.copytree(CPU, tmp_path / "other"))
    signers = signers_of(tmp_path, ("judge", key))
    for folder in (run, other):
        assert told(capsys, "attest", folder, "--key", key)[0] == 0
    change, expected = CHANGES[name]
    change(run, key, other)
    code, out, err = told(capsys, "verify", run, other, "--signers", signers)
    assert code == 2 and expected in out and "Traceback" not in err, (out, err)
    if name != "another run's statement":
        assert f"{other}: sound" in out


@needs_ssh_keygen
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (' valid-before="20200101"', "has no valid signer|is not valid"),
        (' valid-after="20990101"', "has no valid signer|is not valid"),
        (' namespaces="file"', "has no valid signer|is not valid"),
    ],
)
def test_a_signer_who_is_not_allowed_now_or_for_this(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, expected: str
) -> None:
    key = key_pair(tmp_path, "judge")
    told(capsys, "attest", run, "--key", key)
    code, out, _ = told(capsys, "verify", run, "--signers", signers_of(tmp_path, (f"judge{options}", key)))
    assert code == 2 and any(part in out for part in expected.split("|")), out


@needs_ssh_keygen
def test_another_key(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "attest", run, "--key", key_pair(tmp_path, "judge"))
    code, out, _ = told(capsys, "verify", run, "--signers", signers_of(tmp_path, ("judge", key_pair(tmp_path, "stranger"))))
    assert code == 2 and "has no valid signer" in out
    code, out, _ = told(capsys, "verify", run, "--signers", signers_of(tmp_path))
    assert code == 2 and "has no valid signer" in out


@needs_ssh_keygen
def test_a_key_that_signs_nothing(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("no key")
    for key in (tmp_path / "nowhere", tmp_path / "text"):
        code, _, err = told(capsys, "attest", run, "--key", key)
        assert code == 2 and "ssh-keygen can't sign" in err and not attestation_of(run).exists()


@needs_ssh_keygen
def test_a_key_with_a_passphrase_and_no_terminal(run: Path, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(tmp_path / "locked")], check=True)
    command = [sys.executable, "-m", "gates", "attest", str(run), "--key", str(tmp_path / "locked")]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, check=False)
    assert done.returncode == 2 and "incorrect passphrase" in done.stderr and "a passphrase needs a terminal or ssh-agent" in done.stderr, (
        done.stderr
    )


@needs_ssh_keygen
def test_no_statement_beside_the_signature_of_another(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = key_pair(tmp_path, "judge")
    told(capsys, "attest", run, "--key", key)
    signed = attestation_of(run).read_bytes()
    assert told(capsys, "attest", run)[0] == 0  # the same statement: its signature holds
    assert told(capsys, "verify", run, "--signers", signers_of(tmp_path, ("judge", key)))[0] == 0
    _written_again(run)
    code, _, err = told(capsys, "attest", run)
    assert code == 2 and "run.attestation.json.sig signs another statement" in err and "--key KEY" in err
    assert attestation_of(run).read_bytes() == signed and told(capsys, "attest", run, "--key", key)[0] == 0


@needs_ssh_keygen
@pytest.mark.parametrize("line", ["{public}", "# judges\n\nother {public}{public}", "{private}"])
def test_a_key_in_place_of_allowed_signers(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    key = key_pair(tmp_path, "judge")
    told(capsys, "attest", run, "--key", key)
    (tmp_path / "given").write_text(line.format(public=key.with_suffix(".pub").read_text(), private=key.read_text()))
    code, out, err = told(capsys, "verify", run, "--signers", tmp_path / "given")
    assert code == 2 and "not checked" in out and f"line {4 if 'other' in line else 1} is a key without a name" in err
    made = err.partition("make one: ")[2].partition(" > ")[0].replace("KEY.pub", str(key.with_suffix(".pub"))).replace("NAME", "judge")
    (tmp_path / "given").write_text(subprocess.run(["sh", "-c", made], capture_output=True, text=True, check=True).stdout)
    assert told(capsys, "verify", run, "--signers", tmp_path / "given")[0] == 0


def test_without_ssh_keygen_or_signers(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = told(capsys, "verify", run, "--signers", tmp_path / "nowhere")
    assert code == 2 and "can't read" in err and "No such file" in err
    (tmp_path / "signers").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    for arguments in (["attest", run, "--key", "k"], ["verify", run, "--signers", tmp_path / "signers"]):
        code, _, err = told(capsys, *arguments)
        assert code == 2 and "ssh-keygen was not found" in err and "OpenSSH 8.2" in err


def test_a_sweep_has_no_attestation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "signers").touch()
    sweep = SWEEPS[0]
    code, out, _ = told(capsys, "verify", sweep, "--signers", tmp_path / "signers")
    assert code == 2 and "sweep.json has no attestation" in out
