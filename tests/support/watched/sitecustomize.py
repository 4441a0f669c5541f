"""On `PYTHONPATH` of a test: every Python process tells that it began, and each connection that it is kept from making.

An audit hook sees what the interpreter's sockets do, whoever asks, and cannot be taken away. Code below the interpreter
is seen by the kernel's own counter of packets without a route, in a network of loopback alone.
"""

from __future__ import annotations

import ipaddress
import json
import os
import sys
from typing import Any

LOG = os.environ.get("TESTIGO_TEST_CONNECTIONS")
_LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
_SENDS = ("socket.connect", "socket.sendto", "socket.sendmsg")


def _tell(what: str, **more: Any) -> None:
    line = json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n"
    descriptor = os.open(str(LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def _is_here(host: Any) -> bool:
    if host in (None, "", b"", "localhost", "localhost.localdomain", os.uname().nodename):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _LOOKUPS:
        host = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
    elif event in _SENDS:
        address = arguments[1]
        if not isinstance(address, tuple):  # a socket in the file system, or one that is connected
            return
        host = address[0]
    else:
        return
    if not _is_here(host):
        _tell("refused", event=event, host=str(host), command=sys.orig_argv)
        raise ConnectionRefusedError(f"{event} of {host}: only loopback is allowed")


if LOG:
    _tell("began", command=sys.orig_argv)
    sys.addaudithook(_hook)
