"""What counts as the same output; and a page that lies is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import parse
from tests.support.typed_page import PageError, TypedPage, difference


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a", "a\n"),
        ("", ""),
        ("id 2yT3vbKZRzmYvJ1bq6XxNA", "id AsLcAsqgQ5WsmZOYgnPXMw\n"),
        ("at 2026-11-18T00:30:44.279Z", "at 2027-01-02T03:04:05.006Z\n"),
        ("1 passed in 0.31s", "1 passed in 12.02s\n"),
        ("data in /tmp/tidelog-k2x7, stop", "data in /tmp/tidelog-c_zq8f, stop\n"),
        ("from ... to\nthe end", "from here to\nthe end\n"),
        ("first\n...\nlast", "first\n1\n2\nlast\n"),
        ("first\n...\nlast", "first\nlast\n"),
    ],
)
def test_the_same(shown: str, printed: str) -> None:
    assert difference(tuple(shown.splitlines()), printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a", "b\n"),
        ("a", ""),
        ("", "a\n"),
        ("a", "a\nb\n"),
        ("offset 4", "offset 5\n"),
        ("a  b", "a b\n"),
        ("first\n...\nlast", "first\nlast\nmore\n"),
        ("unrecoverable_partitions", "recoverable_partitions_x\n"),
    ],
)
def test_not_the_same(shown: str, printed: str) -> None:
    assert difference(tuple(shown.splitlines()), printed) != ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```console\n$ echo a\nb\n```", "+a"),
        ("```console\n$ false\n```", "exit code 1"),
        ("```console\n$ false | true\n```", "exit code 1"),
        ("```sh\nfalse\ntrue\n```", "exit code 1"),
        ("<!-- test: exit code 2 -->\n```sh\nexit 3\n```", "exit code 3"),
        ("```python\nraise ValueError('torn')\n```", "torn"),
        ("```python\nimport sys; print('beware', file=sys.stderr)\n```", "beware"),
        ("```python\nprint(1)\n```\n```output\n2\n```", "+1"),
        ("<!-- test page: one Python session -->\n```python\nx = 1\n```\n```python\ny\n```", "name 'y' is not defined"),
        ("<!-- test: a terminal of its own -->\n```console\n$ echo other\nready\n```", "+other"),
        ("<!-- test: a terminal of its own -->\n```console\n$ echo ready; exit 3\nready\n```", "page.md:2: it ended"),
    ],
)
def test_what_a_reader_would_meet_is_told(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(PageError) as met, TypedPage(parse("page.md", text), tmp_path) as typed:
        typed.type_all()

    assert problem in str(met.value)


def test_a_page_that_is_right(tmp_path: Path) -> None:
    text = """
Save this as `a.txt`:
<!-- test: file a.txt -->
```text
127.0.0.1:9092
```
<!-- test: a terminal of its own -->
```console
$ trap 'exit 0' INT; echo "port 9092 of $(pwd)"; while :; do sleep 0.1; done
port 9092 of /home/you
```
```console
$ cat a.txt; test "$TIDELOG_BOOTSTRAP" = "$(cat a.txt)"
127.0.0.1:9092
$ trap 'exit 0' INT; echo on; while :; do sleep 0.1; done
on
^C
```
<!-- test page: one Python session -->
```python
x = 1
```
```python
print(x)
```
```output
1
```
"""
    with TypedPage(parse("page.md", text), tmp_path) as typed:
        typed.type_all()

    assert "9092" not in (typed.home / "a.txt").read_text()
