"""Who is whom on the network, and a line in which nobody waits for somebody else's flood."""

from __future__ import annotations

import ipaddress
import threading
from collections import deque
from typing import Deque, Dict, Generic, Optional, TypeVar

Item = TypeVar("Item")


def network_of(address: str) -> str:
    """Whom an address counts for: an IPv4 address for itself, one of IPv6 for its /64.

    Whoever has one address of a /64 has all of it (RFC 6177).
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


class WaitingLine(Generic[Item]):
    """Takes from each network in turn; who comes when all is full is sent away, or the longest."""

    def __init__(self, most: int, of_one: int) -> None:
        self._most = most
        self._of_one = of_one
        self._waiting: Dict[str, Deque[Item]] = {}
        self._there = threading.Condition()
        self._closed = False

    def put(self, whose: str, item: Item) -> Optional[Item]:
        """Line up; returns the item that has to go for it, which may be itself."""
        with self._there:
            own = self._waiting.get(whose, ())
            if self._closed or len(own) >= self._of_one:
                return item
            gone = None
            if sum(map(len, self._waiting.values())) >= self._most:
                longest = max(self._waiting, key=lambda name: len(self._waiting[name]))
                if len(self._waiting[longest]) <= len(own) + 1:
                    return item
                gone = self._waiting[longest].pop()
            self._waiting.setdefault(whose, deque()).append(item)
            self._there.notify()
            return gone

    def take(self) -> Optional[Item]:
        """Wait for the next one; None once the line is closed."""
        with self._there:
            while not self._waiting and not self._closed:
                self._there.wait()
            if self._closed:
                return None
            whose = next(iter(self._waiting))
            own = self._waiting.pop(whose)
            item = own.popleft()
            if own:
                self._waiting[whose] = own  # behind all others
            return item

    def close(self) -> None:
        """Nobody is taken any more."""
        with self._there:
            self._closed = True
            self._there.notify_all()
