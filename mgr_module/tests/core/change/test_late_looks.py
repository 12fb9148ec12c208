"""An answer to a look at the cluster counts for the look that asked for it, and for no other."""

from gated_plan import GatedMgr
from wcache.core import events
from wcache.core.record import Precondition


class Looked(GatedMgr):
    """One whose looks at the cluster are not answered by themselves."""

    def __init__(self):
        self.looks = []
        super().__init__()

    def run(self, todo, lost_after=None):
        self.looks += [one for one in todo if isinstance(one, events.LookAtCluster)]
        super().run([one for one in todo if one not in self.looks], lost_after)


def test_what_was_seen_before_a_pause_begins_nothing_after_it():
    mgr = Looked()
    mgr.give(events.Begin())
    mgr.run(mgr.machine.pause("by an admin"))
    mgr.run(mgr.machine.resume(mgr.now_s))
    before, after = mgr.looks
    mgr.give(events.ClusterSeen(before.token, (), 4, mgr.controls))
    assert mgr.watch is None
    mgr.give(events.ClusterSeen(after.token, (Precondition.NO_UPGRADE,), 4, mgr.controls))
    assert mgr.watch is None
    assert mgr.machine.rollout.missed == (Precondition.NO_UPGRADE,)
