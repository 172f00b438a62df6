"""A principal as it travels inside an Envelope."""

from tidelog.wire.schema import Bool, Message, String


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: String
    name: String
    token_authenticated: Bool
