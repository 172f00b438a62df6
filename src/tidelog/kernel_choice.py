"""Which twin of the compiled modules runs: their plain Python source, or what was compiled from it at install.

A module is compiled if and only if a `.pxd` of the same name lies beside it. All of them are in one shared object of the package,
`_compiled.cpython-311-x86_64-linux-gnu.so`, and keep their names: a finder at the head of `sys.meta_path` takes them from there.
A process takes all of them or none, since compiled modules know the layout of each other's objects. It decides once, at
`import tidelog`:

- `TIDELOG_KERNELS=python` takes the sources, `TIDELOG_KERNELS=compiled` insists on the extension;
- otherwise the extension is taken where the build's stamp matches the sources that lie there.

An extension of which a source has been edited since is never used: it would silently shadow the edit.

Every process start pays for this, so it imports nothing that the interpreter has not loaded anyway, and the extension is loaded
with the first of its modules.
"""

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from _imp import extension_suffixes, source_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType
    from typing import Literal

    Twin = Literal["python", "compiled"]
else:
    Twin = str

PACKAGE = os.path.dirname(__file__)

# Of this interpreter: a tree may hold what several of them have built.
EXTENSION_SUFFIX = extension_suffixes()[0]
EXTENSION = f"_compiled{EXTENSION_SUFFIX}"
STAMP = f"{EXTENSION}.stamp"

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


def stamp(folder: str, sources: "Sequence[str]") -> str:
    """What the build notes of itself in the package: the digest, and the names of the sources."""
    return "\n".join([digest(folder, sources), *sources])


def compiled_modules(folder: str) -> frozenset[str]:
    """The modules that the extension in this folder holds. KernelUnavailableError says why it cannot be used."""
    try:
        with open(f"{folder}/{STAMP}", encoding="utf-8") as file:
            stamped, *sources = file.read().split("\n")
    except OSError:
        raise KernelUnavailableError("the kernels were not compiled when tidelog was installed") from None
    try:
        if digest(folder, sources) != stamped:
            raise KernelUnavailableError("a kernel was edited after it was compiled; install again to rebuild it")
        os.stat(f"{folder}/{EXTENSION}")
    except OSError as error:
        reason = f"{error.filename} is missing; install again to rebuild the kernels"
        raise KernelUnavailableError(reason) from None
    return frozenset([f"tidelog.{name[:-3].replace('/', '.')}" for name in sources if name.endswith(".py")])


class CompiledLoader(ExtensionFileLoader):
    """Loads a module from the extension that holds them all."""

    def create_module(self, spec: ModuleSpec) -> "ModuleType":
        from tidelog._compiled import create  # noqa: PLC0415 - with the first module that is in it

        return create(spec)


class CompiledModules:
    """Finds the modules that the extension holds."""

    def __init__(self, modules: frozenset[str], extension: str) -> None:
        self._modules = modules
        self._extension = extension

    def find_spec(
        self, name: str, _path: "Sequence[str] | None" = None, _target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        if name not in self._modules:
            return None
        spec = ModuleSpec(name, CompiledLoader(name, self._extension), origin=self._extension)
        spec.has_location = True
        return spec


class RefusedModules:
    """Refuses every module that there is a compiled twin of, to who insists on what cannot be had."""

    def __init__(self, refusal: str) -> None:
        self._refusal = refusal

    def find_spec(self, name: str, path: "Sequence[str] | None" = None, _target: "ModuleType | None" = None) -> None:
        """Here rather than at once: who starts the command line is to read a sentence, `import tidelog` would be a traceback."""
        if not name.startswith("tidelog."):
            return
        last = name.rpartition(".")[2]
        if any(os.path.exists(f"{folder}/{last}.pxd") for folder in path or ()):
            raise KernelUnavailableError(self._refusal)


class Choice:
    """A twin; why it is not the compiled one; and what to say to who insists on another."""

    __slots__ = ("_finder", "reason", "refusal", "twin")

    def __init__(
        self, twin: Twin, reason: str = "", refusal: str = "", finder: CompiledModules | RefusedModules | None = None
    ) -> None:
        self.twin = twin
        self.reason = reason
        self.refusal = refusal
        self._finder = finder

    def install(self) -> None:
        """Holds for every module of the package that is imported from now on."""
        if self._finder is not None:
            sys.meta_path.insert(0, self._finder)


def choose(folder: str, wanted: str) -> Choice:
    """For the package in this folder, where `TIDELOG_KERNELS` says `wanted`."""
    if wanted == "python":
        return Choice("python", "chosen by TIDELOG_KERNELS")
    if wanted not in {"", "compiled"}:
        return _refused(f"TIDELOG_KERNELS is {wanted!r}; it can be 'python' or 'compiled'")
    try:
        modules = compiled_modules(folder)
    except KernelUnavailableError as error:
        reason = str(error)
        return _refused(f"TIDELOG_KERNELS=compiled, but {reason}", reason) if wanted else Choice("python", reason)
    return Choice("compiled", finder=CompiledModules(modules, f"{folder}/{EXTENSION}"))


def _refused(refusal: str, reason: str = "") -> Choice:
    return Choice("python", reason or refusal, refusal, RefusedModules(refusal))


choice = choose(PACKAGE, os.environ.get("TIDELOG_KERNELS", ""))
