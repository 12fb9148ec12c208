"""Everything that talks to Ceph, and what differs between its releases."""
