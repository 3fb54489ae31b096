"""One step of a build, run by ninja: a compiler's output appears whole, with its log, or not at all.

    python compile_step.py OUTPUT LOG -- COMMAND…

Every ``{out}`` in COMMAND is a temporary name beside OUTPUT, and a command without one only checks its input: its OUTPUT is empty. When the
command has succeeded, its log and then its output get their own names. Before it starts, what an earlier build left is removed, so a
failed compile leaves nothing to load. A failure is described in ``OUTPUT.failed.json``, and what the
command printed is in ``OUTPUT.failed.log``. A command that searches the folder ``lean`` of this package is tried
again without it and without the headers that it includes next to it, unless the failure surely has another cause, such as a
name that is in no header: a macro that is missing can end in any error. A disk that is full afterwards fails the step: nvcc
then leaves half an output and exits with 0. This file is started as a script, without the package, so
that a step adds little time.
"""

import contextlib
import errno
import json
import os
import re
import signal
import subprocess
import sys

_LEAN = "-I" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "lean")
_ERROR = re.compile(r"^.*\berror *:.*$", re.MULTILINE)
_UNKNOWN = re.compile(r"identifier \"(\w+)\" is undefined|[‘'](\w+)[’'] was not declared")  # in the words of nvcc and of g++
_MOST_NAMES, _SYSTEM = 4, "/usr/include"  # to be looked for in headers, and where the C library's lie
_NO_HEADER_S = re.compile(r"^ptxas |died due to signal|error: expected (?:a )?[\"'‘][;}]")  # in the words of nvcc and of g++


def main(argv: list[str]) -> int:
    output, log, command = argv[0], argv[1], argv[3:]
    failed, failed_log = output + ".failed.json", output + ".failed.log"
    temporary = f"{output}.{os.getpid()}.partial"
    for stale in (output, log, failed, failed_log):
        _remove(stale)
    checks = not any("{out}" in part for part in command)
    command = [part.replace("{out}", temporary) for part in command]
    try:
        text, cause = _run(command)
        if cause and _LEAN in command and not _is_the_source_s(text, command):
            text, cause = _run(_without_lean(command))
        if checks and not cause:
            _write(temporary, "")
        if not cause and not os.path.exists(temporary):
            cause = "exit 0 without an output file"
        if not cause:
            _require_room(temporary)
            if not checks and _is_cut_off(temporary):  # there is room again, since another step has given up its own
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if cause:
            shown = [part.replace(temporary, output) for part in command]
            _write(failed_log, text)
            _write(failed, json.dumps({"command": shown, "cause": cause}))
            print(text, file=sys.stderr)
            return 1
        _write(log, text)
        os.replace(temporary, output)
        print(text, end="")
        return 0
    except OSError as error:
        print(f"error: can't write {output}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        _remove(temporary)


def _is_the_source_s(text: str, command: list[str]) -> bool:
    """Whether every error that a compiler printed has a cause that no header can fix."""
    errors = _ERROR.findall(text)
    unknown = {line: found[1] or found[2] for line in errors if (found := _UNKNOWN.search(line))}
    if not errors or not all(line in unknown or _NO_HEADER_S.search(line) for line in errors):
        return False
    names = set(unknown.values())
    return len(names) <= _MOST_NAMES and not any(_is_in_a_header(name, command) for name in names)


def _is_in_a_header(name: str, command: list[str]) -> bool:
    """Whether a header may define it: one of torch's or the system's has it in its text, or it looks like a macro or a name of CUDA's."""
    if name == name.upper() or name.startswith(("cu", "nv", "__")):
        return True
    folders = [_SYSTEM, *(command[at + 1] for at, option in enumerate(command[:-1]) if option == "-isystem")]
    try:
        return subprocess.run(["grep", "-rqwF", "-e", name, "--", *folders], stderr=subprocess.DEVNULL).returncode != 1
    except OSError:
        return True


def _without_lean(command: list[str]) -> list[str]:
    start = command.index(_LEAN)
    end = start + 1
    while command[end : end + 1] == ["-include"]:
        end += 2
    return command[:start] + command[end:]


def _is_cut_off(path: str) -> bool:
    """Whether the file is an ELF file (64 bits) that ends before its table of sections does, which compilers write last."""
    with open(path, "rb") as file:
        head = file.read(64)
        size = os.fstat(file.fileno()).st_size
    if not head.startswith(b"\x7fELF\x02\x01"):
        return False
    if len(head) < 64:
        return True
    sections, width, count = (int.from_bytes(head[start:end], "little") for start, end in ((40, 48), (58, 60), (60, 62)))
    return sections + width * count > size


def _require_room(beside: str) -> None:
    """Raise OSError if the disk takes no more: then what was written last may be cut off."""
    probe = f"{beside}.room"
    try:
        with open(probe, "wb") as file:
            file.write(bytes(4096))
    finally:
        _remove(probe)


def _run(command: list[str]) -> tuple[str, str]:
    """What the command printed, and how it failed: empty where it did not."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        return str(error), f"can't start {command[0]}: {error.strerror}"
    text = done.stdout.decode("utf-8", errors="replace")
    if done.returncode < 0:
        return text, f"killed by {signal.Signals(-done.returncode).name}"
    return text, f"exit {done.returncode}" if done.returncode else ""


def _write(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}.partial"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    finally:
        _remove(temporary)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the temporary file is removed
    sys.exit(main(sys.argv[1:]))
