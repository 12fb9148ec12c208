"""What a probe of one cluster does with what another one has left on the host."""

import pytest
from sim_drives import BACK, OBEYS, THROUGH, Probe, hold
from wcache.core.drive.journal import EntryKind
from wcache.core.drive.prior import Prior, PriorError
from wcache_probe.arguments import parse
from wcache_probe.commands.restore import child_words
from wcache_probe.rados_link import fsid_in

OURS, THEIRS = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"


def test_an_entry_of_another_cluster_is_refused_by_name_and_one_of_ours_is_restored():
    probe = Probe()
    hold(probe)
    entry = probe.switcher.entry(EntryKind.LEASE, OBEYS)
    with pytest.raises(PriorError, match=f"is of cluster {entry.cluster_fsid}"):
        probe.switcher.restore_key(entry.key, Prior(cluster_fsid=THEIRS))
    assert probe.mode(OBEYS) is THROUGH
    probe.switcher.restore_key(entry.key, Prior(cluster_fsid=entry.cluster_fsid))
    assert probe.mode(OBEYS) is BACK


def test_what_restores_is_told_the_cluster_where_it_is_known():
    options = parse(["run", "--state-dir", "/s"])
    assert "--fsid" not in child_words(options)
    words = [*child_words(options, OURS), "lease/d"]
    assert parse(words).fsid == OURS


@pytest.mark.parametrize(
    ("text", "fsid"),
    [
        (f"[global]\n\tfsid = {OURS}\n", OURS), (f"fsid={OURS} # ours", OURS),
        (f"[osd]\nfsid = {THEIRS}\n[global]\nfsid = {OURS}", OURS),
        (f"[osd]\nfsid = {THEIRS}\n", ""), ("[global]\nfsid = no\n", ""), ("", ""),
    ],
)
def test_the_cluster_is_known_from_the_configuration_before_librados_is_loaded(
    tmp_path, text, fsid
):
    path = tmp_path / "ceph.conf"
    path.write_text(text)
    assert fsid_in(str(path)) == fsid
    assert fsid_in(str(tmp_path / "none")) == ""
