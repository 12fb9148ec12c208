# Ceph's C++ side, present only inside a mgr.
