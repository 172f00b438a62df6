"""Builds the compiled kernels: every `kernels/<name>.py` also as the extension module `kernels/_<name>`.

The extension has another name than its source, so that both can be imported and a test can run over either. Beside each
extension lies `_<name>.source`, the digest of the source that it was built from, with what the kernels beside it share
(`*.pxd`): `tidelog.kernel_choice` refuses a binary whose source has changed since. Where Cython, a compiler or Python's headers
are missing the install goes on without.
"""

import hashlib
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
C_DIRECTORY = "build/cython"
SOURCES = sorted(path for path in ROOT.glob("src/tidelog/**/kernels/*.py") if not path.name.startswith("_"))


def extension_name(source: Path) -> str:
    package = source.parent.relative_to(ROOT / "src").as_posix().replace("/", ".")
    return f"{package}._{source.stem}"


def digest(source: Path) -> str:
    """Of all that a kernel is built from, as `tidelog.kernel_choice` reckons it too."""
    read = hashlib.sha256(source.read_bytes())
    for shared in sorted(source.parent.glob("*.pxd")):
        read.update(shared.read_bytes())
    return read.hexdigest()


def stamp_of(built: Path) -> Path:
    """Beside an extension, what it was built from."""
    return built.with_name(built.name.partition(".")[0] + ".source")


def drop_old_c() -> None:
    """Cython overlooks that `<name>.py` depends on `_<name>.pxd`, and the stamp would vouch for what an older one gave."""
    for source in SOURCES:
        types = source.with_name(f"_{source.stem}.pxd")
        made = (ROOT / C_DIRECTORY / source.relative_to(ROOT)).with_suffix(".c")
        if types.exists() and made.exists() and made.stat().st_mtime < types.stat().st_mtime:
            made.unlink()


class BuildKernels(build_ext):
    """Compiles all kernels or none; says why where it could not."""

    def run(self) -> None:
        # Each is a compiler's work of some seconds.
        self.parallel = self.parallel or os.cpu_count()
        try:
            super().run()
        except Exception as error:  # noqa: BLE001 - any failure here means "no compiled kernels", never "no install"
            self._go_on_without(error)

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

    def _go_on_without(self, error: Exception) -> None:
        print(f"tidelog: compiled kernels were not built, plain Python serves instead: {error}", file=sys.stderr)
        # One kernel's extension imports another's: a few of them are worse than none.
        for extension in self.extensions:
            built = Path(self.get_ext_fullpath(extension.name))
            for path in (built, stamp_of(built)):
                path.unlink(missing_ok=True)
        self.distribution.ext_modules = []
        self.extensions = []

    def build_extension(self, ext: Extension) -> None:
        super().build_extension(ext)
        source = next(path for path in SOURCES if extension_name(path) == ext.name)
        stamp_of(Path(self.get_ext_fullpath(ext.name))).write_text(digest(source) + "\n")

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        for source in SOURCES:
            built = Path(self.build_lib) / source.parent.relative_to(ROOT / "src") / f"_{source.stem}.source"
            if built.exists():
                source.with_name(built.name).write_text(built.read_text())


def extensions() -> list[Extension]:
    if os.environ.get("TIDELOG_BUILD_KERNELS") == "0":
        return []
    # CFLAGS that name a level of optimisation have the last word.
    arguments = ["-g0"] if "-O" in os.environ.get("CFLAGS", "") else ["-O3", "-g0"]
    return [
        Extension(extension_name(path), [path.relative_to(ROOT).as_posix()], extra_compile_args=arguments)
        for path in SOURCES
    ]


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
