"""What a function returns as a token, and which options bring one."""

from __future__ import annotations

import pytest

from tidelog.client.token_source import token_of
from tidelog.security.access_token import AccessToken, AccessTokenError


def test_a_function_returns_a_token_or_a_token_and_its_end() -> None:
    assert token_of("abc") == AccessToken("abc")
    assert token_of(("abc", 1.5)) == AccessToken("abc", 1500)
    assert token_of(("abc", 2)) == AccessToken("abc", 2000)


async def a_token() -> str:
    return "abc"


@pytest.mark.parametrize("returned", [None, 7, b"abc", ("abc",), ("abc", "soon"), ("abc", True), ["abc", 1, 2]])
def test_whatever_else_it_returns_is_one_sentence_without_it(returned: object) -> None:
    with pytest.raises(AccessTokenError) as caught:
        token_of(returned)

    assert str(caught.value) == (
        f"sasl_oauthbearer_token_callback returned a {type(returned).__name__}; "
        "it returns a token, or a token and when it ends"
    )


def test_a_coroutine_function_is_told_to_be_an_ordinary_one() -> None:
    with pytest.raises(AccessTokenError, match="is a coroutine function, and has to be an ordinary one"):
        token_of(a_token())
