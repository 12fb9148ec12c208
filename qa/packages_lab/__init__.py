"""Hosts to install packages on: fresh roots of each Debian that has a Ceph of ours."""
