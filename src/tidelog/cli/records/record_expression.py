"""`tidelog consume --filter EXPR`: a small language about one record, in Python's notation.

    key value           text, or None; what is no UTF-8 has U+FFFD in its place
    json                the value as JSON: json.customer.id, json["customer id"], json.items[0]; None where there is nothing
    headers             headers.name or headers["trace id"]: the text of the last header of this name, or None
    topic partition offset timestamp        the last in milliseconds since 1970

    == != < <= > >= in, not in, is None     and or not     + - * / // %     numbers, 'texts', None, True, False
    matches(text, 'regular expression of RE2')  startswith(text, 'a')  endswith(text, 'z')  lower(text)  upper(text)
    len(x)  int(x)  float(x)  time('-1h')

The expression is parsed by Python and compiled here, node by node: nothing is evaluated by name, no attribute of an object is
ever read, and what is not listed above is refused with its position. A record cannot make an expression fail: what cannot be
compared is not less or more, what cannot be computed is None.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, cast

import msgspec

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.moments import parse_time
from tidelog.client.consumer.records import ConsumerRecord
from tidelog.model.config import did_you_mean

Row: TypeAlias = ConsumerRecord[Any, Any]
_Term: TypeAlias = Callable[[Row], Any]

# What somebody types. Both also bound how deep the evaluation calls itself and how large its numbers get.
EXPRESSION_MAX = 2_000
_DEPTH_MAX = 60
PATTERN_MAX = 1_000


class _Pattern(Protocol):
    def search(self, text: str | bytes) -> object | None: ...


def record_filter(expression: str) -> Callable[[Row], bool]:
    """Whether a record is one that the expression is about. QuestionError, with the position, for what is no expression."""
    compiled = _Compiler(expression).compiled()
    return lambda record: bool(compiled(record))


def grep(pattern: str) -> Callable[[Row], bool]:
    """Whether a regular expression occurs in the key or the value of a record."""
    try:
        search = _regex(pattern.encode(errors="surrogateescape")).search
    except ValueError as error:
        raise QuestionError(f"--grep: {error}") from None
    return lambda record: (
        (record.value is not None and search(bytes(record.value)) is not None)
        or (record.key is not None and search(bytes(record.key)) is not None)
    )


def topic_pattern(pattern: str) -> Callable[[str], bool]:
    """Whether a regular expression is the whole of a topic's name."""
    try:
        search = _regex(f"^(?:{pattern})$").search
    except ValueError as error:
        raise QuestionError(f"{pattern!r}: {error}") from None
    return lambda name: search(name) is not None


def _regex(pattern: str | bytes) -> _Pattern:
    """RE2's, whose time is linear. ValueError where it is none."""
    import re2  # noqa: PLC0415 - loaded by the first pattern

    if len(pattern) > PATTERN_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_MAX} characters")
    options = re2.Options()
    # It would write what is wrong with the pattern on standard error as well.
    options.log_errors = False
    try:
        return cast("_Pattern", re2.compile(pattern, options))
    except re2.error as error:
        told = error.args[0] if error.args else "cannot be read"
        reason = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        raise ValueError(f"no regular expression of RE2: {reason[:200]}") from None


def _text(data: Any) -> str | None:
    return None if data is None else bytes(data).decode("utf-8", "replace")


