"""A cluster, a store, loads and probes without Ceph: real code of the module on fake ports."""
