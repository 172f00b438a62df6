"""What is read out of a page, and which of its blocks would escape from being typed."""

from __future__ import annotations

import pytest

from tests.support.documents import Command, parse

PAGE = """# A page

Save this as `shop.properties`:

<!-- test: file shop.properties -->
```properties
node.id=1
```

<!-- test: a terminal of its own -->
```console
$ tidelog up
ready
```

```console
$ printf 'a b' \\
> | wc -w
2

$ true
```

```python
print("x")
```

```output
x
```

- an item

      code that goes on in it
"""


def test_a_page_has_blocks_with_marks_commands_and_output() -> None:
    page = parse("page.md", PAGE)
    file, node, commands, program = page.blocks

    assert page.mistakes == []
    assert (file.file, file.is_run, file.text) == ("shop.properties", False, "node.id=1\n")
    assert node.stays
    assert commands.commands() == [Command(17, "printf 'a b' \\\n| wc -w", ("2",)), Command(21, "true", ())]
    assert (program.text, program.output, program.is_run) == ('print("x")\n', ("x",), True)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("```\ntidelog up\n```", "'no language'"),
        ("```rust\nmain\n```", "'rust'"),
        ("```text\n+--+\n```", "nobody can type this"),
        ("```properties\na=b\n```", "nobody can type this"),
        ("<!-- test: not run, -->\n```sh\nmake\n```", "say why"),
        ("<!-- test: not rum, why -->\n```sh\nmake\n```", "is no mark"),
        ("<!-- test: file a.py -->\n```python\n1\n```", "does not say that this is `a.py`"),
        ("<!-- test: not run, why -->\nwords\n\n```sh\nmake\n```", "no block below it"),
        ("<!-- test: not run, why -->", "no block below it"),
        ("<!-- test page: soon -->", "no mark of a page"),
        ("```output\nx\n```", "right below a program"),
        ("```python\n1\n```\n\nwords\n\n```output\nx\n```", "right below a program"),
        ("```console\ntidelog up\n```", "begins with `$ `"),
        ("<!-- test: a terminal of its own -->\n```console\n$ a\n$ b\n```", "one command"),
        ("<!-- test: a terminal of its own -->\n```sh\na\n```", "only a console"),
        ("words:\n\n    tidelog up\n", "a block by indentation"),
        ("```sh\nmake\n", "never closed"),
    ],
)
def test_a_block_that_would_escape_is_found(text: str, mistake: str) -> None:
    (found,) = parse("page.md", text).mistakes

    assert mistake in found
