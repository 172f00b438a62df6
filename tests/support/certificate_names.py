"""Awkward names of certificates, each with what Java 17's `X500Principal.getName()` makes of it.

Recorded by `tests/compat/NameOracle.java`; `tests/compat/test_certificate_names.py` asks it again.
"""

from __future__ import annotations

from tests.support.der_writer import Attribute

NAMES: list[tuple[list[list[Attribute]], str]] = [
    ([[("2.5.4.3", 12, b"client")]], "CN=client"),
    (
        [
            [("2.5.4.6", 19, b"DE")],
            [("2.5.4.10", 12, b"Foo, Inc")],
            [("2.5.4.11", 12, b"Eng")],
            [("2.5.4.3", 12, b"client")],
        ],
        "CN=client,OU=Eng,O=Foo\\, Inc,C=DE",
    ),
    ([[("2.5.4.3", 12, b"a=b")]], "CN=a\\=b"),
    ([[("2.5.4.3", 12, b"a+b")]], "CN=a\\+b"),
    ([[("2.5.4.3", 12, b"<a>")]], "CN=\\<a\\>"),
    ([[("2.5.4.3", 12, b"a;b")]], "CN=a\\;b"),
    ([[("2.5.4.3", 12, b'say "hi"')]], 'CN=say \\"hi\\"'),
    ([[("2.5.4.3", 12, b"back\\slash")]], "CN=back\\\\slash"),
    ([[("2.5.4.3", 12, b"#lead")]], "CN=\\#lead"),
    ([[("2.5.4.3", 12, b"mid#hash")]], "CN=mid\\#hash"),
    ([[("2.5.4.3", 12, b" lead")]], "CN=\\ lead"),
    ([[("2.5.4.3", 12, b"trail ")]], "CN=trail\\ "),
    ([[("2.5.4.3", 12, b"  both  ")]], "CN=\\ \\ both\\ \\ "),
    ([[("2.5.4.3", 12, b"in  side")]], "CN=in  side"),
    ([[("2.5.4.3", 12, b"   ")]], "CN=\\ \\ \\ "),
    ([[("2.5.4.3", 12, b"")]], "CN="),
    ([[("2.5.4.3", 12, b"\rcr\r")]], "CN=\\\rcr\\\r"),
    ([[("2.5.4.3", 12, b"line\nfeed")]], "CN=line\nfeed"),
    ([[("2.5.4.3", 12, b"\ttab\t")]], "CN=\ttab\t"),
    ([[("2.5.4.3", 12, b"nul\x00nul")]], "CN=nul\\00nul"),
    ([[("2.5.4.3", 12, b"\x01\x7f")]], "CN=\x01\x7f"),
    ([[("2.5.4.3", 12, b"J\xc3\xbcrgen Gro\xc3\x9f")]], "CN=Jürgen Groß"),
    ([[("2.5.4.3", 12, b"\xe6\x97\xa5\xe6\x9c\xac")]], "CN=日本"),
    ([[("2.5.4.3", 12, b"smile \xf0\x9f\x98\x80")]], "CN=smile 😀"),
    ([[("2.5.4.3", 12, b"e\xcc\x81")]], "CN=é"),
    ([[("2.5.4.3", 12, b"bad\xff\xfeutf")]], "CN=bad��utf"),
    ([[("2.5.4.3", 12, b"\xe6\x97cut")]], "CN=�cut"),
    ([[("2.5.4.3", 12, b"\xed\xa0\x80sur")]], "CN=�sur"),
    ([[("2.5.4.3", 20, b"J\xfcrgen")]], "CN=J�rgen"),
    ([[("2.5.4.3", 30, b"\x00b\x00m\x00p")]], "CN=\\00b\\00m\\00p"),
    ([[("2.5.4.3", 22, b"ia5")]], "CN=ia5"),
    ([[("2.5.4.3", 27, b"general")]], "CN=general"),
    (
        [[("2.5.4.3", 28, b"\x00\x00\x00u\x00\x00\x00n\x00\x00\x00i\x00\x00\x00v")]],
        "CN=#1c10000000750000006e0000006900000076",
    ),
    ([[("2.5.4.3", 18, b"123")]], "CN=#1203313233"),
    ([[("2.5.4.3", 26, b"visible")]], "CN=#1a0776697369626c65"),
    ([[("2.5.4.3", 4, b"octets")]], "CN=#04066f6374657473"),
    ([[("2.5.4.3", 2, b"\x05")]], "CN=#020105"),
    (
        [[("1.2.840.113549.1.9.1", 22, b"a@b.c")], [("2.5.4.3", 12, b"mail")]],
        "CN=mail,1.2.840.113549.1.9.1=#16056140622e63",
    ),
    ([[("2.5.4.5", 19, b"12345")], [("2.5.4.3", 12, b"serial")]], "CN=serial,2.5.4.5=#13053132333435"),
    ([[("2.5.4.12", 12, b"Dr")]], "2.5.4.12=#0c024472"),
    ([[("2.5.4.4", 12, b"Sur")], [("2.5.4.42", 12, b"Given")]], "2.5.4.42=#0c05476976656e,2.5.4.4=#0c03537572"),
    ([[("2.5.4.46", 19, b"q")], [("2.5.4.44", 12, b"jr")]], "2.5.4.44=#0c026a72,2.5.4.46=#130171"),
    (
        [
            [("0.9.2342.19200300.100.1.25", 22, b"org")],
            [("0.9.2342.19200300.100.1.25", 22, b"example")],
            [("0.9.2342.19200300.100.1.1", 12, b"alice")],
        ],
        "UID=alice,DC=example,DC=org",
    ),
    (
        [[("2.5.4.9", 12, b"1, Main St")], [("2.5.4.7", 12, b"K\xc3\xb6ln")], [("2.5.4.8", 12, b"NRW")]],
        "ST=NRW,L=Köln,STREET=1\\, Main St",
    ),
    ([[("2.5.4.11", 12, b"x"), ("2.5.4.3", 12, b"y")]], "OU=x+CN=y"),
    ([[("2.5.4.3", 12, b"y"), ("2.5.4.11", 12, b"x")], [("2.5.4.10", 12, b"z")]], "O=z,CN=y+OU=x"),
    ([[("2.5.4.3", 12, b"m"), ("1.2.840.113549.1.9.1", 22, b"m@n")]], "CN=m+1.2.840.113549.1.9.1=#16036d406e"),
    (
        [
            [
                (
                    "2.5.4.3",
                    12,
                    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                )
            ]
        ],
        "CN=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        [
            [
                (
                    "1.2.3.4.5",
                    12,
                    b"yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
                )
            ]
        ],
        "1.2.3.4.5=#0c81c87979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979797979",
    ),
    ([[("2.999.3", 12, b"big")]], "2.999.3=#0c03626967"),
    ([[("2.5.4.3", 12, b'a,b=c+d"e\\f<g>h;i#j')]], 'CN=a\\,b\\=c\\+d\\"e\\\\f\\<g\\>h\\;i\\#j'),
    ([[("2.5.4.3", 12, b" # ")]], "CN=\\ \\#\\ "),
    ([[("2.5.4.3", 12, b"ends with\\")]], "CN=ends with\\\\"),
    ([[("2.5.4.3", 12, b"\xc2\xa0nbsp\xc2\xa0")]], "CN=\xa0nbsp\xa0"),
    ([], ""),
]
