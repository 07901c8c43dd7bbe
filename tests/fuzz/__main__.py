"""Throw bytes at the kernel, compiled with gcc's sanitizers, and compare what it makes of them with its twin.

`make fuzz`, or `python -m tests.fuzz --seconds 600`. Each case is made from one number: `--case 123` repeats that one.
What goes wrong is saved under build/fuzz, with its number; the exit status is then 1.
"""

import argparse
import faulthandler
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
MODULES = BUILD / "lib" / "app" / "core" / "kernel"
PROGRESS = BUILD / "progress"  # the number of the case that runs, for when the process does not live to tell
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
WATCHED = 50  # cases, which take half a second: a machine that is busy with other things must not look like a hang
HANGING_SECONDS = 20  # for those
_NAMES = tuple(f"app.core.kernel.{name}" for name in ("scanning", "sets", "folding", "compact", "allowances"))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, help="the number of the first case; otherwise from the clock")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    first = int(time.time()) * 1_000_000 if wanted.first is None else wanted.first
    if wanted.case is not None:
        first, wanted.seconds = wanted.case, 0
    return throw(first, wanted.seconds) if wanted.inside else supervise(first, wanted.seconds)


# Outside: build, start, and tell what happened


def supervise(first: int, seconds: float) -> int:
    runtimes = sanitizers()
    if not runtimes:
        say("Fuzzing needs gcc with its sanitizers (Debian: apt install gcc libasan8 libubsan1); gcc was not found.")
        return 2
    if not build():
        say("The kernel could not be compiled with sanitizers; see above.")
        return 2
    PROGRESS.write_bytes(bytes(8))
    environment = os.environ | {
        "LD_PRELOAD": ":".join(runtimes),
        "PYTHONMALLOC": "malloc",  # each object on its own, so that a step beyond it is seen
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    command = [sys.executable, "-m", "tests.fuzz", "--inside", "--first", str(first), "--seconds", str(seconds)]
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if status != 0:
        tell(status)
    return 1 if status else 0


def sanitizers() -> list[str]:
    """The runtimes of gcc's sanitizers, which must be loaded before Python; none without gcc."""
    if not shutil.which("gcc"):
        return []
    names = ("libasan.so", "libubsan.so")
    found = [subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip() for name in names]
    return found if all(Path(path).is_absolute() for path in found) else []


def build() -> bool:
    os.environ["CC"] = "gcc"
    os.chdir(ROOT)  # `hatch_build` names its sources from there
    sys.path.insert(0, str(ROOT))
    from hatch_build import compiled

    started = time.monotonic()
    made = compiled(str(BUILD / "scratch"), into=str(BUILD / "lib"), flags=FLAGS)
    say(f"compiled in {time.monotonic() - started:.0f} seconds")
    return made


def tell(status: int) -> None:
    from tests.fuzz.cases import case_of

    number = int.from_bytes(PROGRESS.read_bytes(), "little")
    path = BUILD / f"failure-{number}.txt"
    path.write_text(f"exit status {status}\npython -m tests.fuzz --case {number}\n{case_of(number)!r}\n")
    say(f"FAILED at case {number}, saved in {path.relative_to(ROOT)}")


# Inside: the instrumented modules in place of the installed ones


class Instrumented:
    """Finds the compiled modules under build/fuzz."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _NAMES:
            return None
        (found,) = MODULES.glob(f"{name.rpartition('.')[2]}.*.so")
        return spec_from_file_location(name, found)


def throw(first: int, seconds: float) -> int:
    sys.meta_path.insert(0, Instrumented)
    from app.core.kernel import allowances, compact, folding, scanning, sets
    from tests.fuzz.cases import case_of

    if {Path(str(module.__file__)).parent for module in (scanning, sets, folding, compact, allowances)} != {MODULES}:
        say("The instrumented modules were not loaded.")
        return 2
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    number = first
    with PROGRESS.open("r+b") as file, mmap.mmap(file.fileno(), 8) as progress:
        while True:
            progress[:] = number.to_bytes(8, "little")
            if (number - first) % WATCHED == 0:
                faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)
            outcomes += case_of(number).check()
            number += 1
            if time.monotonic() - started >= seconds:
                break
    faulthandler.cancel_dump_traceback_later()
    elapsed = time.monotonic() - started
    say(f"{outcomes.total()} executions, {outcomes.total() / elapsed:.0f} a second, nothing wrong")
    say(f"in {number - first} cases from number {first}:")
    for outcome, times in sorted(outcomes.items()):
        say(f"  {times:>9} {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
