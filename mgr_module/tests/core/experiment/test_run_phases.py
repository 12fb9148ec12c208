"""Where each event takes a run's machine: the table, played from the machine itself."""

from collections import defaultdict, deque

import pytest
from played_run import SPECS, Played, before_a_look, phase

TABLE = """
waiting
    begin | mgr lost > looking
    silent | halt | past limit | no answer > aborted
looking
    silent > aborted
    halt | past limit | failed | odd | other state | not so > releasing | aborted
    no answer | ill | ill, later > giving back | ill | releasing | aborted
    answered > looking | setting | releasing
resuming
    lease lost | answered > setting
    silent > aborted
    halt | past limit | failed | odd | other state | not so > releasing
    no answer | ill | ill, later > giving back | releasing
setting
    lease lost | tick, too late > setting | releasing
    silent > aborted
    halt | past limit | failed | odd | not so > releasing
    no answer | ill | ill, later > giving back | releasing
    mgr lost > resuming | setting | deciding | releasing
    other state > looking | releasing | aborted
    answered > setting | settling | measuring
    answered, clean | answered, below | answered, target > settling
settling
    tick | tick, settled > reading | measuring
    lease lost > setting | releasing
    silent > aborted
    halt | past limit > releasing
    no answer | ill | ill, later > giving back | releasing
    tick, too late > setting | measuring | releasing
    mgr lost > resuming | setting | deciding | releasing
reading
    lease lost > setting | releasing
    silent > aborted
    halt | past limit | tick, too late | failed | odd | other state > releasing
    no answer | ill | ill, later > giving back | releasing
    mgr lost > setting
    not so > settling
    answered, clean > settling | writing
    answered, below > writing | draining
    answered, target > settling | draining
writing
    lease lost > setting | releasing
    silent > aborted
    halt | past limit | tick, too late | aborted > releasing
    no answer | ill | ill, later | load failed > giving back | releasing
    mgr lost > setting
    measured | nothing | unusable > reading
draining
    lease lost > setting | releasing
    silent > aborted
    halt | past limit | tick, too late | failed | odd | other state | not so > releasing
    no answer | ill | ill, later > giving back | releasing
    mgr lost > setting
    answered, clean | answered, below | answered, target > settling
measuring
    lease lost > setting | releasing
    silent > aborted
    halt | past limit | failed | odd | other state | not so | aborted | unusable > releasing
    no answer | ill | ill, later | load failed > giving back | releasing
    tick, too late > setting | measuring | releasing
    mgr lost > resuming | setting | deciding | releasing
    answered | measured > closing
    nothing > setting | closing | releasing
closing
    lease lost | not so > setting | releasing
    silent > aborted
    halt | past limit | failed | odd | other state > releasing
    no answer | ill | ill, later > giving back | releasing
    tick, too late > setting | closing | releasing
    mgr lost > resuming | setting | deciding | releasing
    answered > setting | closing | deciding
deciding
    silent > aborted
    halt | past limit | decided > releasing
    no answer | ill | ill, later > giving back | releasing
    mgr lost > resuming | deciding
    goes on > setting | releasing
giving back
    lease lost > giving back | aborted
    silent > aborted
    halt | past limit > releasing
    no answer | failed | odd | other state | not so > giving back | releasing
    answered > giving back | ill
    answered, clean | answered, below | answered, target > ill
ill
    silent | halt | past limit | ill, later > aborted
    no answer > ill | aborted
    well, later > looking | aborted
releasing
    lease lost | failed | odd | other state | not so > releasing | aborted
    silent > aborted
    answered > releasing | aborted | done
    answered, clean | answered, below | answered, target > aborted | done
"""


def table():
    """By phase and event the phases after it, each phase with its events in lines below it."""
    found = {}
    for line in TABLE.replace("\n        ", " ").splitlines():
        events, _, after = line.partition(" > ")
        if not after:
            at = line
        for event in events.split("|") if after else ():
            found[at, event.strip()] = {one.strip() for one in after.split("|")}
    return found


def alike(played):
    """What two worlds have in common from which the same may follow."""
    machine, now = played.machine, played.machine._now
    state = machine.state
    # each is bounded by itself: which one is nearest to its bound
    counts = (now.attempt, machine._releases, machine._looks, state.ill_times)
    most = max(counts)
    return (
        phase(machine), machine.state.index, now.slot.checks, now.slot.second,
        len(now.before), len(now.after), len(now.released), now.drained, most,
        counts.index(most), bool(state.load_failed), bool(state.priors),
    )


def walked(begun, found):
    """Add to `found` by phase and event the phases after it, from one world on."""
    seen, due = set(), deque([begun])
    while due:
        played = due.popleft()
        before = phase(played.machine)
        for event, then in played.offers():
            found[before, event].add(phase(then.machine))
            if alike(then) not in seen:
                seen.add(alike(then))
                due.append(then)


@pytest.mark.slow
def test_each_event_takes_a_run_where_the_table_says_and_nowhere_else():
    found = defaultdict(set)
    for name in SPECS:
        walked(Played.of(name), found)
    for name in ("pairs", "checks", "osd"):
        walked(Played.of(name, before_a_look(name)), found)
    assert {key: after for key, after in found.items() if after != {key[0]}} == table()
