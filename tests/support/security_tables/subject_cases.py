"""Awkward subjects of certificates in DER, with rules of `ssl.principal.mapping.rules` to put them through."""

from __future__ import annotations

# Tags of ASN.1's texts.
UTF8, NUMERIC, PRINTABLE, T61, IA5, UNIVERSAL, BMP, OCTETS = 12, 18, 19, 20, 22, 28, 30, 4
_CODECS = {UNIVERSAL: "utf-32-be", BMP: "utf-16-be", UTF8: "utf-8", T61: "latin-1"}

CN, SURNAME, SERIAL, C, L, ST, STREET, ORG, OU, TITLE = (f"2.5.4.{n}" for n in (3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
GIVEN, INITIALS, GENERATION, DN_QUALIFIER, POSTAL = (f"2.5.4.{n}" for n in (42, 43, 44, 46, 17))
UID, DC, EMAIL = "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1"
PRIVATE = "1.3.6.1.4.1.99999.1"

Attribute = tuple[str, int, str]


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _object_id(dotted: str) -> bytes:
    first, second, *rest = (int(each) for each in dotted.split("."))
    content = b""
    for number in (first * 40 + second, *rest):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.append(number & 0x7F | 0x80)
        content += bytes(reversed(groups))
    return der(6, content)


def subject(*components: Attribute | list[Attribute]) -> bytes:
    """A name in DER, its components in the order of the certificate; a list is one component of several parts."""
    encoded = b""
    for component in components:
        parts = [
            der(0x30, _object_id(kind) + der(tag, text.encode(_CODECS.get(tag, "ascii"))))
            for kind, tag, text in (component if isinstance(component, list) else [component])
        ]
        encoded += der(0x31, b"".join(sorted(parts)))
    return der(0x30, encoded)


def cn(text: str, tag: int = UTF8) -> bytes:
    return subject((C, PRINTABLE, "DE"), (ORG, UTF8, "Foo"), (CN, tag, text))


SUBJECTS: dict[str, bytes] = {
    "empty": subject(),
    "plain": cn("client", PRINTABLE),
    "order": subject((C, PRINTABLE, "DE"), (ORG, UTF8, "Foo, Inc"), (OU, UTF8, "Eng"), (CN, UTF8, "client")),
    "comma": cn("a,b"),
    "plus": cn("a+b"),
    "quote": cn('a"b'),
    "backslash": cn("a\\b"),
    "angle": cn("a<b>c"),
    "semicolon": cn("a;b"),
    "equals": cn("a=b"),
    "hash first": cn("#ab"),
    "hash inside": cn("a#b"),
    "blank first": cn(" a"),
    "blank last": cn("a "),
    "blanks around": cn("  a  b  "),
    "only blanks": cn("   "),
    "empty value": cn(""),
    "newline": cn("a\nb"),
    "tab and nul": cn("a\tb\x00c"),
    "control": cn("a\x01\x7fb"),
    "umlaut": cn("Jürgen"),
    "umlaut T61": cn("Jürgen", T61),
    "cjk": cn("証明書"),
    "astral": cn("a😀b"),
    "bmp": cn("Jürgen 証", BMP),
    "universal": cn("Jü😀", UNIVERSAL),
    "ia5": cn("a@b.c", IA5),
    "numeric": cn("12 34", NUMERIC),
    "octets": cn("abc", OCTETS),
    "email": subject((CN, UTF8, "a"), (EMAIL, IA5, "a@b.c")),
    "all keywords": subject(
        (C, PRINTABLE, "DE"), (ST, UTF8, "Land"), (L, UTF8, "Stadt"), (STREET, UTF8, "Weg 1"), (ORG, UTF8, "Org"),
        (OU, UTF8, "Unit"), (DC, IA5, "example"), (DC, IA5, "com"), (UID, UTF8, "me"), (CN, UTF8, "name")),
    "no keywords": subject(
        (SURNAME, UTF8, "Sur"), (SERIAL, PRINTABLE, "42"), (TITLE, UTF8, "Dr"), (GIVEN, UTF8, "G"), (INITIALS, UTF8, "I"),
        (GENERATION, UTF8, "Jr"), (DN_QUALIFIER, PRINTABLE, "q"), (POSTAL, UTF8, "12345")),
    "private": subject((CN, UTF8, "a"), (PRIVATE, UTF8, "Jü, x")),
    "multi valued": subject((ORG, UTF8, "Foo"), [(CN, UTF8, "b"), (UID, UTF8, "a")]),
    "multi valued thrice": subject([(OU, UTF8, "x"), (CN, UTF8, "z+"), (OU, UTF8, "a")], (C, PRINTABLE, "DE")),
    "multi valued oid": subject([(CN, UTF8, "n"), (EMAIL, IA5, "a@b.c")]),
    "twice": subject((CN, UTF8, "one"), (CN, UTF8, "two")),
    "long": cn("x" * 300),
    "nbsp": cn("\u00a0a\u00a0"),
    "combining": cn("e\u0301"),
    "zero width": cn("a\u200bb"),
    "dotted i": cn("İIıi"),
    "sharp s": cn("Straße"),
    "slash and dollar": cn("a/b$1\\2"),
    "trailing backslash": cn("a\\"),
    "empty utf8 last blank escaped": cn("a\\ "),
}  # fmt: skip

RULES = [
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),.*$/$1/",
    "RULE:^CN=(.*?),.*$/$1/L",
    "RULE:^CN=(.*?),.*$/$1/U",
    "RULE:^CN=(.*?),O=(.*?),C=(.*?)$/$1@$2.$3/L,DEFAULT",
    "RULE:CN=([^,]*)/$1/, RULE:^CN=([^,]*),.*$/$1/",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:^CN=(\\w+),.*$/$1$2/, DEFAULT",
    "RULE:^CN=(\\w+),.*$/$12/, DEFAULT",
    "RULE:^CN=(\\w+),.*$/$0/, DEFAULT",
    "RULE:^(.*)$/\\$1 $1/",
    "RULE:^(.*)$/a\\/b/",
    "RULE:^CN=a\\/b.*$/slash/,RULE:.*/none/U",
    "RULE:(.*),C=DE/$1/,RULE:(.*)/x/",
    "RULE:.*/fixed/",
    "RULE:.*/$1/",
    "RULE:(CN=.*?)(,.*)?/$2$1/",
    "RULE:(?<name>.*)/${name}!/",
    "RULE:(.)*/[$1]/",
    "RULE:(?i)cn=(.*?),.*/$1/L,DEFAULT",
    "RULE:CN=(\\p{L}+),.*/$1/U,DEFAULT",
    "RULE:CN=(.*),O=Foo,C=DE/$1/L , RULE:.*(client).*/$1/U , DEFAULT",
    "rule:.*/x/",
    "RULE:(.*)/$1",
    "RULE:(.*)/$1/X",
    "RULE:(.*/$1/",
    "DEFAULT,RULE:.*/x/",
    "RULE:.*,O=Foo,.*/$/",
    "RULE:^CN=((a)(b)?),.*/$3-$2-$1/,DEFAULT",
]
"""Rules as an administrator may write them, some of them wrong."""
