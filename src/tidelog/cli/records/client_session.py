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
from tidelog.client.admin import Admin
from tidelog.client.errors import ClientError, ConfigError, NotReachedError
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
            return work(admin)
    except (QuestionError, ConfigError) as error:
        return complain(command, in_kafka_names(str(error)), EXIT_WRONG_QUESTION)
    except (RefusalError, ClientError) as error:
        return complain(command, in_kafka_names(str(error)), EXIT_REFUSED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
