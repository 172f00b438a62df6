"""The text of `sasl.jaas.config`: which login module, and with which options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="secret" user_alice="a1";

Read as Kafka reads it, which is with Java's `StreamTokenizer`: words of letters, `-`, `_`, `$` and everything from U+00A0 on,
with digits and `.` from the second place; values bare or between `"` or `'` with backslash escapes; `//`, `/* */` and a lone `/`
begin comments. A bare value that begins with a digit is a number to that tokenizer, and so no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PLAIN_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"

# They look names up in directories, wherever a text says (CVE-2023-25194). Kafka refuses them too.
REFUSED_MODULES = frozenset(
    {"com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule"}
)
_FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})

_END = ""
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = frozenset("01234567")
_DIGITS = frozenset("0123456789")
_LINE_ENDS = frozenset("\r\n")


class JaasError(ValueError):
    """A text that is no login, in Kafka's words. It never holds a value of the text."""


class JaasEntry(NamedTuple):
    """One login: its module, and the options of it."""

    login_module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        # Most options are passwords.
        return f"JaasEntry({self.login_module})"


def parse_jaas(text: str) -> list[JaasEntry]:
    """All logins of a text, in their order."""
    tokens = _Tokens(text)
    entries = []
    while tokens.advance():
        entries.append(_entry(tokens))
    if not entries:
        raise JaasError("Login module not specified in JAAS config")
    return entries


def jaas_entry(text: str) -> JaasEntry:
    """The one login that a property holds."""
    entries = parse_jaas(text)
    if len(entries) != 1:
        raise JaasError(f"JAAS config property contains {len(entries)} login modules, should be 1 module")
    module = entries[0].login_module.strip()
    if module in REFUSED_MODULES:
        raise JaasError(f"{module} is not allowed.")
    return entries[0]


def _entry(tokens: _Tokens) -> JaasEntry:
    login_module = tokens.text
    if not tokens.advance():
        raise JaasError("Login module control flag not specified in JAAS config")
    flag = tokens.text
    if flag is None:
        raise JaasError("Login module control flag is not available in the JAAS config")
    if flag.upper() not in _FLAGS:
        raise JaasError(f"Invalid login module control flag '{flag}' in JAAS config")
    options: dict[str, str] = {}
    while tokens.advance() and tokens.kind != ";":
        key = tokens.text
        if not tokens.advance() or tokens.kind != "=" or not tokens.advance() or tokens.text is None:
            # A key that is no word is null to Java.
            raise JaasError(f"Value not specified for key '{'null' if key is None else key}' in JAAS config")
        if key is not None:
            options[key] = tokens.text
    if tokens.kind != ";":
        raise JaasError("JAAS config entry not terminated by semi-colon")
    if not login_module:
        raise JaasError("Login module not specified in JAAS config")
    return JaasEntry(login_module, options)


def _is_word(character: str) -> bool:
    """Whether a word may begin with it; a `-` is a digit first, and only goes on a word."""
    return ("a" <= character <= "z") or ("A" <= character <= "Z") or character in "_$" or character >= "\xa0"


class _Tokens:
    """Java's `StreamTokenizer`, set up as Kafka does. `kind`: the character, a quote, `word`, `number`, or empty at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.kind = _END
        self.text: str | None = None

    def advance(self) -> bool:
        """On to the next token. False at the end."""
        self.text = None
        self.kind = _END
        while (character := self._peek()) != _END:
            if character <= " ":
                self._at += 1
            elif character == "/":
                if not self._skip_comment():
                    return False
            else:
                self._token(character)
                return True
        return False

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else _END

    def _token(self, character: str) -> None:
        if character in _DIGITS or character in "-.":
            self._number(character)
        elif _is_word(character):
            start = self._at
            while (each := self._peek()) != _END and (_is_word(each) or each in _DIGITS or each in "-."):
                self._at += 1
            self.kind = "word"
            self.text = self._text[start : self._at]
        elif character in "\"'":
            self._at += 1
            self._quoted(character)
        else:
            self._at += 1
            self.kind = character

    def _number(self, character: str) -> None:
        """Its value is of no interest: a number is no value of an option."""
        if character == "-":
            self._at += 1
            character = self._peek()
            if character != "." and character not in _DIGITS:
                self.kind = "-"
                return
        self.kind = "number"
        seen_dot = False
        while (each := self._peek()) != _END and (each in _DIGITS or (each == "." and not seen_dot)):
            seen_dot = seen_dot or each == "."
            self._at += 1

    def _quoted(self, quote: str) -> None:
        """Up to the next such quote. A line that ends before it ends the text too."""
        said = []
        while (each := self._peek()) not in (_END, quote) and each not in _LINE_ENDS:
            self._at += 1
            said.append(self._escaped() if each == "\\" else each)
        if self._peek() == quote:
            self._at += 1
        self.kind = quote
        self.text = "".join(said)

    def _escaped(self) -> str:
        first = self._peek()
        self._at += 1
        if first not in _OCTAL or first == _END:
            # Java keeps what is no character at the very end of a text; no login ends so.
            return _ESCAPES.get(first, first)
        # Up to \377: three digits, if the first is at most 3.
        digits = first
        while len(digits) < (3 if first <= "3" else 2) and self._peek() in _OCTAL and self._peek() != _END:
            digits += self._peek()
            self._at += 1
        return chr(int(digits, 8))

    def _skip_comment(self) -> bool:
        """False: the text ended within it."""
        if self._text.startswith("/*", self._at):
            # Java does not take the * of the opening for that of the end.
            end = self._text.find("*/", self._at + 2)
            self._at = len(self._text) if end < 0 else end + 2
            return end >= 0
        # Behind a lone / Java skips one character without looking at it: the end of that line, if it comes at once.
        self._at += 2
        while (each := self._peek()) != _END and each not in _LINE_ENDS:
            self._at += 1
        return True
