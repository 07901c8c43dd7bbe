"""Compiles the kernel while the package is installed. Without a compiler the service runs the same fold in Python."""

import sys
import warnings
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
KERNEL = "app/core/kernel"
SOURCES = [f"{KERNEL}/{name}.pyx" for name in ("scanning", "sets", "folding", "compact", "allowances")]

HEADERS = ("keys.h", "marks.h", "blake2b.h", "json.pxd", "scanning.pxd", "sets.pxd", "slots.pxd")


class KernelHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if compiled(str(ROOT / "build")):
            build_data["artifacts"] += [f"{KERNEL}/*.so", f"{KERNEL}/*.pyd"]
            build_data["infer_tag"] = True
            build_data["pure_python"] = False


def compiled(scratch: str, *, into: str = "", flags: tuple[str, ...] = ("-O3",)) -> bool:
    """Whether the modules were compiled, beside their sources or under `into`."""
    from Cython.Build import cythonize
    from Cython.Compiler.Errors import CompileError as CythonError
    from setuptools import Extension, setup
    from setuptools.errors import BaseError

    extensions = [
        Extension(
            path.removesuffix(".pyx").replace("/", "."),
            [path],
            include_dirs=[KERNEL],
            depends=[f"{KERNEL}/{name}" for name in HEADERS],
            extra_compile_args=list(flags),
            extra_link_args=list(flags),
        )
        for path in SOURCES
    ]
    where = ["--build-lib", into] if into else ["--inplace"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # setuptools speaks of running setup.py, which nobody does here
            setup(
                name="discreet-kernel",
                packages=[],
                ext_modules=cythonize(extensions, build_dir=scratch, include_path=[str(ROOT)], quiet=True),
                script_args=["--quiet", "build_ext", "--build-temp", scratch, *where],
            )
    except (BaseError, CythonError, OSError, SystemExit) as error:
        print(f"discreet: no kernel ({type(error).__name__}); its Python twin will run", file=sys.stderr)
        return False
    return True
