"""Builds the compiled modules: every module with a `.pxd` of the same name beside it, as an extension of that name.

All or none are built, since compiled modules know the layout of each other's objects. The stamp in the package, written last,
has one digest of all that they were built from (the sources, and every `.pxd`): `tidelog.kernel_choice` uses no extension
whose source has changed since. Where Cython, a compiler or Python's headers are missing the install goes on without.
"""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "tidelog"
C_DIRECTORY = "build/cython"

KERNEL_CHOICE = runpy.run_path(str(PACKAGE / "kernel_choice.py"))
SUFFIX = KERNEL_CHOICE["EXTENSION_SUFFIX"]


def is_compiled(source: Path) -> bool:
    return source.with_suffix(".pxd").exists()


SOURCES = sorted(filter(is_compiled, PACKAGE.rglob("*.py")))
TYPES = sorted(PACKAGE.rglob("*.pxd"))


def extension_name(source: Path) -> str:
    return ".".join(source.with_suffix("").relative_to(SOURCE).parts)


def stamp_in(package: Path) -> Path:
    return package / KERNEL_CHOICE["STAMP"]


def stamp() -> str:
    names = [path.relative_to(PACKAGE).as_posix() for path in (*SOURCES, *TYPES)]
    built = [extension_name(path).partition(".")[2].replace(".", "/") + SUFFIX for path in SOURCES]
    return KERNEL_CHOICE["stamp"](str(PACKAGE), names, built)


def drop_old_c() -> None:
    """Cython overlooks that a source in Python depends on its own types, and the stamp would vouch for what older ones gave."""
    for source in SOURCES:
        types = source.with_suffix(".pxd")
        made = (ROOT / C_DIRECTORY / source.relative_to(ROOT)).with_suffix(".c")
        if made.exists() and made.stat().st_mtime < types.stat().st_mtime:
            made.unlink()


class BuildKernels(build_ext):
    """Compiles all modules or none; says why where it could not."""

    def run(self) -> None:
        # Each is a compiler's work of some seconds.
        self.parallel = self.parallel or os.cpu_count()
        self._drop_stamps()
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - any failure here means "nothing compiled", never "no install"
            self._go_on_without(error)
        else:
            self._drop_strays()
            for package in self._packages():
                stamp_in(package).write_text(stamp())

    def build_extensions(self) -> None:
        if self.extensions:
            self._try_compiler()
            self._translate()
        super().build_extensions()

    def _try_compiler(self) -> None:
        """Fails at once where there is no compiler or no Python.h, rather than after the translation to C."""
        probe = Path(self.build_temp) / "probe.c"
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_text("#include <Python.h>\n")
        self.compiler.compile([str(probe)], output_dir=self.build_temp, include_dirs=self.include_dirs)

    def _translate(self) -> None:
        from Cython.Build import cythonize

        drop_old_c()
        translated = cythonize(
            self.extensions,
            build_dir=C_DIRECTORY,
            # Not where the processes of a pool would begin with this file once more.
            nthreads=(os.cpu_count() or 1) if sys.platform == "linux" else 0,
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "embedsignature": True,
            },
            quiet=True,
        )
        sources = {each.name: each.sources for each in translated}
        # What setuptools has noted of each extension stays.
        for extension in self.extensions:
            extension.sources = sources[extension.name]

    def _packages(self) -> list[Path]:
        """Where extensions go: to what is going to be installed, to the source, or to one by way of the other."""
        built = Path(self.build_lib) / "tidelog"
        return [path for path in (built, *([PACKAGE] if self.inplace else [])) if path.exists()]

    def _drop_stamps(self) -> None:
        """Until all is built there is nothing to vouch for."""
        for package in self._packages():
            stamp_in(package).unlink(missing_ok=True)

    def _drop_strays(self, kept: frozenset[str] = frozenset(), packages: list[Path] | None = None) -> None:
        """Extensions of modules that are no longer compiled, or no longer there: Python would prefer them to the source."""
        kept = kept or frozenset(extension.name for extension in self.extensions)
        for package in packages or self._packages():
            for path in package.rglob(f"*{SUFFIX}"):
                module = path.name.removesuffix(SUFFIX)
                if ".".join((*path.parent.relative_to(package.parent).parts, module)) not in kept:
                    path.unlink()

    def _go_on_without(self, error: Exception) -> None:
        print(f"tidelog: nothing was compiled, plain Python serves instead: {error}", file=sys.stderr)
        self.distribution.ext_modules = []
        self.extensions = []
        # A few of them are worse than none. What lies elsewhere than where it would be used is left for the next build.
        self._drop_strays(frozenset({""}), [PACKAGE] if self.inplace else self._packages())


def extensions() -> list[Extension]:
    if os.environ.get("TIDELOG_BUILD_KERNELS") == "0":
        return []
    # CFLAGS that name a level of optimisation have the last word.
    arguments = ["-g0"] if "-O" in os.environ.get("CFLAGS", "") else ["-O3", "-g0"]
    return [
        Extension(extension_name(path), [path.relative_to(ROOT).as_posix()], extra_compile_args=arguments)
        for path in SOURCES
    ]


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
