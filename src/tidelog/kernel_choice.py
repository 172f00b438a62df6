"""Which twin of the compiled modules runs: their plain Python source, or the extensions that were compiled from it at install.

A module is compiled if and only if a `.pxd` of the same name lies beside it: `model/shared_timers.py` and `shared_timers.pxd`
give `shared_timers.cpython-311-x86_64-linux-gnu.so`, which Python prefers to a source of the same name. A process takes all
of them or none, since compiled modules know the layout of each other's objects. It decides once, at `import tidelog`:

- `TIDELOG_KERNELS=python` takes the sources, `TIDELOG_KERNELS=compiled` insists on the extensions;
- otherwise the extensions are taken where the build's stamp matches the sources that lie there.

An extension whose source has been edited since is never used: it would silently shadow the edit.

Every process start pays for this, so it imports nothing that the interpreter has not loaded anyway (`importlib.machinery`
where the sources are taken).
"""

import os
import sys
from _imp import extension_suffixes, source_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from importlib.machinery import FileFinder, ModuleSpec
    from types import ModuleType
    from typing import Literal

    Twin = Literal["python", "compiled"]
else:
    Twin = str

PACKAGE = os.path.dirname(__file__)

# Of this interpreter: a tree may hold what several of them have built.
EXTENSION_SUFFIX = extension_suffixes()[0]
STAMP = f"compiled{EXTENSION_SUFFIX}.stamp"

# Any number; it has to be the same for the build and for its users.
_DIGEST_KEY = 1


class KernelUnavailableError(ImportError):
    """`TIDELOG_KERNELS` asks for a twin that this installation does not have."""


def digest(folder: str, names: "Iterable[str]") -> str:
    """Of the names and contents of these files. It finds edits; it is no defence against anybody."""
    parts = []
    for name in names:
        with open(f"{folder}/{name}", "rb", buffering=0) as file:
            content = file.readall()
        parts += [b"%b %d\n" % (name.encode(), len(content)), content]
    return source_hash(_DIGEST_KEY, b"".join(parts)).hex()


def stamp(folder: str, sources: "Sequence[str]", built: "Sequence[str]") -> str:
    """What the build notes of itself in the package: the digest, the names of the sources, and those of the extensions."""
    return "\n".join([digest(folder, sources), *sources, *built])


def why_not_compiled(folder: str) -> str | None:
    """The reason why the extensions in this folder cannot be used, or None where they can."""
    try:
        with open(f"{folder}/{STAMP}", encoding="utf-8") as file:
            stamped, *names = file.read().split("\n")
    except OSError:
        return "the kernels were not compiled when tidelog was installed"
    try:
        if digest(folder, [name for name in names if not name.endswith(EXTENSION_SUFFIX)]) != stamped:
            return "a kernel was edited after it was compiled; install again to rebuild it"
        for name in names:
            os.stat(f"{folder}/{name}")
    except OSError as error:
        return f"{error.filename} is missing; install again to rebuild the kernels"
    return None


class SourceFinder:
    """Finds the source of every module of this package, never an extension."""

    def __init__(self, refusal: str = "") -> None:
        self._refusal = refusal
        self._folders: dict[str, FileFinder] = {}

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, _target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if path is None or not name.startswith("tidelog."):
            return None
        for folder in path:
            spec = self._finder_of(folder).find_spec(name)
            if spec is not None and spec.loader is not None:
                # Only here: who starts the command line is to read a sentence, and `import tidelog` alone would be a traceback.
                if self._refusal and os.path.exists(f"{(spec.origin or '').removesuffix('.py')}.pxd"):
                    raise KernelUnavailableError(self._refusal)
                return spec
        return None

    def invalidate_caches(self) -> None:
        self._folders.clear()

    def _finder_of(self, folder: str) -> "FileFinder":
        found = self._folders.get(folder)
        if found is None:
            from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader  # noqa: PLC0415

            found = self._folders[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
        return found


class Choice:
    """A twin; why it is not the compiled one; and what to say to who insists on another."""

    __slots__ = ("reason", "refusal", "twin")

    def __init__(self, twin: Twin, reason: str = "", refusal: str = "") -> None:
        self.twin = twin
        self.reason = reason
        self.refusal = refusal

    def install(self) -> None:
        """Holds for every module of the package that is imported from now on."""
        if self.twin == "python":
            sys.meta_path.insert(0, SourceFinder(self.refusal))


def choose(folder: str, wanted: str) -> Choice:
    """For the package in this folder, where `TIDELOG_KERNELS` says `wanted`."""
    if wanted == "python":
        return Choice("python", "chosen by TIDELOG_KERNELS")
    if wanted not in {"", "compiled"}:
        refusal = f"TIDELOG_KERNELS is {wanted!r}; it can be 'python' or 'compiled'"
        return Choice("python", refusal, refusal)
    reason = why_not_compiled(folder)
    if reason is None:
        return Choice("compiled")
    return Choice("python", reason, f"TIDELOG_KERNELS=compiled, but {reason}" if wanted else "")


choice = choose(PACKAGE, os.environ.get("TIDELOG_KERNELS", ""))
