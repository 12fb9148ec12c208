"""Everything that talks to Ceph, whatever its release."""
