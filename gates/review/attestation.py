"""Write and check a run's attestation: an in-toto Statement v1 about its manifest, signed and checked by ssh-keygen.

Digests show accidental edits. Someone who rewrites all files can rewrite the digests too; a signature shows who vouches for them.
Statement and signature are written beside the run directory, which is never changed: ``RUN.attestation.json`` and
``RUN.attestation.json.sig``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import to_json
from gates.evidence.packed_runs import SUFFIX, origin
from gates.evidence.run_directory import RunInfo, Verdict, read_record, require_outside_a_run

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:kernel-gates:run:v1"
NAMESPACE = "kernel-gates"  # of the signature: one made for anything else does not count
_LIMIT_S = 60.0
_MOST_BYTES = 2**16  # of a signature: ssh-keygen reads a huge file for minutes
_INSTALL = "install OpenSSH 8.2 or newer (the package openssh-client)"
_BARE_KEY = re.compile(rb"^(?:-----BEGIN .*|(?:sk-)?(?:ssh|ecdsa)-\S+\s+AAAA.*)$", re.M)  # a private key, or a public one without its owner
_USABLE_KEY = (
    "name a private key that only you can read (chmod 600), or a public key whose private key is in ssh-agent; a passphrase "
    "needs a terminal or ssh-agent"
)
_MAKE = f"""make one: echo 'NAME namespaces="{NAMESPACE}"' "$(cat KEY.pub)" > allowed_signers"""


def statement_of(run: Path) -> dict[str, Any]:
    """Return the statement about a sound run: the digest of its manifest, its verdicts, builds, device and tools."""
    info: RunInfo = read_record(RunInfo, run, "run.json")
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    builds = {
        role: {"identity": jsonio.read(path).get("identity", ""), "build_json_sha256": jsonio.sha256(path)}
        for role, path in (("candidate", run / "build.json"), ("baseline", run / "baseline" / "build.json"))
        if path.is_file()
    }
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "manifest.json", "digest": {"sha256": jsonio.sha256(run / "manifest.json")}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "decision": verdict.decision.value,
            "reason": verdict.reason,
            "gates": {result.gate: {"status": result.status.value, "code": result.code} for result in verdict.gates},
            "task": _stage(info.task),
            "baseline": _stage(info.baseline),
            "builds": builds,
            "profile": info.profile,
            "device": to_json(info.device),
            "toolchain": info.toolchain,
            "tool_version": info.tool_version,
            "git": to_json(info.git),
            "started": info.started,
            "ended": info.ended,
        },
    }


def _stage(task: Any) -> dict[str, Any] | None:
    return {"name": task.name, "digest": task.digest, "problem_sha256": task.problem_sha256, "toggles": task.toggles} if task else None


def attestation_of(run: Path) -> Path:
    """Return the path of a run's statement."""
    place = origin(run).resolve()
    return place.with_name(f"{place.name.removesuffix(SUFFIX)}.attestation.json")


def attest(run: Path, out: Path | None = None, key: Path | None = None) -> list[Path]:
    """Write the statement about ``run``, and with ``key`` its signature; return the files.

    Raises GatesError if the run is not sound, and without ``key`` if a signature of another statement is there.
    """
    from gates.verify.run import require_sound

    require_sound(run)
    place = out or attestation_of(run)
    require_outside_a_run(place)
    data = jsonio.dumps(statement_of(run)).encode("utf-8")
    signature = _signed(data, key) if key is not None else None
    if signature is None and _signature(place).exists() and not (place.is_file() and place.read_bytes() == data):
        raise GatesError(
            f"{_signature(place)} signs another statement than that of this run", hint="delete it, or sign again with --key KEY"
        )
    jsonio.write_bytes(place, data)
    if signature is None:
        return [place]
    jsonio.write_bytes(_signature(place), signature)
    return [place, _signature(place)]


def _signature(statement: Path) -> Path:
    return statement.with_name(f"{statement.name}.sig")


