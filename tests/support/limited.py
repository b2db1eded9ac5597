#!/usr/bin/env python3
"""limited.py TOTAL QUIET COMMAND...: runs a command that may hang, prints what it prints, and exits as it does.

A command that takes more than TOTAL seconds, or prints nothing for QUIET seconds, hangs: that is said, with the stacks of its
processes where gdb can read them, it is killed with its children and started once more.  Lines about this begin with "hung: ".
One that hangs twice exits 124, or 75 if both times every stack could be read, the innermost frames are a BLAS library's and no
frame is Headroom's: the hang is not ours, and the caller may skip aloud.  Such a hang was seen in PyTorch 2.15 for arm64: sgemm
of its BLAS (NVPL), in a loop over blocks with a step of 0."""
from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import NoReturn, Optional

TWICE, NOT_OURS = 124, 75  # exit codes
BLAS = re.compile(r"libnvpl_blas|openblas|libmkl|mkl_blas|libblas", re.I)


def say(text: str) -> None:
    print("\n".join(f"hung: {line}" for line in text.splitlines()), flush=True)


def family(root: int) -> list[int]:
    """The process, its descendants, and what is left of its session."""
    parents, found = {}, {root}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                    state, parent, _, session = f.read().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if state not in "ZX":
                parents[int(name)] = int(parent)
                if int(session) == root:
                    found.add(int(name))
    while True:
        more = {p for p, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(p for p in found if p in parents)
        found |= more


def end(child: subprocess.Popen[bytes]) -> None:
    for _ in range(100):  # a process may start another while the list is read
        left = family(child.pid)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        child.poll()
        if not left:
            return
        time.sleep(0.05)


def stack(pid: int) -> str:
    """All threads of a process as gdb shows them, "" if it cannot."""
    try:
        r = subprocess.run(["gdb", "-q", "-batch", "-nx", "-ex", "set width 0", "-ex", "thread apply all bt 40", "-p", str(pid)],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=180)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "\n".join(line for line in r.stdout.splitlines() if line.startswith(("#", "Thread ")))


def name_of(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return "?"


def look(child: subprocess.Popen[bytes]) -> bool:
    """Shows where the command hangs; whether that is in a BLAS library and nowhere in ours."""
    known, blas, ours = True, False, False
    for pid in family(child.pid)[:8]:
        program, text = name_of(pid), stack(pid)
        lines = text.splitlines()
        say("\n".join([f"process {pid}, {program}:"] + [line[:240] for line in lines[:60]] if lines else
                      [f"process {pid}, {program}: its stack could not be read"]))
        known = known and bool(lines)
        blas = blas or any(BLAS.search(line) for line in lines if re.match(r"#[0-7]\s", line))
        ours = ours or "headroom" in program or "libheadroom" in text
    return known and blas and not ours


def attempt(total: float, quiet: float, command: list[str]) -> tuple[Optional[int], bool]:
    """The exit code (None where it hung), and whether the hang is not ours."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    assert child.stdout

    def stop(number: int, _frame: object) -> NoReturn:
        end(child)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    start = last = time.monotonic()
    tail = b""
    while True:
        left = min(start + total, last + quiet) - time.monotonic()
        if left <= 0:
            break
        if not select.select([child.stdout], [], [], min(left, 1))[0]:
            if child.poll() is not None:  # somebody else holds its output open
                end(child)
                return child.returncode, False
            continue
        data = os.read(child.stdout.fileno(), 65536)
        if not data:
            return child.wait(), False
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        last, tail = time.monotonic(), (tail + data)[-400:]
    now = time.monotonic()
    print(flush=True)
    say(f"no end within {total:g} s" if now - start >= total else f"no end: nothing printed for {quiet:g} s")
    say("the last line: " + (tail.decode(errors="replace").splitlines() or ["none"])[-1])
    not_ours = look(child)
    end(child)
    return None, not_ours


def main() -> int:
    total, quiet, command = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    code, first = attempt(total, quiet, command)
    if code is None:
        say("started once more: " + " ".join(command))
        code, second = attempt(total, quiet, command)
        if code is None:
            say("twice, both times inside a BLAS library, with no frame of Headroom" if first and second else "twice")
            return NOT_OURS if first and second else TWICE
        say(f"the second time it ended, with exit code {code}")
    return 1 if code == NOT_OURS else code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
