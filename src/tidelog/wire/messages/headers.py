"""The headers before each request and response.

A request's is v2 where the API's version is flexible, else v1; a response's is v1 or v0. The client id keeps its
two-byte length in v2, so that a broker can read the header of a version that it does not know.
"""

from tidelog.wire.schema import Int16, Int32, Message, String, field


class RequestHeader(Message, versions="1-2", flexible="2+"):
    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: String | None = field(compact=False)


class ResponseHeader(Message, versions="0-1", flexible="1+"):
    correlation_id: Int32
