"""SQL as far as it is read without Spark: where statements end, and which tables they take from."""

from __future__ import annotations

import pytest

from tidelog.spark.pipelines.sql_text import line_of, statements_of, tables_of, tokens_of


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT * FROM orders", ["orders"]),
        ("select a.x from Orders a, payments as b join `odd name` using (id)", ["Orders", "payments", "odd name"]),
        (
            "SELECT sum(price) AS revenue, count(*) AS orders FROM sold GROUP BY product, window(at, '1 minute')",
            ["sold"],
        ),
        (
            "SELECT * FROM (SELECT id, n FROM a WHERE n IN (SELECT n FROM b)) LEFT JOIN (c JOIN d ON c.x = d.x) ON 1 = 1",
            list("abcd"),
        ),
        ("WITH own AS (SELECT * FROM a), more(x) AS (SELECT 1 FROM own, b) SELECT * FROM more, own", ["a", "b"]),
        ("SELECT extract(year FROM at), trim(BOTH ' ' FROM name) FROM a WHERE x IS NOT DISTINCT FROM y", ["a"]),
        ("SELECT * FROM a LATERAL VIEW explode(list) t AS one, two WHERE one > 1", ["a"]),
        ("SELECT * FROM range(10), STREAM(a), shop.orders, delta.`path/to`, b", ["a", "b"]),
        (
            "SELECT 'FROM x', \"FROM y\" -- FROM z\n FROM a /* FROM /* FROM b */ FROM c */ UNION ALL SELECT 1 FROM d",
            ["a", "d"],
        ),
        ("SELECT * FROM a TABLESAMPLE (5 PERCENT) WHERE f(x, y) ORDER BY one, two", ["a"]),
        ("FROM a SELECT id", ["a"]),
        ("SELECT * FROM a) FROM b", ["a", "b"]),
        ("no sql at all ('", []),
    ],
)
def test_tables_are_what_is_behind_from_and_join(text: str, tables: list[str]) -> None:
    assert tables_of(text) == tables


def test_statements_end_at_semicolons_outside_of_texts_and_comments() -> None:
    text = '-- first;\nCREATE VIEW a AS SELECT \';\' AS `x;` /* ; */ FROM b;\n;\n\n  SELECT "\\";" FROM a -- no end'

    found = statements_of(text)

    assert [each.text for each in found] == [
        "CREATE VIEW a AS SELECT ';' AS `x;` /* ; */ FROM b",
        'SELECT "\\";" FROM a',
    ]
    assert [line_of(text, each.start) for each in found] == [2, 5]
    assert statements_of(text, found[0].start + 7)[0].text.startswith("VIEW a")


@pytest.mark.parametrize(("text", "is_open"), [("/* a /* b */", True), ("/* a */", False), ("'a", True), ("/*/", True)])
def test_what_is_left_open_is_known(text: str, is_open: bool) -> None:
    assert any(each.is_left_open for each in tokens_of(text)) is is_open
