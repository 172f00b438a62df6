"""What `tidelog produce` and `consume` share: the cluster is looked for first, and errors are one sentence."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.cli.admin_session import (
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    RefusalError,
    admin_settings,
    complain,
    not_reached,
)
from tidelog.cli.client_lines import ClientLines
from tidelog.cli.interrupts import EXIT_INTERRUPTED
from tidelog.cli.topic_names import with_nearest_topic
from tidelog.client.admin import Admin
from tidelog.client.errors import ClientError, ConfigError, NotReachedError, UnknownTopicError
from tidelog.client.kafka_properties import in_kafka_names


def with_cluster(command: str, bootstrap: str, work: Callable[[Admin], int]) -> int:
    """Do some work with a cluster that was reached. The exit code."""
    try:
        with (
            ClientLines(command) as lines,
            Admin(**admin_settings(bootstrap)) as admin,
        ):
            try:
                admin.connect()
            except NotReachedError as error:
                raise not_reached(error) from error
            lines.begun()
            try:
                return work(admin)
            except UnknownTopicError as error:
                raise _with_nearest_topic(admin, error) from error
    except (QuestionError, ConfigError) as error:
        return complain(command, in_kafka_names(str(error)), EXIT_WRONG_QUESTION)
    except (RefusalError, ClientError) as error:
        return complain(command, in_kafka_names(str(error)), EXIT_REFUSED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _with_nearest_topic(admin: Admin, error: UnknownTopicError) -> ClientError | RefusalError:
    try:
        return with_nearest_topic(error, [each.name for each in admin.list_topics()])
    except ClientError:
        return error
