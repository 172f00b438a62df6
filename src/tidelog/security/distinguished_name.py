"""The name in a certificate as Java's `X500Principal.getName()` writes it: what Kafka calls the holder of the certificate.

    distinguished_name(subject)        CN=client,OU=Eng,O=Foo\\, Inc,C=DE

RFC 2253, last component first. Nine attributes have keywords; any other is its number with the hex of its DER value. Java's
ways are kept, since ACLs name principals by this text: strings are read as UTF-8.
"""

from __future__ import annotations

import re

from tidelog.security.der import OBJECT_IDENTIFIER, SEQUENCE, SET, expect, first_two, identifier, items

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_STRINGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"
# Java puts one sign for such a character, and Python three.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


def distinguished_name(name: bytes) -> str:
    """The text of a Name, which is given as the content of its sequence. DerError if it is none."""
    components = [_component(expect(component, SET)) for component in items(name)]
    return ",".join(reversed(components))


def same_name(one: bytes, other: bytes) -> bool:
    """Whether two names are the same but for case and blanks, as Kafka compares those of a replaced certificate."""
    return one == other or _canonical(one) == _canonical(other)


def _canonical(name: bytes) -> str:
    return " ".join(distinguished_name(name).casefold().split())


def _component(content: bytes) -> str:
    return "+".join(_attribute(expect(attribute, SEQUENCE)) for attribute in items(content))


def _attribute(content: bytes) -> str:
    kind, value = first_two(content)
    number = identifier(expect(kind, OBJECT_IDENTIFIER))
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{content[value.start : value.end].hex()}"
    return f"{keyword}={_escaped(_decoded(value.content))}"


def _decoded(content: bytes) -> str:
    return _SURROGATE.sub(_REPLACEMENT, content).decode("utf-8", "replace")


def _escaped(text: str) -> str:
    text = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    lead = len(text) - len(text.lstrip(_BLANKS))
    trail = len(text.rstrip(_BLANKS))
    return "".join(f"\\{char}" if at < lead or at >= trail else char for at, char in enumerate(text))
