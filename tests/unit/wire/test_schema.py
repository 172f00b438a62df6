# Declarations are read at run time: no `from __future__ import annotations` here.

import pytest

from tidelog.wire.schema import (
    INT16,
    INT32,
    STRING,
    Array,
    ArrayOf,
    Int16,
    Int32,
    Message,
    Records,
    Request,
    String,
    Struct,
    StructOf,
    Uuid,
    between,
    field,
    fields_of,
    has_records,
    since,
    tagged,
    until,
)
from tidelog.wire.versions import VersionRange


class Inner(Struct):
    number: Int32 = -1


class Sample(Request, api_key=7, versions="2-9", flexible="5+", listeners="broker controller"):
    plain: Int16
    later: Int32 = since(4)
    gone: String = until(3, default="x")
    for_a_while: Int32 = between(3, 4, default=-1, ignorable=True)
    maybe: String | None = since(3, default=None)
    sometimes_null: Array[Inner] | None = field(nullable="6+")
    old_style: String | None = field(compact=False)
    extra: Inner = tagged(0, 5, default_factory=Inner)


class Carrier(Message, versions="0"):
    parts: Array[Inner]
    data: Records | None


class Wrapper(Struct):
    carriers: Array[Carrier]


def test_a_declaration_is_kept_in_wire_order() -> None:
    assert [each.name for each in fields_of(Sample)] == [
        "plain",
        "later",
        "gone",
        "for_a_while",
        "maybe",
        "sometimes_null",
        "old_style",
        "extra",
    ]


def test_each_word_of_the_vocabulary_says_what_it_means() -> None:
    plain, later, gone, for_a_while, maybe, sometimes_null, old_style, extra = fields_of(Sample)

    assert plain.wire_type is INT16
    assert later.wire_type is INT32
    assert str(later.versions) == "4+"
    assert str(gone.versions) == "0-3"
    assert gone.default == "x"
    assert str(for_a_while.versions) == "3-4"
    assert for_a_while.ignorable
    assert maybe.nullable == maybe.versions
    assert sometimes_null.wire_type == ArrayOf(StructOf(Inner))
    assert sometimes_null.nullable == VersionRange.parse("6+")
    assert sometimes_null.default == []
    assert old_style.wire_type is STRING
    assert not old_style.compact
    assert (extra.tag, extra.default) == (0, Inner())


def test_the_facts_of_a_message_are_on_its_class() -> None:
    assert Sample.api_key == 7
    assert Sample.versions == (2, 9)
    assert 5 in Sample.flexible
    assert Sample.listener_kinds == ("broker", "controller")
    assert not Sample.latest_version_unstable


def test_every_field_has_a_default_at_run_time() -> None:
    sample = Sample()  # type: ignore[call-arg] # a type checker wants the required ones

    assert sample.plain == 0
    assert sample.later == 0
    assert sample.maybe is None
    assert sample.extra == Inner(number=-1)
    assert Carrier().data is None  # type: ignore[call-arg]


def test_defaults_are_never_shared() -> None:
    one, other = Carrier(), Carrier()  # type: ignore[call-arg]
    one.parts.append(Inner())
    left, right = Sample(), Sample()  # type: ignore[call-arg]
    left.extra.number = 5

    assert other.parts == []
    assert right.extra.number == -1


def test_records_are_found_at_any_depth() -> None:
    assert has_records(Carrier)
    assert has_records(Wrapper)
    assert not has_records(Sample)


def test_null_without_a_type_that_allows_it_is_refused() -> None:
    with pytest.raises(TypeError, match="declared as"):

        class Wrong(Struct):
            name: String = field(nullable="3+")


def test_a_type_that_the_wire_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="not a type of the wire"):

        class Wrong(Struct):
            names: dict[str, int]


def test_annotations_as_text_are_refused() -> None:
    with pytest.raises(TypeError, match="from __future__"):

        class Wrong(Struct):
            name: "String"


def test_a_field_cannot_hide_a_fact_of_its_message() -> None:
    with pytest.raises(TypeError, match="taken"):

        class Wrong(Message, versions="0"):
            versions: Uuid  # type: ignore[assignment, misc]
