"""Builds the compiled modules: every module with a `.pxd` of the same name beside it, all of them into one shared object.

One, because what a request goes through is spread over many modules: in a file of its own each would begin on pages of its own.
Each module is translated and compiled only where it has changed, then all are linked, with a table of them (`_compiled.c`) from
which `tidelog.kernel_choice` takes them. The stamp in the package, written last, has one digest of all that the extension was
built from (the sources, and every `.pxd`): where one has changed since, the extension is not used. Where Cython, a compiler or
Python's headers are missing the install goes on without.
"""

import hashlib
import os
import runpy
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "tidelog"
# Kept from one build to the next. An install in a folder of its own gives the same C and objects.
C_DIRECTORY = Path("build/cython")
OBJECTS = Path("build/objects")

KERNEL_CHOICE = runpy.run_path(str(PACKAGE / "kernel_choice.py"))
SUFFIX = KERNEL_CHOICE["EXTENSION_SUFFIX"]
# What offers the modules; named as the extension.
TABLE = PACKAGE / "_compiled.c"
HEADER = C_DIRECTORY / "compiled_modules.h"


def is_compiled(source: Path) -> bool:
    return source.with_suffix(".pxd").exists()


SOURCES = sorted(filter(is_compiled, PACKAGE.rglob("*.py")))
TYPES = sorted(PACKAGE.rglob("*.pxd"))


def module_name(source: Path) -> str:
    return ".".join(source.with_suffix("").relative_to(SOURCE).parts)


def init_function(module: str) -> str:
    """The name that the module's init function gets: by Python's rule it would be that of other modules, too."""
    return f"PyInit_{module.replace('.', '__')}"


def stamp_in(package: Path) -> Path:
    return package / KERNEL_CHOICE["STAMP"]


def stamp() -> str:
    names = [path.relative_to(PACKAGE).as_posix() for path in (*SOURCES, *TYPES, TABLE)]
    return KERNEL_CHOICE["stamp"](str(PACKAGE), names)


def drop_old_c() -> None:
    """Cython overlooks that a source in Python depends on its own types, and the stamp would vouch for what older ones gave."""
    for source in SOURCES:
        types = source.with_suffix(".pxd")
        made = (ROOT / C_DIRECTORY / source.relative_to(ROOT)).with_suffix(".c")
        if made.exists() and made.stat().st_mtime < types.stat().st_mtime:
            made.unlink()


def is_newer(path: str | Path, made: str) -> bool:
    return Path(path).stat().st_mtime > Path(made).stat().st_mtime


def write_header(modules: Iterable[str]) -> None:
    """For the table: the modules that there are."""
    text = "".join(f'MODULE("{module}", {init_function(module)})\n' for module in modules)
    if not HEADER.exists() or HEADER.read_text() != text:
        HEADER.write_text(text)


