"""How a channel is secured, and who calls."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import ssl
from collections.abc import Callable
from typing import Any, Optional, Union

import grpc

from hindsight import errors

#: A file.
Path = Union[str, "os.PathLike[str]"]
#: A token, the file of one as a pathlib.Path, or a function that returns one.
Token = Union[str, "os.PathLike[str]", Callable[[], str]]


class Security:
    """The options of TLS and of tokens. Files are read once, but a file of a token again after a change."""

    def __init__(
        self,
        address: str,
        *,
        tls: bool = False,
        ca: Optional[Path] = None,
        cert: Optional[Path] = None,
        key: Optional[Path] = None,
        server_name: str = "",
        token: Optional[Token] = None,
        token_in_plaintext: bool = False,
        credentials: Optional[grpc.ChannelCredentials] = None,
    ) -> None:
        secured = bool(tls or ca or cert or key or server_name)
        if secured and credentials is not None:
            raise ValueError("credentials and tls, ca, cert, key or server_name exclude each other")
        if (cert is None) != (key is None):
            raise ValueError("cert and key: want both or none")
        self.has_certificate = cert is not None or credentials is not None
        self.credentials = _credentials(ca, cert, key) if secured else credentials
        #: Why no server answers, empty if that is unknown; set by hindsight.local.
        self.ended: Callable[[], str] = str
        #: Options of the channel.
        self.options: dict[str, Any] = {"grpc.ssl_target_name_override": server_name} if server_name else {}
        self._token = _reader(token)
        if token is not None and self.credentials is None and not token_in_plaintext and not all(map(is_local, address.split(","))):
            raise ValueError(
                f"a token is not sent in plaintext to another machine, {address}: give tls=True or ca, or token_in_plaintext=True"
            )

    def metadata(self) -> Optional[tuple[tuple[str, str], ...]]:
        """The metadata of a call."""
        if self._token is None:
            return None
        try:
            token = self._token()
        except Exception as e:  # A function may raise anything.
            raise errors.Unauthenticated(f"the token cannot be read: {e}", code=grpc.StatusCode.UNAUTHENTICATED) from e
        if not token or not all("!" <= c <= "~" for c in token):
            raise errors.Unauthenticated(
                "the token must be printable ASCII without spaces", code=grpc.StatusCode.UNAUTHENTICATED,
            )
        return (("authorization", f"Bearer {token}"),)

    def error(self, error: Any, address: str) -> errors.HindsightError:
        """The error of a call that gRPC ended with an error, with what to do about it."""
        translated = errors.of_call(error, address)
        advice = self._advice(translated)
        if isinstance(translated, errors.Unreachable) and (why := self.ended()):
            advice, translated.ended = why, True
        if advice:
            translated.message += f"; {advice}"
            translated.args = (translated.message,)
        return translated

    def _advice(self, error: errors.HindsightError) -> str:
        text = error.message.lower()
        if isinstance(error, errors.Unauthenticated):
            if self._token is None:
                return "the server wants to know who calls: give token"
            return "the server does not take the token: it is wrong, expired or revoked"
        if not isinstance(error, errors.Unreachable):
            return ""
        for part, advice in _ADVICES:
            if part in text:
                return advice
        if any(part in text for part in _ENDED):
            if self.credentials is None:
                return "the server ended the connection before the call: it may want TLS; give tls=True or ca"
            if not self.has_certificate:
                return "the server ended the connection before the call: it may want a certificate of the client; give cert and key"
            return "the server ended the connection before the call: it may not take the client's certificate"
        return ""


#: What to do, by a part of the text of the TLS library. The text is the same for an expired
#: certificate and for an unknown CA.
_ADVICES = (
    ("wrong version number", "the server does not speak TLS: leave tls, ca, cert and key out, or start it with a certificate"),
    ("wrong_version_number", "the server does not speak TLS: leave tls, ca, cert and key out, or start it with a certificate"),
    ("certificate verify failed", "the server's certificate is of a CA that is not in ca, or not valid now"),
    ("certificate_verify_failed", "the server's certificate is of a CA that is not in ca, or not valid now"),
    ("is not in peer certificate", "the server's certificate is for another host: call it by a name of the certificate, or give server_name"),
    ("hostname verification check failed", "the server's certificate is for another host: call it by a name of the certificate, or give server_name"),
)
_ENDED = ("socket closed", "endpoint read failed", "connection reset", "broken pipe", "connection closed")


def is_local(address: str) -> bool:
    """Reports whether an address is of this machine, so that nobody can listen."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address[len("dns:///"):] if address.startswith("dns:///") else address
    host = host[1:].split("]")[0] if host.startswith("[") else host.rsplit(":", 1)[0] if host.count(":") == 1 else host
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _credentials(ca: Optional[Path], cert: Optional[Path], key: Optional[Path]) -> grpc.ChannelCredentials:
    files = [None if f is None else pathlib.Path(f).read_bytes() for f in (ca, key, cert)]
    # gRPC would report a broken file only in its log.
    checked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if ca is not None:
            checked.load_verify_locations(ca)
        if cert is not None and key is not None:
            # Without the function a key with a password would ask the terminal.
            checked.load_cert_chain(cert, key, password=lambda: "")
    except ssl.SSLError as e:
        raise ValueError(f"ca {ca}, cert {cert}, key {key}: {e}") from e
    return grpc.ssl_channel_credentials(*files)


def _reader(token: Optional[Token]) -> Optional[Callable[[], str]]:
    if token is None or callable(token):
        return token
    if isinstance(token, str):
        text = token.strip()
        return lambda: text
    return _File(pathlib.Path(token))


class _File:
    """The token in a file. It is read again when the file has changed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._read: tuple[Any, str] = (None, "")

    def __call__(self) -> str:
        status = self._path.stat()
        now, (before, text) = (status.st_mtime_ns, status.st_size), self._read
        if now != before:
            text = self._path.read_text(encoding="ascii", errors="replace").strip()
            self._read = (now, text)
        return text
