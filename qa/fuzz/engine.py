"""One target in a child of its own: libFuzzer by atheris, with what JSON needs besides."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, List, Tuple

from .target import Target

SECONDS_MAX, BYTES_MAX = 60, 65_536  # of one input, also where a busy machine starves it
RSS_MAX_MB = 512
# What parsers stumble over.
ODD: Tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, -0.0, 1e308, 1e-308, 2**31, 2**63 - 1, 2**63, 2**64,
    10**39, "", "a", "1", "-1", "nan", "\0", "\n", "\u202e", "\ud800", "x" * 1025, [], {}, [[]],
    [None], {"": None}, ["a"] * 5000,
)
ODD_JSON = tuple(map(json.dumps, ODD))
ODD_TEXTS = (b"1e999", b"NaN", b"-Infinity", b"9" * 5000, b"[" * 2000, b'{"a":' * 40, b"\xff")


def fuzz(target: Target, seconds: float, corpus: Path, artifacts: Path, seed: int) -> None:
    """Never returns: the process ends with libFuzzer's code, 0 where nothing was found."""
    import atheris

    for number, data in enumerate(target.inputs()):
        (corpus / f"seed{number:04}").write_bytes(data)
    mutate = mutator(lambda data, most: atheris.Mutate(data, most)) if any(
        data.lstrip()[:1] in (b"{", b"[") for data in target.inputs()
    ) else None
    os.chdir(artifacts)  # what a target writes by mistake is not left in the project
    atheris.Setup(
        ["fuzz", f"-max_total_time={max(1, round(seconds))}", f"-timeout={SECONDS_MAX}",
         f"-rss_limit_mb={RSS_MAX_MB}", f"-max_len={BYTES_MAX}", f"-seed={seed}",
         f"-artifact_prefix={artifacts}/{target.name}.", "-print_final_stats=1", str(corpus)],
        target.run, **({"custom_mutator": mutate} if mutate else {}),
    )
    atheris.Fuzz()
    sys.exit(0)


def mutator(mutate: Callable[[bytes, int], bytes]) -> Callable[[bytes, int, int], bytes]:
    """Changes the values of JSON as often as its bytes."""

    def changed(data: bytes, size_max: int, seed: int) -> bytes:
        chance = random.Random(seed)
        head, newline, body = data.partition(b"\n")
        if not newline or head.lstrip()[:1] in (b"{", b"["):
            head, body = b"", data
        if chance.random() < 0.6:
            try:
                plain = json.loads(body)
                for _ in range(chance.choice((1, 1, 2, 4))):
                    plain = other(plain, chance)
                body = json.dumps(plain).encode()
                if chance.random() < 0.05:
                    at = chance.randrange(len(body) + 1)
                    body = body[:at] + chance.choice(ODD_TEXTS) + body[at:]
                made = head + newline * bool(head) + body
                if len(made) <= size_max:
                    return made
            except (ValueError, RecursionError):
                pass
        return mutate(data, size_max)

    return changed


def other(plain: Any, chance: random.Random) -> Any:
    """The same with one of its values changed, left out, doubled, or put in another's place."""
    places = list(_places(plain))
    odd = json.loads(chance.choice(ODD_JSON))  # one of its own: it is changed itself later
    if not places:
        return odd
    holder, key = chance.choice(places)
    what = chance.randrange(6)
    if what < 3:
        holder[key] = odd
    elif what == 3:
        del holder[key]
    elif what == 4:
        source, name = chance.choice(places)
        holder[key] = json.loads(json.dumps(source[name]))
    elif isinstance(holder, list):
        holder.extend(holder[: chance.choice((1, 5000))])
    else:
        holder[chance.choice(("kind", "version", "a", str(key) + "x"))] = holder[key]
    return plain


def _places(plain: Any) -> Iterator[Tuple[Any, Any]]:
    """Every (object or list, key) below a value."""
    todo: List[Any] = [plain]
    while todo:
        holder = todo.pop()
        if isinstance(holder, (dict, list)):
            for key in [*(holder if isinstance(holder, dict) else range(len(holder)))]:
                yield holder, key
                todo.append(holder[key])
