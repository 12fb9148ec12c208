"""What is stored is read back first: a value that the next mgr cannot read is not stored."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, Dict, List, Optional, Type

from ...core import codec, versions
from ...core.errors import StorageError, WcacheError
from ...core.record import RECORD_BYTES_MAX
from ...core.versions import Numbered

# What is larger is not put.
VALUE_BYTES_MAX = RECORD_BYTES_MAX


def readable(key: str, value: Numbered) -> str:
    """The text of a value; StorageError where `Archive` would not read it again."""
    text = versions.dumps(value)
    prove(type(value), key, text)
    return text


def own_name(value: Numbered) -> Optional[str]:
    """Return the name that a value says it is stored by (`STORED_BY`); None where it says none."""
    field = getattr(type(value), "STORED_BY", "")
    return str(attrgetter(field)(value)) if field else None


def require_key(key: str, value: Numbered) -> None:
    """Raise StorageError for a value that names another key as its own."""
    own = own_name(value)
    if own is not None and own != key.partition("/")[2]:
        raise StorageError(f"{key} has the value of {codec.one_line(own, 80)!r}")


def joined(head: Dict[str, Any], name: str, items: List[str]) -> str:
    """The text of a value; `head` is all of it but one field, which is a list."""
    return f'{json.dumps(head, allow_nan=False)[:-1]}, "{name}": [{", ".join(items)}]}}'


def prove(cls: Type[Numbered], key: str, text: str) -> None:
    """Raise StorageError where a text would not be read again."""
    try:
        versions.loads(cls, text, bytes_max=VALUE_BYTES_MAX, what=key)
    except WcacheError as error:
        raise StorageError(
            f"{error.message}, so it is not stored",
            "a host may report drives with names or texts that are too long",
        ) from None