def _json(record: Row) -> Any:
    try:
        return None if record.value is None else msgspec.json.decode(record.value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


_NAMES: Mapping[str, _Term] = {
    "key": lambda record: _text(record.key),
    "value": lambda record: _text(record.value),
    "json": _json,
    "headers": lambda record: {name: _text(value) for name, value in record.headers},
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp_ms,
}
# Those that have fields.
_CONTAINERS = ("json", "headers")


def _number(kind: type[int | float]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        try:
            return kind(value)
        except (TypeError, ValueError, OverflowError):
            return None

    return converted


def _of_text(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of texts alone; None of anything else."""
    return lambda *values: function(*values) if all(isinstance(each, str) for each in values) else None


_FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "startswith": (2, _of_text(str.startswith)),
    "endswith": (2, _of_text(str.endswith)),
    "lower": (1, _of_text(str.lower)),
    "upper": (1, _of_text(str.upper)),
    "len": (1, lambda value: len(value) if isinstance(value, str | list | dict) else None),
    "int": (1, _number(int)),
    "float": (1, _number(float)),
}
# Those whose last argument is known, and checked, before there is a record.
_PREPARED = ("matches", "time")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            return None
        try:
            return function(left, right)
        except (ZeroDivisionError, OverflowError):
            return None

    return computed


def _ordered(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        is_alike = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return is_alike and function(left, right)

    return compared


def _contained(left: Any, right: Any) -> bool:
    if isinstance(right, str):
        return isinstance(left, str) and left in right
    if isinstance(right, dict):
        return isinstance(left, str) and left in right
    return isinstance(right, list | tuple) and left in right


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: _contained,
    ast.NotIn: lambda left, right: not _contained(left, right),
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
# None of them makes a number longer than its operands together: those of a record are short, and so is the expression.
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _arithmetic(operator.add),
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
}


class _Compiler:
    """From an expression to a function of a record."""

    def __init__(self, expression: str) -> None:
        if len(expression) > EXPRESSION_MAX:
            raise QuestionError(f"--filter: an expression has at most {EXPRESSION_MAX} characters")
        # On one line, so that a position is a column of what was typed.
        self._typed = expression.replace("\n", " ").replace("\r", " ").replace("\t", " ").replace("\f", " ")
        self._indent = len(self._typed) - len(self._typed.lstrip(" "))

    def compiled(self) -> _Term:
        if not self._typed.strip():
            raise QuestionError("--filter: the expression is empty")
        try:
            with warnings.catch_warnings():
                # Of Python's own, about its programs.
                warnings.simplefilter("ignore")
                tree = ast.parse(self._typed[self._indent :], mode="eval")
        except SyntaxError as error:
            # Python has no position for what is missing at the end.
            column = self._indent + error.offset if error.offset else len(self._typed) + 1
            raise QuestionError(f"--filter, column {column}: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError):
            raise QuestionError(
                "--filter: the expression cannot be read: it is nested too deeply, or is no text"
            ) from None
        return self._term(tree.body, 0)

    def _refused(self, node: ast.AST, reason: str) -> QuestionError:
        before = self._typed[self._indent :].encode(errors="surrogateescape")[: getattr(node, "col_offset", 0)]
        column = self._indent + len(before.decode(errors="surrogateescape")) + 1
        return QuestionError(f"--filter, column {column}: {reason}")

    def _term(self, node: ast.expr, depth: int) -> _Term:
        if depth > _DEPTH_MAX:
            raise self._refused(node, f"more than {_DEPTH_MAX} levels")
        below = depth + 1
        match node:
            case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
                return lambda _record: value
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Attribute(value=inner, attr=field):
                return self._field(node, inner, field, below)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as field)):
                return self._field(node, inner, field, below)
            case ast.Subscript(
                value=inner, slice=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as back))
            ):
                return self._field(node, inner, -back, below)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated = self._term(operand, below)
                return lambda record: not negated(record)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                positive = self._term(operand, below)
                return lambda record: -number if _is_number(number := positive(record)) else None
            case ast.BoolOp(op=op, values=values):
                return self._joined(values, below, is_and=isinstance(op, ast.And))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                function, first, second = _OPERATORS[type(op)], self._term(left, below), self._term(right, below)
                return lambda record: function(first(record), second(record))
            case ast.Compare():
                return self._compared(node, below)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                terms = [self._term(each, below) for each in elements]
                return lambda record: [each(record) for each in terms]
            case ast.Call():
                return self._called(node, below)
        raise self._refused(node, f"{type(node).__name__} is not part of the language")

    def _name(self, node: ast.AST, name: str) -> _Term:
        if name not in _NAMES:
            known = did_you_mean(name, (*_NAMES, *_FUNCTIONS, *_PREPARED)) or f"; there are {', '.join(_NAMES)}"
            raise self._refused(node, f"there is no {name}{known}")
        return _NAMES[name]

    def _field(self, node: ast.AST, inner: ast.expr, field: str | int, depth: int) -> _Term:
        root = inner
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        if not (isinstance(root, ast.Name) and root.id in _CONTAINERS):
            raise self._refused(node, f"only {' and '.join(_CONTAINERS)} have fields, as in json.customer")
        container = self._term(inner, depth)

        def found(record: Row) -> Any:
            held = container(record)
            if isinstance(held, dict):
                return held.get(field)
            if isinstance(held, list) and isinstance(field, int) and -len(held) <= field < len(held):
                return held[field]
            return None

        return found

    def _joined(self, values: list[ast.expr], depth: int, *, is_and: bool) -> _Term:
        terms = [self._term(each, depth) for each in values]
        if is_and:
            return lambda record: all(each(record) for each in terms)
        return lambda record: any(each(record) for each in terms)

    def _compared(self, node: ast.Compare, depth: int) -> _Term:
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.Is | ast.IsNot) and not (isinstance(right, ast.Constant) and right.value is None):
                raise self._refused(right, "`is` is for None alone, else write ==")
        first = self._term(node.left, depth)
        steps = [
            (_COMPARISONS[type(op)], self._term(right, depth))
            for op, right in zip(node.ops, node.comparators, strict=True)
        ]

        def holds(record: Row) -> bool:
            left = first(record)
            for compare, term in steps:
                right = term(record)
                if not compare(left, right):
                    return False
                left = right
            return True

        return holds

    def _called(self, node: ast.Call, depth: int) -> _Term:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _PREPARED and not node.keywords:
            return self._prepared(node, name, depth)
        if name not in _FUNCTIONS:
            known = (
                did_you_mean(name, (*_FUNCTIONS, *_PREPARED)) or f"; there are {', '.join((*_PREPARED, *_FUNCTIONS))}"
            )
            raise self._refused(node.func, f"there is no such function{known}")
        count, function = _FUNCTIONS[name]
        if len(node.args) != count or node.keywords:
            raise self._refused(node, f"{name} takes {count} argument{'s' if count > 1 else ''}")
        terms = [self._term(each, depth) for each in node.args]
        return lambda record: function(*[each(record) for each in terms])

    def _prepared(self, node: ast.Call, name: str, depth: int) -> _Term:
        arguments = {"matches": "a text and a pattern in quotes", "time": "one time in quotes"}[name]
        last = node.args[-1] if len(node.args) == (2 if name == "matches" else 1) else None
        if not (isinstance(last, ast.Constant) and isinstance(last.value, str)):
            raise self._refused(node, f"{name} takes {arguments}")
        try:
            if name == "time":
                moment = parse_time(last.value)
                return lambda _record: moment
            search = _regex(last.value).search
        except (ValueError, QuestionError) as error:
            raise self._refused(last, str(error)) from None
        text = self._term(node.args[0], depth)
        return lambda record: isinstance(found := text(record), str) and search(found) is not None
