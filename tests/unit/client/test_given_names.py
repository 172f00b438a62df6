from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.given_names import given_topics, names_of


def test_names_come_once_in_their_order() -> None:
    assert names_of(["b", "a", "b"], "topics") == ["b", "a"]


@pytest.mark.parametrize("text", ["orders", b"orders"])
def test_a_text_is_no_list_of_its_letters(text: Any) -> None:
    with pytest.raises(TypeError, match="topics are given as a list of names, as in"):
        names_of(text, "topics")


def test_what_is_no_text_is_no_name() -> None:
    with pytest.raises(TypeError, match="groups are named by text, not by int: 7"):
        names_of(["a", 7], "groups")  # type: ignore[list-item]


@pytest.mark.parametrize("given", [("a", "b"), (["a", "b"],), (("a", "b"),)])
def test_a_consumer_takes_topics_one_by_one_or_as_a_list(given: tuple[Any, ...]) -> None:
    assert list(given_topics(given)) == ["a", "b"]