class BuildKernels(build_ext):
    """Compiles all modules or none; says why where it could not."""

    def run(self) -> None:
        self.parallel = self.parallel or os.cpu_count() or 1
        self._drop_stamps()
        inplace = self.inplace
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - any failure here means "nothing compiled", never "no install"
            # It builds elsewhere, and says so here until it has copied what it built.
            self.inplace = inplace
            self._go_on_without(error)
        else:
            self._drop_strays()
            for package in self._packages():
                stamp_in(package).write_text(stamp())

    def build_extensions(self) -> None:
        if self.extensions:
            self._try_compiler()
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        translated = self._translate()
        write_header(translated)
        with ThreadPoolExecutor(self.parallel) as workers:
            objects = [
                workers.submit(self._compile, ext, source, (f"PyInit_{Path(source).stem}", init_function(module)))
                for module, source in translated.items()
            ]
            objects.append(workers.submit(self._compile, ext, TABLE.relative_to(ROOT).as_posix(), depends=HEADER))
        self.compiler.link_shared_object(
            [each.result() for each in objects],
            self.get_ext_fullpath(ext.name),
            libraries=self.get_libraries(ext),
            library_dirs=ext.library_dirs,
            export_symbols=self.get_export_symbols(ext),
            build_temp=self.build_temp,
            target_lang="c",
        )

    def _try_compiler(self) -> None:
        """Fails at once where there is no compiler or no Python.h, rather than after the translation to C."""
        probe = Path(self.build_temp) / "probe.c"
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.write_text("#include <Python.h>\n")
        self.compiler.compile([str(probe)], output_dir=self.build_temp, include_dirs=self.include_dirs)

    def _translate(self) -> dict[str, str]:
        """The C file of each module."""
        from Cython.Build import cythonize

        drop_old_c()
        translated = cythonize(
            [Extension(module_name(source), [source.relative_to(ROOT).as_posix()]) for source in SOURCES],
            build_dir=str(C_DIRECTORY),
            # Not where the processes of a pool would begin with this file once more.
            nthreads=self.parallel if sys.platform == "linux" else 0,
            compiler_directives={
                "language_level": 3,
                "boundscheck": False,
                "wraparound": False,
                "embedsignature": True,
            },
            quiet=True,
        )
        return {each.name: each.sources[0] for each in translated}

    def _compile(self, ext: Extension, source: str, *macros: tuple[str, str], depends: Path = ROOT / "setup.py") -> str:
        """The object of a C file: that of an earlier build, where it is newer than what it depends on."""
        command = [SUFFIX, *self.compiler.compiler_so, *self.include_dirs, *ext.extra_compile_args]
        folder = OBJECTS / hashlib.sha256("\n".join(command).encode()).hexdigest()[:16]
        (made,) = self.compiler.object_filenames([source], output_dir=str(folder))
        if not Path(made).exists() or any(is_newer(each, made) for each in (source, depends)):
            self.compiler.compile(
                [source],
                output_dir=str(folder),
                macros=[*ext.define_macros, *macros],
                include_dirs=[*self.include_dirs, str(C_DIRECTORY)],
                extra_postargs=ext.extra_compile_args,
            )
        return made

    def _packages(self) -> list[Path]:
        """Where the extension goes: to what is going to be installed, to the source, or to one by way of the other."""
        built = Path(self.build_lib) / "tidelog"
        return [path for path in (built, *([PACKAGE] if self.inplace else [])) if path.exists()]

    def _drop_stamps(self) -> None:
        """Until all is built there is nothing to vouch for."""
        for package in self._packages():
            stamp_in(package).unlink(missing_ok=True)

    def _drop_strays(self, kept: str = KERNEL_CHOICE["EXTENSION"], packages: list[Path] | None = None) -> None:
        """What older versions have built, an extension for each module: Python would prefer it to the source."""
        for package in packages or self._packages():
            for path in (*package.rglob(f"*{SUFFIX}"), *package.glob(f"*{SUFFIX}.stamp")):
                if path != package / kept:
                    path.unlink()

    def _go_on_without(self, error: Exception) -> None:
        print(f"tidelog: nothing was compiled, plain Python serves instead: {error}", file=sys.stderr)
        self.distribution.ext_modules = []
        self.extensions = []
        # What lies elsewhere than where it would be used is left for the next build.
        self._drop_strays("", [PACKAGE] if self.inplace else self._packages())


def extensions() -> list[Extension]:
    if os.environ.get("TIDELOG_BUILD_KERNELS") == "0":
        return []
    # CFLAGS that name a level of optimisation have the last word. More of it makes code that is larger, and not faster for that.
    level = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O2"]
    return [
        Extension(
            "tidelog._compiled",
            [path.relative_to(ROOT).as_posix() for path in (TABLE, *SOURCES)],
            # Only the init function of the extension itself is for others.
            define_macros=[("CYTHON_NO_PYINIT_EXPORT", "1")],
            extra_compile_args=[*level, "-g0", "-fvisibility=hidden"],
        )
    ]


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
