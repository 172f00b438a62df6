"""What the controller goes by: the part of its node's configuration that decisions depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from tidelog.controller.cluster_view import BROKER_RESOURCE, TopicDefaults
from tidelog.controller.image_delta import TOPIC_RESOURCE
from tidelog.model import controller_config as keys, token_config
from tidelog.model.config import ConfigKeys, ConfigValues
from tidelog.model.ids import NodeId
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.security.delegation_tokens import TokenSecret


class ControllerSettings(Struct, frozen=True):
    """Names are those of the keys. `config_keys` are the tables by which new configuration is checked, by resource type;
    a type without a table cannot be configured, and broker keys are checked by the broker that passes the request on."""

    node_id: NodeId
    cluster_id: str
    topic_defaults: TopicDefaults = field(default_factory=TopicDefaults)
    config_keys: Mapping[int, ConfigKeys | None] = field(
        default_factory=lambda: {TOPIC_RESOURCE: TOPIC_KEYS, BROKER_RESOURCE: None}
    )
    config_problems: Mapping[int, Callable[[Mapping[str, str]], str | None]] = field(default_factory=dict)
    """By resource type: what is wrong with a resource's values as a whole, each of which is right by itself."""
    num_partitions: int = keys.NUM_PARTITIONS.default
    default_replication_factor: int = keys.DEFAULT_REPLICATION_FACTOR.default
    delete_topic_enable: bool = keys.DELETE_TOPIC_ENABLE.default
    broker_session_timeout_ms: int = keys.BROKER_SESSION_TIMEOUT_MS.default
    max_idle_interval_ms: int = keys.METADATA_MAX_IDLE_INTERVAL_MS.default
    auto_leader_rebalance_enable: bool = keys.AUTO_LEADER_REBALANCE_ENABLE.default
    leader_imbalance_check_interval_seconds: int = keys.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS.default
    token_secret: TokenSecret | None = None
    """None: there are no delegation tokens."""
    delegation_token_max_lifetime_ms: int = token_config.DELEGATION_TOKEN_MAX_LIFETIME_MS.default
    delegation_token_expiry_time_ms: int = token_config.DELEGATION_TOKEN_EXPIRY_TIME_MS.default
    delegation_token_expiry_check_interval_ms: int = token_config.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS.default

    @classmethod
    def from_values(
        cls,
        values: ConfigValues,
        *,
        node_id: NodeId,
        cluster_id: str,
        topic_defaults: TopicDefaults | None = None,
        config_keys: Mapping[int, ConfigKeys | None] | None = None,
        config_problems: Mapping[int, Callable[[Mapping[str, str]], str | None]] | None = None,
    ) -> ControllerSettings:
        """The settings that a node's parsed configuration gives."""
        secret = values[token_config.DELEGATION_TOKEN_SECRET_KEY]
        return cls(
            node_id=node_id,
            cluster_id=cluster_id,
            topic_defaults=topic_defaults or TopicDefaults(),
            config_keys=config_keys or {TOPIC_RESOURCE: TOPIC_KEYS, BROKER_RESOURCE: None},
            config_problems=config_problems or {},
            num_partitions=values[keys.NUM_PARTITIONS],
            default_replication_factor=values[keys.DEFAULT_REPLICATION_FACTOR],
            delete_topic_enable=values[keys.DELETE_TOPIC_ENABLE],
            broker_session_timeout_ms=values[keys.BROKER_SESSION_TIMEOUT_MS],
            max_idle_interval_ms=values[keys.METADATA_MAX_IDLE_INTERVAL_MS],
            auto_leader_rebalance_enable=values[keys.AUTO_LEADER_REBALANCE_ENABLE],
            leader_imbalance_check_interval_seconds=values[keys.LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS],
            token_secret=TokenSecret(secret) if secret else None,
            delegation_token_max_lifetime_ms=values[token_config.DELEGATION_TOKEN_MAX_LIFETIME_MS],
            delegation_token_expiry_time_ms=values[token_config.DELEGATION_TOKEN_EXPIRY_TIME_MS],
            delegation_token_expiry_check_interval_ms=values[token_config.DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS],
        )

    @property
    def topic_keys(self) -> ConfigKeys:
        return self.config_keys.get(TOPIC_RESOURCE) or TOPIC_KEYS
