"""What administrators do with share groups: each step that is noted, what may be tried again, and what is refused."""

from __future__ import annotations

import pytest

from tests.support.share_groups import GROUP, ShareGroupDriver
from tests.support.share_states import AUDIT, ORDERS
from tidelog.coordination.consumer.group import ConsumerGroup
from tidelog.coordination.share.share_partitions import NO_PARTITIONS
from tidelog.model.errors import ErrorCode


@pytest.fixture
def driver() -> ShareGroupDriver:
    return ShareGroupDriver()


def _left_empty(driver: ShareGroupDriver) -> ShareGroupDriver:
    driver.settled("m", topics=("orders", "audit"))
    driver.heartbeat("m", -1)
    return driver


def test_offsets_of_a_group_that_is_not_there_make_it(driver: ShareGroupDriver) -> None:
    administration = driver.share.administration
    beginning = driver.carry_out(administration.alter_offsets(GROUP, {ORDERS: {0: 7, 2: 9}}, driver.now_ms))
    noted = driver.group.partitions.initialising[ORDERS].partitions
    driver.answer(beginning)

    assert beginning.refusal is None
    assert (beginning.state_epoch, beginning.offsets) == (1, {ORDERS: {0: 7, 2: 9}})
    assert noted == (0, 2)
    assert driver.restarted().group.partitions.initialised[ORDERS].partitions == (0, 2)
    assert driver.group.partitions.initialising == {}


def test_members_who_join_later_get_states_of_the_other_partitions_alone(driver: ShareGroupDriver) -> None:
    administration = driver.share.administration
    driver.answer(driver.carry_out(administration.alter_offsets(GROUP, {ORDERS: {0: 7}}, driver.now_ms)))

    driver.heartbeat("m", 0, "orders")

    assert driver.asked[-1].offsets == {ORDERS: {1: -1, 2: -1, 3: -1}}


def test_a_group_with_members_or_of_another_kind_is_not_touched(driver: ShareGroupDriver) -> None:
    administration = driver.share.administration
    driver.settled("m")
    driver.groups["consumers"] = ConsumerGroup("consumers")
    written = len(driver.log)

    altered = driver.carry_out(administration.alter_offsets(GROUP, {ORDERS: {0: 7}}, driver.now_ms)).refusal
    deleted = driver.carry_out(administration.delete_offsets(GROUP, ["orders"])).refusal
    ended = driver.carry_out(administration.end_states(GROUP)).refusal
    other = driver.carry_out(administration.alter_offsets("consumers", {ORDERS: {0: 7}}, driver.now_ms)).refusal

    assert altered is not None
    assert deleted is not None
    assert ended is not None
    assert altered.error is deleted.error is ended.error is ErrorCode.NON_EMPTY_GROUP
    assert other == (ErrorCode.GROUP_ID_NOT_FOUND, "Group consumers is not a share group.")
    assert len(driver.log) == written


def test_offsets_are_deleted_topic_by_topic(driver: ShareGroupDriver) -> None:
    administration = _left_empty(driver).share.administration
    ending = driver.carry_out(administration.delete_offsets(GROUP, ["orders", "unknown"]))
    noted = dict(driver.group.partitions.deleting)
    driver.carry_out(administration.states_ended(GROUP, [ORDERS]))

    assert ending.partitions == {ORDERS: (0, 1, 2, 3)}
    assert ending.refused["unknown"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert noted == {ORDERS: "orders"}
    assert driver.group.partitions.topic_ids == {AUDIT}


def test_a_deletion_that_broke_off_may_be_tried_again(driver: ShareGroupDriver) -> None:
    administration = _left_empty(driver).share.administration
    driver.carry_out(administration.delete_offsets(GROUP, ["orders"]))

    restarted = driver.restarted()
    again = restarted.carry_out(restarted.share.administration.delete_offsets(GROUP, ["orders"]))

    assert {topic: list(parts) for topic, parts in again.partitions.items()} == {ORDERS: [0, 1, 2, 3]}


def test_what_has_no_state_cannot_be_deleted(driver: ShareGroupDriver) -> None:
    administration = _left_empty(driver).share.administration
    driver.carry_out(administration.delete_offsets(GROUP, ["orders"]))
    driver.carry_out(administration.states_ended(GROUP, [ORDERS]))

    ending = driver.carry_out(administration.delete_offsets(GROUP, ["orders"]))

    assert ending.partitions == {}
    assert ending.refused["orders"].message == "There is no offset information to delete."


def test_a_topic_that_is_about_to_be_forgotten_may_begin_again(driver: ShareGroupDriver) -> None:
    administration = _left_empty(driver).share.administration
    driver.carry_out(administration.delete_offsets(GROUP, ["orders"]))

    driver.heartbeat("m", 0, "orders")

    assert driver.group.partitions.deleting == {}
    assert driver.group.partitions.initialised[ORDERS].partitions == (0, 1, 2, 3)


def test_all_states_end_before_the_group_does(driver: ShareGroupDriver) -> None:
    administration = _left_empty(driver).share.administration
    ending = driver.carry_out(administration.end_states(GROUP))

    assert {topic: list(parts) for topic, parts in ending.partitions.items()} == {ORDERS: [0, 1, 2, 3], AUDIT: [0, 1]}
    assert driver.group.partitions.initialised == {}
    assert driver.group.partitions.deleting.keys() == {ORDERS, AUDIT}


def test_the_tombstones_of_a_group_leave_nothing(driver: ShareGroupDriver) -> None:
    _left_empty(driver)
    group = driver.group
    for record in group.tombstones():
        driver.share.replay(record, driver.now_ms)

    assert GROUP not in driver.groups
    assert group.partitions == NO_PARTITIONS
    assert group.check_delete() is ErrorCode.NONE


def test_a_share_group_knows_no_committed_offsets(driver: ShareGroupDriver) -> None:
    group = _left_empty(driver).group

    assert group.check_commit("m", None, 1, 9, 0) is group.check_fetch(None, -1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert not group.has_offsets
    assert not group.gives_way
