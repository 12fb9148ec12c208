"""Messages to or from the mgr, checked on the probe's side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from wcache.core import across, codec, versions
from wcache.core.errors import MalformedError, VersionError
from wcache.core.protocol import (
    POST_BYTES_MAX,
    PROTOCOL_VERSION,
    REPLY_BYTES_MAX,
    PollReply,
    Post,
)

TTL_MAX_S = 3600.0
POLL_MIN_S = 0.01
POLL_MAX_S = 600.0
TEXT_CHARS_MAX = 900


@dataclass(frozen=True)
class Identity:
    """Who this probe is; `instance_id` is new at each start.

    `cluster_fsid` is the cluster whose mgr it talks to, as far as it knows.
    """

    hostname: str
    probe_id: str
    instance_id: str
    simulated: bool
    cluster_fsid: str = ""


class OtherProtocolError(VersionError):
    """The mgr is of another protocol; `order` is what it wants all the same, if it says so."""

    def __init__(self, version: int, order: Optional[across.Order]) -> None:
        todo = (
            "install the probe of the module's version" if version > PROTOCOL_VERSION
            else "update the module on the mgrs"
        )
        super().__init__(
            f"the mgr speaks protocol {version}, this probe {PROTOCOL_VERSION}; until they are "
            "the same it restores and does nothing else", todo,
        )
        self.version = version
        self.order = order


def decode_reply(text: str) -> PollReply:
    """A reply of the mgr; VersionError or MalformedError, one line, if it makes no sense."""
    plain = codec.parse_json(text, bytes_max=REPLY_BYTES_MAX, what="the mgr's reply")
    version = versions.number_in(plain)
    if version not in (0, PROTOCOL_VERSION) or across.is_across(plain):
        raise OtherProtocolError(
            version, across.order_in(plain) if across.is_across(plain) else None
        )
    reply = versions.take(PollReply, plain, "the mgr's reply")
    if not POLL_MIN_S <= reply.next_poll_s <= POLL_MAX_S:
        raise MalformedError(f"the mgr wants the next call in {reply.next_poll_s:g} s")
    if reply.lease is not None and not 0 < reply.lease.ttl_s <= TTL_MAX_S:
        raise MalformedError(f"the mgr gives a lease for {reply.lease.ttl_s:g} s")
    return reply


def encode_post(post: Post) -> str:
    """The post as JSON; MalformedError where the mgr would not take it.

    What a drive says of itself is in it, and drives say odd things.
    """
    try:
        text = versions.dumps(post)
    except ValueError as error:
        raise MalformedError(f"the answer cannot be sent ({error})") from None
    versions.loads(Post, text, bytes_max=POST_BYTES_MAX, what="the answer")
    return text


def printable(text: str) -> str:
    """Text that a message may carry: printable and not too long."""
    clean = "".join(char if char.isprintable() else " " for char in text)
    return clean if len(clean) <= TEXT_CHARS_MAX else clean[: TEXT_CHARS_MAX - 3] + "..."