def _signed(data: bytes, key: Path) -> bytes:
    """Return the signature of ``data`` by ``key``; ssh-keygen itself asks for a passphrase."""
    try:
        done = subprocess.run(
            [_ssh_keygen(), "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE], input=data, capture_output=True, check=False
        )
    except OSError as error:
        raise GatesError(f"ssh-keygen can't be started: {error.strerror}", hint=_INSTALL) from None
    if done.returncode != 0 or not done.stdout:
        raise GatesError(f"ssh-keygen can't sign with {key}: {_last(done.stderr)}", hint=_USABLE_KEY)
    return done.stdout


def attestation_problems(run: Path, signers: Path) -> tuple[list[str], str]:
    """Return (problems of the attestation of a sound run, its signer). ``signers`` is a file of allowed signers, as in ssh-keygen(1).

    Raises GatesError if ssh-keygen is missing or the file of signers is not one.
    """
    _require_signers(signers)
    tool, statement = _ssh_keygen(), attestation_of(run)
    for path, what in ((statement, "no attestation"), (_signature(statement), "an attestation without a signature")):
        if not path.is_file():
            return [f"it has {what}: {path.name} is not beside it (gates attest RUN --key KEY)"], ""
    if _signature(statement).stat().st_size > _MOST_BYTES:
        return [f"{_signature(statement).name} is larger than {_MOST_BYTES // 1024} KiB: it is no signature"], ""
    text = jsonio.read_text(statement)
    found = _keygen(tool, "find-principals", signers, statement)
    names = found.stdout.decode("utf-8", "replace").split("\n")[0].split(",")
    name = names[0].strip()
    if found.returncode != 0 or not name:
        return [
            f"{_signature(statement).name} has no valid signer in {signers}: unknown or expired key, or not a signature "
            f"({_last(found.stderr)})"
        ], ""
    done = _keygen(tool, "verify", signers, statement, "-I", name, "-n", NAMESPACE, data=text.encode("utf-8"))
    if done.returncode != 0:
        return [f"the signature of {statement.name} is not valid for {name}: {_last(done.stderr or done.stdout)}"], ""
    return [f"{statement.name} {problem}" for problem in _differences(jsonio.loads(text, statement.name), statement_of(run))], name


def _require_signers(path: Path) -> None:
    """Raise GatesError if ``path`` can't be read, or holds a key without its owner: ssh-keygen takes the key's type for a name."""
    try:
        with jsonio.open_plain(path) as file:
            data = file.read(jsonio.MAX_BYTES)
    except OSError as error:
        raise GatesError(f"can't read {path}: {error.strerror}", hint=_MAKE) from None
    if found := _BARE_KEY.search(data):
        line = data[: found.start()].count(b"\n") + 1
        raise GatesError(f"{path} is not a file of allowed signers: line {line} is a key without a name", hint=_MAKE)


def _keygen(tool: str, action: str, signers: Path, statement: Path, *more: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [tool, "-Y", action, "-f", str(signers), "-s", str(_signature(statement)), *more]
    try:
        return subprocess.run(command, input=data, capture_output=True, check=False, timeout=_LIMIT_S)
    except OSError as error:
        raise GatesError(f"ssh-keygen can't be started: {error.strerror}", hint=_INSTALL) from None
    except subprocess.TimeoutExpired:
        raise GatesError(f"ssh-keygen -Y {action} did not finish within {_LIMIT_S:g} s") from None


def _differences(told: Any, again: dict[str, Any]) -> list[str]:
    """Return the differences between a signed statement and the run."""
    if not isinstance(told, dict) or not isinstance(told.get("predicate"), dict):
        return ["is not an in-toto statement"]
    if (told.get("_type"), told.get("predicateType")) != (STATEMENT_TYPE, PREDICATE_TYPE):
        return [f"is a statement of another kind: {told.get('_type')!s:.80}, {told.get('predicateType')!s:.80}"]
    if told.get("subject") != again["subject"]:
        return ["is about another run: its subject is not this run's manifest"]
    wrong = sorted(key for key in {*told["predicate"], *again["predicate"]} if told["predicate"].get(key) != again["predicate"].get(key))
    return [f"differs from the run in: {', '.join(wrong)[:200]}"] if wrong else []


def _ssh_keygen() -> str:
    found = shutil.which("ssh-keygen")
    if found is None:
        raise GatesError("ssh-keygen was not found; it makes and checks signatures", hint=_INSTALL)
    return found


def _last(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
