"""The modelled drives that the guest sees, each behind a process of nbdkit."""
