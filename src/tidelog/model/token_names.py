"""Words by which configurations say how a token of OAUTHBEARER is got: Kafka's classes for it, and algorithms of assertions."""

from __future__ import annotations

_OAUTH = "org.apache.kafka.common.security.oauthbearer"

DEFAULT_RETRIEVER = f"{_OAUTH}.DefaultJwtRetriever"
CREDENTIALS_RETRIEVER = f"{_OAUTH}.ClientCredentialsJwtRetriever"
FILE_RETRIEVER = f"{_OAUTH}.FileJwtRetriever"
BEARER_RETRIEVER = f"{_OAUTH}.JwtBearerJwtRetriever"
RETRIEVERS = (DEFAULT_RETRIEVER, CREDENTIALS_RETRIEVER, FILE_RETRIEVER, BEARER_RETRIEVER)

RS256, ES256 = ASSERTION_ALGORITHMS = ("RS256", "ES256")


def retriever_names() -> str:
    """The classes as a person calls them."""
    return " or ".join(each.rpartition(".")[2] for each in RETRIEVERS)
