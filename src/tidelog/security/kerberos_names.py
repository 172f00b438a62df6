"""`sasl.kerberos.principal.to.local.rules`: what the holder of a principal of Kerberos is called.

    names = ShortNames.parse("EXAMPLE.COM", ["RULE:[2:$1@$0](kafka@.*)s/@.*//", "DEFAULT"])
    names.short_name("alice/admin@EXAMPLE.COM")           alice

    DEFAULT                                               the first component of a name of the default realm
    RULE:[n:format](pattern)s/from/to/g/L                 for names of n components: the format with $0 (the realm), $1, $2 filled
                                                          in, if the pattern matches all of it; then the substitution, g for every
                                                          place; then L or U for the case

The first rule that applies decides, and what it comes to has no / and no @. As Kafka's `KerberosName`, `KerberosRule` and
`KerberosShortNamer`, but for the dialect of patterns: it is Python's, with Java's ASCII classes of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE = re.compile(
    r"(DEFAULT)"
    r"|RULE:\[(\d*):([^\]]*)](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?",
    re.ASCII,
)
_PARAMETER = re.compile(r"([^$]*)(?:\$(\d*))?", re.ASCII)
_NOT_SIMPLE = re.compile(r"[/@]")
_NAMED_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
_DIGITS = frozenset("0123456789")
# Java's `int`, which the numbers in a rule are read as.
_INT_MAX = 2**31 - 1


class KerberosNameError(ValueError):
    """Rules that cannot be, or a name that none of them applies to; in Kafka's words."""


class KerberosName(NamedTuple):
    """The parts of a principal: `service/host@REALM`. A name without any of `/` and `@` is simple already."""

    service: str
    host: str | None
    realm: str | None

    @classmethod
    def parse(cls, text: str) -> KerberosName:
        match = _NAME.fullmatch(text)
        if match is not None:
            return cls(match[1], match[2], match[3])
        if "@" in text:
            raise KerberosNameError(f"Malformed Kerberos name: {text}")
        return cls(text, None, None)

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        return f"{self.service}{host}" + ("" if self.realm is None else f"@{self.realm}")


class _Default(NamedTuple):
    realm: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        if parameters[0] != self.realm:
            return None
        return _simple(parameters[1], self)

    def __str__(self) -> str:
        return "DEFAULT"


class _Rule(NamedTuple):
    components: int
    format: str
    match: str | None
    pattern: re.Pattern[str] | None
    from_text: str | None
    from_pattern: re.Pattern[str] | None
    to: str
    is_global: bool
    case: str

    def apply(self, parameters: Sequence[str]) -> str | None:
        if len(parameters) - 1 != self.components:
            return None
        result = _filled_in(self.format, parameters)
        if self.pattern is not None and self.pattern.fullmatch(result) is None:
            return None
        if self.from_pattern is not None:
            count = 0 if self.is_global else 1
            result = self.from_pattern.sub(lambda found: _expanded(self.to, found), result, count=count)
        result = _simple(result, self)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def __str__(self) -> str:
        match = "" if self.match is None else f"({self.match})"
        substitution = ""
        if self.from_text is not None:
            substitution = f"s/{self.from_text}/{self.to}/" + ("g" if self.is_global else "")
        case = f"/{self.case}" if self.case else ""
        return f"RULE:[{self.components}:{self.format}]{match}{substitution}{case}"


class ShortNames:
    """The rules of one listener."""

    __slots__ = ("_rules",)

    def __init__(self, rules: Iterable[_Default | _Rule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, default_realm: str, rules: Iterable[str]) -> ShortNames:
        """KerberosNameError says which rule is wrong."""
        return cls([_parsed(default_realm, rule) for rule in rules])

    def short_name(self, principal: str) -> str:
        """KerberosNameError where no rule applies, which fails the authentication."""
        name = KerberosName.parse(principal)
        if name.realm is None:
            return name.service
        parameters = [name.realm, name.service] if name.host is None else [name.realm, name.service, name.host]
        for rule in self._rules:
            result = rule.apply(parameters)
            if result is not None:
                return result
        raise KerberosNameError(f"No rules apply to {name}, rules [{', '.join(map(str, self._rules))}]")


def _parsed(default_realm: str, rule: str) -> _Default | _Rule:
    match = _RULE.match(rule)
    if match is None:
        raise KerberosNameError(f"Invalid rule: {rule}")
    if match.end() != len(rule):
        raise KerberosNameError(f"Invalid rule: `{rule}`, unmatched substring: `{rule[match.end() :]}`")
    is_default, components, form, pattern, from_text, to, is_global, case = match.groups()
    if is_default:
        return _Default(default_realm)
    number = _int(components)
    if number is None:
        raise KerberosNameError(f'For input string: "{components}"')
    return _Rule(
        number,
        form,
        pattern,
        _compiled(pattern),
        from_text,
        _compiled(from_text),
        to or "",
        is_global is not None,
        case or "",
    )


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        return re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise KerberosNameError(f"Invalid rule: the pattern `{pattern}` cannot be used: {error}") from error


def _int(digits: str) -> int | None:
    # More digits than this are no number of Java's, and take long to read.
    if not digits or len(digits.lstrip("0")) > len(str(_INT_MAX)):
        return None
    number = int(digits)
    return number if number <= _INT_MAX else None


def _filled_in(form: str, parameters: Sequence[str]) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(form):
        match = _PARAMETER.match(form, at)
        assert match is not None
        at = match.end()
        pieces.append(match[1])
        if match[2] is None:
            continue
        number = _int(match[2])
        if number is None:
            raise KerberosNameError(f"bad format in username mapping in {match[2]}")
        if number >= len(parameters):
            raise KerberosNameError(
                f"index {number} from {form} is outside of the valid range 0 to {len(parameters) - 1}"
            )
        pieces.append(parameters[number])
    return "".join(pieces)


def _simple(result: str, rule: _Default | _Rule) -> str:
    if _NOT_SIMPLE.search(result):
        raise KerberosNameError(f"Non-simple name {result} after auth_to_local rule {rule}")
    return result


def _expanded(replacement: str, match: re.Match[str]) -> str:
    """A replacement in Java's syntax: `$1`, `${name}`, a backslash before a character that is meant as it is."""
    pieces: list[str] = []
    at = 0
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\":
            if at == len(replacement):
                raise KerberosNameError("character to be escaped is missing")
            pieces.append(replacement[at])
            at += 1
        elif char == "$":
            at = _reference(replacement, at, match, pieces)
        else:
            pieces.append(char)
    return "".join(pieces)


def _reference(replacement: str, at: int, match: re.Match[str], pieces: list[str]) -> int:
    """The group that is named at `at`: by as many digits as name one. Where the text goes on."""
    first = replacement[at : at + 1]
    if first == "{":
        end = replacement.find("}", at)
        name = replacement[at + 1 : end]
        if end < 0 or name not in match.re.groupindex:
            raise KerberosNameError(f"No group with name {{{name}}}")
        pieces.append(match[name] or "")
        return end + 1
    if not first:
        raise KerberosNameError("Illegal group reference: group index is missing")
    if first not in _DIGITS:
        raise KerberosNameError("Illegal group reference")
    number = int(first)
    if number > match.re.groups:
        raise KerberosNameError(f"No group {number}")
    at += 1
    while (digit := replacement[at : at + 1]) in _DIGITS and number * 10 + int(digit) <= match.re.groups:
        number = number * 10 + int(digit)
        at += 1
    pieces.append(match[number] or "")
    return at
