"""Writes functions of plain Python once more as Cython's inline functions, for compiled modules.

    python tools/inline_functions.py write     write every file again
    python tools/inline_functions.py check     say which of them are not what their source gives

Cython makes a function of another module a part of its caller only where its body stands in a `.pxd`. So that there is one
source, `<name>.py` is what plain Python runs, and `<name>_inline.pxd` is written from it. Such a source holds nothing but

    functions       whose parameters and results have types of `tidelog.wire.c_types`, `int` being 64 bits, or are objects;
                    whose variables are declared by annotations on their first level; `@cython.exceptval` where they can raise
    constants       whole numbers, in capitals
    imports         of C functions, below `if cython.compiled`; all else is for plain Python alone

and `if cython.compiled:` in a function chooses as it does in compiled modules: what follows a `return` there is for plain Python.
"""

from __future__ import annotations

import argparse
import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tidelog"
SOURCES = ("wire/record_fields.py", "wire/typed/fields.py")

C_TYPES = {
    "Data": "const unsigned char *",
    "Room": "unsigned char *",
    "Room | None": "unsigned char *",
    "Size": "Py_ssize_t",
    "Bits": "unsigned long long",
    "int": "long long",
    "bool": "bint",
    "None": "void",
}
OBJECTS = ("bytes", "bytearray", "memoryview")
INDENT = "    "


class NotInlineError(Exception):
    """A source holds what cannot be written as an inline function."""


def c_type(annotation: ast.expr | None) -> str:
    text = ast.unparse(annotation) if annotation is not None else "object"
    if isinstance(annotation, ast.Subscript) and text.startswith("tuple["):
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return f"({', '.join(c_type(part) for part in parts)})"
    if text in OBJECTS:
        return text
    return C_TYPES.get(text, "list" if text.startswith("list[") else "object")


def declared(c_name: str, name: str) -> str:
    return f"{c_name}{name}" if c_name.endswith("*") else f"{c_name} {name}"


def is_object(c_name: str) -> bool:
    return c_name in {"object", "list", *OBJECTS}


def is_choice(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "cython.compiled"


class Function:
    """One function of a source, and its lines as Cython."""

    def __init__(self, node: ast.FunctionDef, lines: list[str]) -> None:
        self._node = node
        self._lines = lines
        self._known: set[str] = set()
        self._parameters = [(argument.arg, c_type(argument.annotation)) for argument in node.args.args]

    def written(self) -> Iterator[str]:
        node = self._node
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        yield self._head()
        known = {name for name, _ in self._parameters}
        for statement in body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                known.add(statement.target.id)
        self._known = known
        yield from self._block(body, 1)

    def _head(self) -> str:
        node = self._node
        result = c_type(node.returns)
        raised = " noexcept"
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "cython.exceptval":
                value = ast.unparse(decorator.args[0]).replace("cython.NULL", "NULL")
                is_checked = any(ast.unparse(keyword.value) == "True" for keyword in decorator.keywords)
                raised = f" except{'?' if is_checked else ''} {value}"
        if is_object(result):
            raised = ""
        elif raised == " noexcept" and not any(is_object(c_name) for _, c_name in self._parameters):
            raised += " nogil"
        parameters = ", ".join(declared(c_name, name) for name, c_name in self._parameters)
        return f"cdef inline {declared(result, node.name)}({parameters}){raised}:"

    def _block(self, statements: list[ast.stmt], depth: int) -> Iterator[str]:
        for statement in statements:
            if is_choice(statement):
                assert isinstance(statement, ast.If)
                yield from self._block(statement.body, depth)
                if statement.orelse or isinstance(statement.body[-1], ast.Return):
                    if statement.orelse:
                        continue
                    return
            else:
                yield from self._statement(statement, depth)

    def _statement(self, statement: ast.stmt, depth: int) -> Iterator[str]:
        indent = INDENT * depth
        if isinstance(statement, ast.AnnAssign):
            if depth > 1:
                raise NotInlineError(
                    f"{self._node.name} declares {ast.unparse(statement.target)} below its first level"
                )
            name = declared(c_type(statement.annotation), ast.unparse(statement.target))
            value = f" = {self._text(statement.value)}" if statement.value is not None else ""
            yield f"{indent}cdef {name}{value}"
        elif isinstance(statement, (ast.If, ast.While)):
            yield f"{indent}{'if' if isinstance(statement, ast.If) else 'while'} {self._text(statement.test)}:"
            yield from self._block(statement.body, depth + 1)
            if statement.orelse:
                yield f"{indent}else:"
                yield from self._block(statement.orelse, depth + 1)
        elif isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Break)):
            for each in ast.walk(statement):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id not in self._known:
                    raise NotInlineError(f"{self._node.name} does not declare {each.id}")
            yield f"{indent}{self._text(statement)}"
        else:
            raise NotInlineError(f"{self._node.name} has {type(statement).__name__}")

    def _text(self, node: ast.AST) -> str:
        """As it is written there, so that numbers stay as they are."""
        text = ast.get_source_segment("\n".join(self._lines), node)
        assert text is not None
        return " ".join(textwrap.dedent(text).split()).replace("cython.NULL", "NULL")


HEAD = """\
# `{name}` for compiled modules: each has its functions inlined. Written by tools/inline_functions.py; not to be edited.

cimport cython
"""


def _imports(node: ast.stmt) -> Iterator[str]:
    if is_choice(node):
        assert isinstance(node, ast.If)
        for each in node.body:
            if not isinstance(each, ast.ImportFrom) or each.module is None:
                raise NotInlineError("only C functions are imported below `if cython.compiled`")
            names = ",\n    ".join(alias.name for alias in each.names)
            yield f"from {each.module.removeprefix('cython.cimports.')} cimport (\n    {names},\n)"


def _constants(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int):
        yield f"    {ast.unparse(node.targets[0])} = {node.value.value:#x}"


def inline_types(text: str, name: str) -> str:
    """The `.pxd` of a source."""
    tree = ast.parse(text)
    lines = text.split("\n")
    written = [HEAD.format(name=name)]
    imports = [line for node in tree.body for line in _imports(node)]
    constants = [line for node in tree.body for line in _constants(node)]
    if imports:
        written.append("\n".join(imports) + "\n")
    if constants:
        written.append("\n".join(["cdef enum:", *constants]) + "\n")
    functions = (Function(node, lines) for node in tree.body if isinstance(node, ast.FunctionDef))
    written += ["\n" + "\n".join(function.written()) + "\n" for function in functions]
    return "\n".join(written)


def all_files() -> dict[Path, str]:
    """What is to be written, by its path."""
    return {
        (path := PACKAGE / source).with_name(f"{path.stem}_inline.pxd"): inline_types(path.read_text(), path.stem)
        for source in SOURCES
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=("write", "check"))
    command = parser.parse_args().command
    stale = {path: text for path, text in all_files().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        if command == "write":
            path.write_text(text)
        print(f"{path.name} {'is written' if command == 'write' else 'is not what its source gives: write it again'}")
    return 1 if stale and command == "check" else 0


if __name__ == "__main__":
    raise SystemExit(main())
