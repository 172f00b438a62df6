"""The schema registry that decoders and encoders ask, as a file says it: data, without a connection."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from tidelog.spark.formats.schema_registry import RegistryAddress, RegistryError, check_url
from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.secret_references import has_reference


@lenient
@dataclass(frozen=True, slots=True)
class Registry(Declaration):
    """Where it is, and who asks. Driver and workers ask it: secrets are references, which each of them resolves."""

    url: str
    _: KW_ONLY
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    """As in '${env:REGISTRY_PASSWORD}'."""
    token: str | None = field(default=None, repr=False)
    """A bearer's, instead of a user and a password."""
    ca: str | None = None
    """A file of certificates in PEM that are trusted, instead of the system's."""

    def problems(self) -> list[str]:
        """What is wrong with it, without asking."""
        found = list(getattr(self, "mistakes", ()))
        given = {name: getattr(self, name) for name in ("url", "user", "password", "token", "ca")}
        wrong = [name for name, value in given.items() if not isinstance(value, str | None)]
        found += [f"{name} of Registry is a {type(given[name]).__name__}; it is text" for name in wrong]
        if found:
            return found
        try:
            check_url(self.url)
        except RegistryError as error:
            found.append(str(error))
        found += [
            f"Registry holds the {name} itself, which the file would show: refer to it, as in ${{env:{name.upper()}}}"
            for name in ("password", "token")
            if given[name] is not None and not has_reference(given[name])
        ]
        if self.token is not None and (self.user is not None or self.password is not None):
            found.append("Registry has a token, and a user or a password: give one of them")
        if self.password is not None and self.user is None:
            found.append("Registry has a password, and no user")
        return found

    @property
    def address(self) -> RegistryAddress:
        return RegistryAddress(self.url, self.user, self.password, self.token, self.ca)


def address_of(registry: str | Registry) -> RegistryAddress:
    return RegistryAddress(registry) if isinstance(registry, str) else registry.address


def registry_problems(registry: object) -> list[str]:
    """Of what a decoder is given as its registry."""
    match registry:
        case None:
            return []
        case str():
            return Registry(registry).problems()
        case Registry():
            return registry.problems()
    return [f"registry is a {type(registry).__name__}; it is an address, as in 'http://127.0.0.1:8081', or a Registry"]
