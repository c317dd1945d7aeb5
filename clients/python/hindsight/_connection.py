# Written by tools/blocking.py from aio/_connection.py: do not edit.
"""The blocking connection: its channel, its retries, its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional, TypeVar

import grpc

from hindsight._calls import Call
from hindsight._channel import DEFAULT_ADDRESS, DEFAULT_TIMEOUT, options, target
from hindsight._security import Path, Security, Token
from hindsight._servers import Servers, split
from hindsight._threads import exchange, insecure_channel, secure_channel, sleep
from hindsight.retry import Retry, Tries

C = TypeVar("C", bound="Connection")
T = TypeVar("T")


class Connection:
    """A connection to a server, or to the servers of a cluster. Threads may share it."""

    def __init__(
        self, channel: grpc.Channel, *others: grpc.Channel, address: str = "the given channel",
        timeout: float = DEFAULT_TIMEOUT, retry: Optional[Retry] = None, security: Optional[Security] = None,
    ) -> None:
        """Takes over a channel, or one for each server of a cluster; see connect for the usual way."""
        self._servers = Servers([channel, *others])
        self._security = security or Security(address)
        self._address = address
        self.timeout = timeout
        self.retry = retry or Retry()

    @classmethod
    def connect(
        cls: type[C],
        address: str = DEFAULT_ADDRESS,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retry: Optional[Retry] = None,
        keepalive: Optional[float] = 30.0,
        tls: bool = False,
        ca: Optional[Path] = None,
        cert: Optional[Path] = None,
        key: Optional[Path] = None,
        server_name: str = "",
        token: Optional[Token] = None,
        token_in_plaintext: bool = False,
        credentials: Optional[grpc.ChannelCredentials] = None,
        channel_options: Optional[dict[str, Any]] = None,
    ) -> C:
        """Returns a client of the server at an address, HOST or HOST:PORT.

        Addresses between commas are servers of one cluster: the client calls the first one that
        answers, and after a failure the next.

        The first call connects. timeout is the deadline of a call in seconds, for all its
        tries together. keepalive is after how many silent seconds the connection is probed.
        channel_options are options of gRPC.

        tls, ca, cert and key, or server_name encrypt the connection. ca is the CA
        file for verifying the server's certificate; the default is the system's CAs. cert and
        key are the client certificate and its key.
        server_name is the name in the server's TLS certificate, if the address has another
        name. credentials are credentials of gRPC in place of these options.

        token says who calls: a text, a function that returns it, or the file of it as a
        pathlib.Path, which may change. The token is sent over TLS or to this machine alone,
        unless token_in_plaintext is true.
        """
        names = [target(one) for one in split(address)]
        name = ",".join(names)
        security = Security(
            name, tls=tls, ca=ca, cert=cert, key=key, server_name=server_name, token=token,
            token_in_plaintext=token_in_plaintext, credentials=credentials,
        )
        settings = [options(one, keepalive, security.options | (channel_options or {})) for one in names]
        if security.credentials is None:
            channels = [insecure_channel(*one) for one in zip(names, settings)]
        else:
            channels = [secure_channel(one, security.credentials, its) for one, its in zip(names, settings)]
        return cls(*channels, address=name, timeout=timeout, retry=retry, security=security)

    def close(self) -> None:
        """Closes the connection. Calls in flight end."""
        for channel in self._servers.channels:
            channel.close()

    def __deepcopy__(self: C, memo: object) -> C:
        return self  # What is copied shares the connection.

    def __reduce__(self) -> Any:
        raise TypeError("a client cannot be pickled, since it has a connection: pickle the address")

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, call: Call[T], timeout: Optional[float] = None, request: Any = None) -> T:
        """Sends a call until it is answered, as the retry says, or until its deadline."""
        tries = Tries(self.retry, self.timeout if timeout is None else timeout, call.again)
        unsent = 0
        while True:
            left, place = self._servers.share(tries.begin()), self._servers.place(getattr(call.request, "model", ""))
            method = getattr(self._servers.stub(place.at, call.service), call.method)
            try:
                message = call.request if request is None else request()
                answer, trailers = exchange(method, message, timeout=left, metadata=self._security.metadata())
                self._servers.forwarded(place, trailers)
                return call.answer(answer, trailers)
            except grpc.RpcError as e:
                error = self._security.error(e, self._address)
            if self._servers.failed(place, error) and not self._servers.sent(error) and unsent + 1 < len(self._servers.channels):
                unsent += 1  # The next server may answer at once.
                tries.count -= 1
                continue
            if tries.count > 1 and call.done and error.reason == call.done:
                return call.read(None)
            sleep(tries.wait(error))

    def stream(self, call: Call[T], timeout: Optional[float] = None) -> Iterator[T]:
        """The answers of a call that has many."""
        place = self._servers.place()
        method = getattr(self._servers.stub(place.at, call.service), call.method)
        answers = method(call.request, timeout=timeout, metadata=self._security.metadata())
        try:
            for answer in answers:
                yield call.read(answer)
        except grpc.RpcError as e:
            error = self._security.error(e, self._address)
            self._servers.failed(place, error)
            raise error from None
        finally:
            answers.cancel()
