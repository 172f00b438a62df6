"""`tidelog acls` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

if TYPE_CHECKING:
    from tidelog.cli.admin.acl_plan import AclQuestion


class Pattern(StrEnum):
    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


def _names(option: str, help_text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(option, metavar="NAME", help=help_text)
    return info


TopicOption = Annotated[list[str] | None, _names("--topic", "A topic; `*` for all. May be given several times.")]
GroupOption = Annotated[list[str] | None, _names("--group", "A group; `*` for all.")]
IdOption = Annotated[list[str] | None, _names("--transactional-id", "A transactional id; `*` for all.")]
UserOption = Annotated[list[str] | None, _names("--user-principal", "A principal that tokens are made for.")]
TokenOption = Annotated[list[str] | None, _names("--delegation-token", "The id of a delegation token.")]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
PatternOption = Annotated[
    Pattern,
    typer.Option("--resource-pattern-type", help="What a name stands for: itself, or all names that begin so."),
]
AllowOption = Annotated[
    list[str] | None, typer.Option("--allow-principal", metavar="TYPE:NAME", help="Who may; User:* is everybody.")
]
DenyOption = Annotated[list[str] | None, typer.Option("--deny-principal", metavar="TYPE:NAME", help="Who may not.")]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="ADDRESS", help="From where they may; without it from anywhere."),
]
DenyHostOption = Annotated[
    list[str] | None, typer.Option("--deny-host", metavar="ADDRESS", help="From where they may not.")
]
OperationOption = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="OPERATION", help="What is done, as in read or describe-configs; without it all."
    ),
]
ProducerOption = Annotated[bool, typer.Option("--producer", help="All that a producer to these topics needs.")]
ConsumerOption = Annotated[
    bool, typer.Option("--consumer", help="All that a consumer of these topics needs, in --group.")
]
IdempotentOption = Annotated[
    bool, typer.Option("--idempotent", help="With --producer, for clusters before 2.8: may write idempotently.")
]

app = command_group("List, add and remove ACLs of any Kafka cluster: who may do what.")


@app.command("list")
def list_(
    topics: TopicOption = None,
    groups: GroupOption = None,
    transactional_ids: IdOption = None,
    users: UserOption = None,
    tokens: TokenOption = None,
    cluster: ClusterOption = False,
    pattern: PatternOption = Pattern.ANY,
    principals: Annotated[
        list[str] | None, typer.Option("--principal", metavar="TYPE:NAME", help="Only those of this principal.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """List ACLs: all, or those of some resources and principals."""
    from tidelog.cli.admin.acls import list_acls  # noqa: PLC0415

    question = _question(topics, groups, transactional_ids, users, tokens, cluster, pattern, principals=principals)
    exit_with(lambda: list_acls(bootstrap, question, as_json=as_json))


@app.command()
def add(
    topics: TopicOption = None,
    groups: GroupOption = None,
    transactional_ids: IdOption = None,
    users: UserOption = None,
    tokens: TokenOption = None,
    cluster: ClusterOption = False,
    pattern: PatternOption = Pattern.LITERAL,
    allowed: AllowOption = None,
    denied: DenyOption = None,
    allowed_hosts: AllowHostOption = None,
    denied_hosts: DenyHostOption = None,
    operations: OperationOption = None,
    producer: ProducerOption = False,
    consumer: ConsumerOption = False,
    idempotent: IdempotentOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Give or take rights."""
    from tidelog.cli.admin.acls import add_acls  # noqa: PLC0415

    question = _question(
        topics,
        groups,
        transactional_ids,
        users,
        tokens,
        cluster,
        pattern,
        allowed,
        denied,
        allowed_hosts,
        denied_hosts,
        operations,
        is_producer=producer,
        is_consumer=consumer,
        is_idempotent=idempotent,
    )
    exit_with(lambda: add_acls(bootstrap, question, as_json=as_json))


@app.command()
def remove(
    topics: TopicOption = None,
    groups: GroupOption = None,
    transactional_ids: IdOption = None,
    users: UserOption = None,
    tokens: TokenOption = None,
    cluster: ClusterOption = False,
    pattern: PatternOption = Pattern.LITERAL,
    allowed: AllowOption = None,
    denied: DenyOption = None,
    allowed_hosts: AllowHostOption = None,
    denied_hosts: DenyHostOption = None,
    operations: OperationOption = None,
    producer: ProducerOption = False,
    consumer: ConsumerOption = False,
    idempotent: IdempotentOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Remove ACLs: those that `add` would give with the same options, or without an operation all of the resources named."""
    from tidelog.cli.admin.acls import remove_acls  # noqa: PLC0415

    question = _question(
        topics,
        groups,
        transactional_ids,
        users,
        tokens,
        cluster,
        pattern,
        allowed,
        denied,
        allowed_hosts,
        denied_hosts,
        operations,
        is_producer=producer,
        is_consumer=consumer,
        is_idempotent=idempotent,
    )
    exit_with(lambda: remove_acls(bootstrap, question, as_json=as_json))


def _question(
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    users: list[str] | None,
    tokens: list[str] | None,
    is_cluster: bool,
    pattern: Pattern,
    allowed: list[str] | None = None,
    denied: list[str] | None = None,
    allowed_hosts: list[str] | None = None,
    denied_hosts: list[str] | None = None,
    operations: list[str] | None = None,
    *,
    principals: list[str] | None = None,
    is_producer: bool = False,
    is_consumer: bool = False,
    is_idempotent: bool = False,
) -> AclQuestion:
    from tidelog.cli.admin.acl_plan import AclQuestion  # noqa: PLC0415
    from tidelog.model.acl import PatternType  # noqa: PLC0415

    return AclQuestion(
        topics=topics or (),
        groups=groups or (),
        transactional_ids=transactional_ids or (),
        users=users or (),
        delegation_tokens=tokens or (),
        is_cluster=is_cluster,
        principals=principals or (),
        pattern=PatternType[pattern.name],
        allowed=allowed or (),
        denied=denied or (),
        allowed_hosts=allowed_hosts or (),
        denied_hosts=denied_hosts or (),
        operations=operations or (),
        is_producer=is_producer,
        is_consumer=is_consumer,
        is_idempotent=is_idempotent,
    )
