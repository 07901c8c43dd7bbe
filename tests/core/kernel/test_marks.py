"""Machines with SSE2 and others find the same end of a string."""

import ctypes
import shlex
import subprocess
import sysconfig
from pathlib import Path
from random import Random

import pytest

from app.core import kernel
from tests.core.kernel.native import compiled_only

pytestmark = compiled_only

WIDTH = 32
MARKS = frozenset(b'"\\') | frozenset(range(0x20))
_SOURCE = b"""
#include "marks.h"
int end_of(const unsigned char *place) { uint32_t marks = marks_in(place); return marks ? first_mark(marks) : -1; }
"""


@pytest.fixture(scope="module", params=["", "-DDISCREET_PORTABLE"], ids=["this machine", "any machine"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    built = tmp_path_factory.mktemp("marks") / "marks.so"
    compiler = shlex.split(sysconfig.get_config_var("CC"))
    flags = ["-x", "c", "-shared", "-fPIC", f"-I{Path(kernel.__file__).parent}", *request.param.split()]
    subprocess.run([*compiler, *flags, "-o", built, "-"], input=_SOURCE, check=True)
    return ctypes.CDLL(str(built))


def expected(text: bytes) -> int:
    return next((at for at, byte in enumerate(text) if byte in MARKS), -1)


def test_each_byte_is_told_apart_at_each_place(library: ctypes.CDLL) -> None:
    for at in range(WIDTH):
        for byte in range(256):
            text = b"x" * at + bytes([byte]) + b"x" * (WIDTH - 1 - at)
            assert library.end_of(text) == expected(text), text


def test_the_first_of_many_marks_is_found(library: ctypes.CDLL) -> None:
    rng = Random(1)
    near = bytes(range(0x24)) + b"[]\\^\x7f\x80\xa0\xa2\xdc\xff"  # marks, and what differs from one in few bits
    for _ in range(20_000):
        text = b"x" * rng.randrange(WIDTH) + bytes(rng.choices(near, k=WIDTH))
        assert library.end_of(text[:WIDTH]) == expected(text[:WIDTH]), text
